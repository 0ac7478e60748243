//! A conversation with one coordinator.

use parking_lot::Mutex;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout};
use vocab::limits::BENCH_FRAME_BYTES_MAX;

use super::frame::{FrameReader, write_frame};
use super::handshake;
use super::message::{FromAgent, ToAgent};
use super::work::{Order, Outbox, work};

/// How long the conversation may take to notice that it should end.
const LISTEN: Duration = Duration::from_millis(100);
/// A coordinator that has not read for this long counts as gone.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// How often the system asks whether the machine of a silent coordinator is there.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// A machine that acknowledges nothing for this long is gone, in ms.
const GONE_MS: u32 = 30_000;

/// What all conversations of an agent share.
pub(super) struct Common<'a> {
    pub(super) version: &'a str,
    pub(super) secret: &'a [u8],
    /// Each of these two ends a job.
    pub(super) stop: [&'a AtomicBool; 2],
    /// Whether the agent works for a coordinator.
    pub(super) busy: &'a AtomicBool,
    /// The moment from which the agent's clock counts.
    pub(super) epoch: Instant,
}

/// A job under way.
struct UnderWay<'scope> {
    orders: Sender<Order>,
    stop: Arc<AtomicBool>,
    thread: ScopedJoinHandle<'scope, ()>,
}

/// Talks until either side ends the conversation.
///
/// # Errors
/// The coordinator is gone, refused, or does not speak as it should.
pub(super) fn converse(mut stream: TcpStream, common: &Common<'_>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LISTEN))?;
    stream.set_write_timeout(Some(WRITE_WITHIN))?;
    notice_loss(&stream)?;
    let mut reader = FrameReader::default();
    handshake::answer(&mut stream, &mut reader, common.secret, common.version)?;
    if common.busy.swap(true, Ordering::AcqRel) {
        return write_frame(&mut stream, &FromAgent::Refused("it works for another coordinator".to_owned()));
    }
    let out = Outbox::new(stream.try_clone()?);
    let result = std::thread::scope(|scope| {
        let mut job: Option<UnderWay<'_>> = None;
        let result = loop {
            if common.stop.iter().any(|stop| stop.load(Ordering::Relaxed)) {
                break Ok(());
            }
            let message = match reader.next::<ToAgent>(&mut stream, BENCH_FRAME_BYTES_MAX) {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(error) => break Err(error),
            };
            let order = match message {
                ToAgent::Ping(token) => {
                    let at_ns = common.epoch.elapsed().as_nanos() as u64;
                    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    if let Err(error) = out.send(&FromAgent::Pong { token, at_ns, unix_ns: unix.as_nanos() as u64 }) {
                        break Err(error);
                    }
                    continue;
                }
                ToAgent::Prepare(next) => {
                    if job.as_ref().is_some_and(|job| !job.thread.is_finished()) {
                        break Err(io::Error::other("a second job while the first is under way"));
                    }
                    let (orders, inbox) = mpsc::channel();
                    let stop = Arc::new(AtomicBool::new(false));
                    let (out, theirs) = (out.clone(), Arc::clone(&stop));
                    let place = (common.version, common.epoch);
                    let thread = scope.spawn(move || work(&next, &out, &Mutex::new(inbox), &theirs, place));
                    job = Some(UnderWay { orders, stop, thread });
                    continue;
                }
                ToAgent::Begin { at_ns } => Order::Begin(common.epoch + Duration::from_nanos(at_ns)),
                ToAgent::Go(place) => Order::Go(place),
                ToAgent::Stop => Order::Stop,
                ToAgent::Hello(_) | ToAgent::Proof(_) => break Err(io::Error::other("a second hello")),
            };
            if let Some(job) = &job {
                if matches!(order, Order::Stop) {
                    job.stop.store(true, Ordering::Relaxed);
                }
                // A job that has ended needs no orders.
                let _ = job.orders.send(order);
            }
        };
        if let Some(job) = job {
            job.stop.store(true, Ordering::Relaxed);
        }
        result
    });
    common.busy.store(false, Ordering::Release);
    result
}

/// Has the connection end when the coordinator's machine is lost, which takes no leave: the agent is to be free for the next one.
fn notice_loss(stream: &TcpStream) -> io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, ASK_EVERY)?;
    set_tcp_keepintvl(stream, ASK_EVERY)?;
    Ok(set_tcp_user_timeout(stream, GONE_MS)?)
}

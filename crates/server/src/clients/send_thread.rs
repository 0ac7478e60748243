//! A thread that sends answers while its worker goes on.
//!
//! A worker that makes the fsyncs of its log itself has answers for many clients at once. Sending them takes a third of
//! its time, while other processors are idle (docs/adr/0020). Answers are sent in the order in which they were handed
//! over. What a socket does not take is given back, with all that was to follow it.
//!
//! Invariant: from the hand-over of a connection's bytes to the end of their round, the thread alone sends to it.

use super::registry::ClientId;
use crate::mailbox::{Mailbox, WorkerMessage};
use crate::net::{SendEnd, Stream};
use crate::os::spawn_critical;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// With more bytes queued the worker waits for the thread. The thread waits for no client, so that is short.
const QUEUED_BYTES_MAX: usize = 1 << 20;
/// About what an answer takes beyond its bytes.
const PARCEL_BYTES: usize = 64;

/// Bytes of one or more answers to one client; most are short.
type Bytes = SmallVec<[u8; 40]>;

/// What the thread is to do next.
enum Parcel {
    /// The connection of this place has this stream.
    Open(usize, Stream),
    Answers(ClientId, Bytes),
    /// The connection of this place is closed.
    Close(usize),
}

impl Parcel {
    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        let Self::Answers(_, bytes) = self else { return PARCEL_BYTES };
        bytes.len() + PARCEL_BYTES
    }
}

/// What could not be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unsent {
    pub(super) to: ClientId,
    pub(super) bytes: Vec<u8>,
    /// The stream is broken.
    pub(super) broken: bool,
}

/// What worker and thread share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The newest round that the thread has finished.
    over: AtomicU64,
    /// `unsent` is not empty.
    has_unsent: AtomicBool,
    mailbox: Arc<Mailbox>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Parcel>,
    /// About how much memory `queue` takes.
    bytes: usize,
    /// The number of the newest round that is not empty.
    round: u64,
    unsent: Vec<Unsent>,
    /// The thread waits for work.
    sleeps: bool,
    /// The worker waits, for room or for the end of a round.
    is_awaited: bool,
    stopped: bool,
}

/// The way to the thread; dropping it ends it.
pub(super) struct SendThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// One round of handing answers over; the thread begins with them when it is dropped.
pub(super) struct Round<'a> {
    shared: &'a Shared,
    state: MutexGuard<'a, State>,
    over: u64,
    /// It has a number of its own.
    has_begun: bool,
}

impl SendThread {
    /// `mailbox`: of the worker, to wake it when something is given back.
    pub(super) fn start(name: &str, mailbox: Arc<Mailbox>) -> std::io::Result<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let (over, has_unsent) = (AtomicU64::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { state, changed, over, has_unsent, mailbox });
        let of_thread = shared.clone();
        let thread = spawn_critical(name, move || of_thread.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Whether everything that was handed over up to a round is sent, and nothing is to be taken back.
    pub(super) fn has_sent(&self, round: u64) -> bool {
        // In this order: what a round gives back is there before the round is over.
        let is_over = self.shared.over.load(Ordering::Acquire) >= round;
        is_over && !self.shared.has_unsent.load(Ordering::Acquire)
    }

    /// Begins a round. Waits if more than `QUEUED_BYTES_MAX` is queued.
    pub(super) fn round(&self) -> Round<'_> {
        let mut state = self.shared.state();
        while state.bytes > QUEUED_BYTES_MAX {
            state.is_awaited = true;
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // Under the lock: what is over has given back what it could not send.
        let over = self.shared.over.load(Ordering::Acquire);
        Round { shared: &self.shared, state, over, has_begun: false }
    }

    /// Waits until everything that was handed over up to a round is sent or given back.
    pub(super) fn wait_for(&self, round: u64) {
        let mut state = self.shared.state();
        while self.shared.over.load(Ordering::Acquire) < round {
            state.is_awaited = true;
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A connection is closed: the thread drops its stream once it has sent what was handed over.
    pub(super) fn close(&self, id: usize) {
        self.round().add(Parcel::Close(id));
    }

    /// Ends the thread, once all is sent that can be.
    pub(super) fn stop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for SendThread {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Round<'_> {
    /// The number of the newest round that is not empty.
    pub(super) fn number(&self) -> u64 {
        self.state.round
    }

    /// What could not be sent in earlier rounds.
    pub(super) fn take_unsent(&mut self) -> Vec<Unsent> {
        self.shared.has_unsent.store(false, Ordering::Release);
        std::mem::take(&mut self.state.unsent)
    }

    /// Whether everything that was handed over in a round is sent or given back.
    pub(super) fn is_over(&self, round: u64) -> bool {
        round <= self.over
    }

    /// Gives the thread the stream of a connection.
    pub(super) fn open(&mut self, id: usize, stream: Stream) {
        self.add(Parcel::Open(id, stream));
    }

    /// Hands answers over.
    pub(super) fn send(&mut self, to: ClientId, bytes: &[u8]) {
        self.add(Parcel::Answers(to, Bytes::from_slice(bytes)));
    }

    fn add(&mut self, parcel: Parcel) {
        self.state.round += u64::from(!std::mem::replace(&mut self.has_begun, true));
        self.state.bytes += parcel.bytes();
        self.state.queue.push_back(parcel);
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        if self.state.sleeps && !self.state.queue.is_empty() {
            self.state.sleeps = false;
            self.shared.changed.notify_all();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let (mut parcels, mut unsent, mut round) = (VecDeque::new(), BTreeMap::new(), 0);
        let mut streams: Vec<Option<Stream>> = Vec::new();
        while self.next(&mut parcels, &mut unsent, &mut round) {
            for parcel in parcels.drain(..) {
                match parcel {
                    Parcel::Open(id, stream) => {
                        streams.resize_with(streams.len().max(id + 1), || None);
                        streams[id] = Some(stream);
                    }
                    Parcel::Answers(to, bytes) => match streams.get(to.id).and_then(Option::as_ref) {
                        Some(stream) => deliver(stream, to, &bytes, &mut unsent),
                        None => unreachable!("answers to a connection that was not opened, or closed"),
                    },
                    Parcel::Close(id) => {
                        unsent.remove(&id);
                        streams[id] = None;
                    }
                }
            }
        }
    }

    /// Everything up to `round` is sent or to be given back: takes what has come since. False at the end.
    fn next(&self, parcels: &mut VecDeque<Parcel>, unsent: &mut BTreeMap<usize, Unsent>, round: &mut u64) -> bool {
        let mut state = self.state();
        if !unsent.is_empty() {
            state.give_back(std::mem::take(unsent));
            self.has_unsent.store(true, Ordering::Release);
            self.mailbox.send(WorkerMessage::Unsent);
        }
        self.over.store(*round, Ordering::Release);
        self.let_worker_go(&mut state);
        while state.queue.is_empty() {
            if state.stopped {
                return false;
            }
            state.sleeps = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.sleeps = false;
        std::mem::swap(&mut state.queue, parcels);
        state.bytes = 0;
        self.let_worker_go(&mut state);
        *round = state.round;
        true
    }

    fn let_worker_go(&self, state: &mut State) {
        if std::mem::take(&mut state.is_awaited) {
            self.changed.notify_all();
        }
    }
}

impl State {
    /// Gives back what could not be sent, with what is queued for the same connections.
    fn give_back(&mut self, mut unsent: BTreeMap<usize, Unsent>) {
        let Self { queue, bytes, .. } = self;
        queue.retain(|parcel| match parcel {
            Parcel::Answers(to, answers) if follow(&mut unsent, *to, answers) => {
                *bytes -= parcel.bytes();
                false
            }
            _ => true,
        });
        self.unsent.extend(unsent.into_values());
    }
}

/// Appends bytes to those of their connection that could not be sent; false if there are none.
fn follow(unsent: &mut BTreeMap<usize, Unsent>, to: ClientId, bytes: &[u8]) -> bool {
    let before = unsent.get_mut(&to.id).filter(|unsent| unsent.to == to);
    before.map(|before| before.bytes.extend_from_slice(bytes)).is_some()
}

/// Sends what the stream takes without waiting; the rest is added to `unsent`.
fn deliver(stream: &Stream, to: ClientId, bytes: &[u8], unsent: &mut BTreeMap<usize, Unsent>) {
    if follow(unsent, to, bytes) {
        return;
    }
    let sent = stream.send(bytes);
    let broken = match sent.end {
        SendEnd::Done => return,
        SendEnd::Full => false,
        SendEnd::Broken(_) => true,
    };
    unsent.insert(to.id, Unsent { to, bytes: bytes[sent.bytes..].to_vec(), broken });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use mio::{Poll, Token, Waker};
    use std::io::Read;
    use std::net::{TcpListener, TcpStream as Socket};

    fn start() -> (SendThread, Arc<Mailbox>, TcpListener) {
        let poll = Poll::new().unwrap();
        let mailbox = Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (SendThread::start("send-test", mailbox.clone()).unwrap(), mailbox, listener)
    }

    /// A connection with that place, which the thread knows, and its client's end.
    fn connect(sends: &SendThread, listener: &TcpListener, id: usize) -> (ClientId, Socket) {
        let socket = Socket::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        sends.round().open(id, Stream::plain(stream));
        (ClientId { id, generation: 7 }, socket)
    }

    struct Client {
        socket: Socket,
        to: ClientId,
        sent: Vec<u8>,
        given_back: Vec<u8>,
    }

    /// Rounds of answers until those to a client that reads nothing are given back: what it finds in its socket later, and
    /// what was given back, is all of it, in order; the others get theirs.
    #[test]
    fn all_bytes_are_sent_in_order_or_given_back() {
        let (mut sends, mailbox, listener) = start();
        let mut clients = Vec::new();
        for id in 0..4 {
            let (to, socket) = connect(&sends, &listener, id);
            clients.push(Client { socket, to, sent: Vec::new(), given_back: Vec::new() });
        }
        let mut round_of_last = 0;
        for n in 0..1_000_000_u32 {
            let mut round = sends.round();
            for unsent in round.take_unsent() {
                assert_eq!((unsent.to, unsent.broken), (clients[0].to, false));
                assert!(clients[0].given_back.is_empty(), "the worker sends what comes after that");
                clients[0].given_back = unsent.bytes;
            }
            if !clients[0].given_back.is_empty() {
                break;
            }
            for client in &mut clients {
                let length = if client.to.id == 0 { n as usize % 20_000 } else { 10 };
                let bytes = vec![(n % 251) as u8; length];
                round.send(client.to, &bytes);
                client.sent.extend_from_slice(&bytes);
            }
            round_of_last = round.number();
            drop(round);
            for client in &mut clients[1..] {
                let mut found = [0; 10];
                client.socket.read_exact(&mut found).unwrap();
                assert_eq!(found, client.sent[client.sent.len() - 10..]);
            }
        }
        assert!(!clients[0].given_back.is_empty(), "some socket takes any amount");
        let mut messages = Vec::new();
        mailbox.take(&mut messages);
        assert!(matches!(messages[..], [WorkerMessage::Unsent]));
        clients.iter().for_each(|client| sends.close(client.to.id));
        let round = sends.round().number();
        sends.wait_for(round);
        assert!(sends.has_sent(round_of_last) && sends.round().is_over(round_of_last));
        sends.stop();
        for client in &mut clients {
            let mut found = Vec::new();
            client.socket.read_to_end(&mut found).unwrap();
            found.extend_from_slice(&client.given_back);
            assert!(client.to.id > 0 || found == client.sent);
        }
    }

    /// With much queued behind what finds out that a socket is full, the worker is not left waiting for room in the queue.
    #[test]
    fn what_follows_to_a_full_socket_is_given_back_too() {
        let (sends, _inbox, listener) = start();
        let (to, _client) = connect(&sends, &listener, 0);
        let mut whole = 0;
        for n in 0..300_u32 {
            let (first, second) = (vec![1; 10 + n as usize], vec![2; QUEUED_BYTES_MAX + 1]);
            sends.round().send(to, &first);
            sends.round().send(to, &second);
            let mut bytes = Vec::new();
            while !sends.has_sent(sends.round().number()) {
                bytes.extend(sends.round().take_unsent().into_iter().flat_map(|unsent| unsent.bytes));
                std::thread::yield_now();
            }
            // In the first turns the socket takes some.
            let all = [first, second].concat();
            assert!(all.ends_with(&bytes), "{n}: {} bytes", bytes.len());
            whole += u32::from(bytes.len() == all.len());
        }
        assert!(whole > 100, "{whole} turns found the socket full");
    }

    /// Also of what is queued behind the answers that find it out.
    #[test]
    fn a_client_that_is_gone_is_given_back_as_broken_once() {
        let (mut sends, _inbox, listener) = start();
        let _client = Socket::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.set_nonblocking(true).unwrap();
        let to = ClientId { id: 0, generation: 1 };
        let mut round = sends.round();
        round.open(0, Stream::plain(stream));
        (0..10).for_each(|n| round.send(to, &[n; 3]));
        drop(round);
        sends.stop();
        let bytes = (0..10).flat_map(|n| [n; 3]).collect();
        assert_eq!(sends.round().take_unsent(), [Unsent { to, bytes, broken: true }]);
    }
}

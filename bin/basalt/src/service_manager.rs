//! What a node tells the service manager that has started it: the protocol of sd_notify(3), datagrams to `NOTIFY_SOCKET`.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How much longer a start or a stop may take, asked for again and again while it works.
const EXTENSION: Duration = Duration::from_secs(60);
const EXTEND_EVERY: Duration = Duration::from_secs(15);

/// The service manager, if there is one.
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// How often it wants to hear that the node works.
    watchdog: Option<Duration>,
    told: Instant,
}

impl ServiceManager {
    /// The one that the environment names.
    pub fn of_environment() -> Self {
        let text = |name: &str| std::env::var(name).ok();
        let socket = text("NOTIFY_SOCKET").and_then(|path| match connect(&path) {
            Ok(socket) => Some(socket),
            Err(e) => {
                log::warn!("the service manager cannot be told anything: NOTIFY_SOCKET {path}: {e}");
                None
            }
        });
        let is_for_us = text("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let micros = text("WATCHDOG_USEC").filter(|_| is_for_us).and_then(|micros| micros.parse().ok());
        // Twice as often as it must be, as sd_watchdog_enabled(3) says.
        let watchdog = micros.map(|micros| Duration::from_micros(micros) / 2).filter(|every| !every.is_zero());
        Self { socket, watchdog, told: Instant::now() }
    }

    /// The node serves.
    pub fn ready(&self) {
        self.tell("READY=1\nSTATUS=serves\n");
    }

    /// The node stops.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stops\n");
    }

    /// How often it wants to hear that the node works, if it does.
    pub fn watches(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The node worked at that time: to be called more often than the watchdog asks.
    pub fn tick(&mut self, worked: Instant) {
        let Some(every) = self.watchdog else { return };
        if self.told.elapsed() >= every && worked > self.told {
            self.told = Instant::now();
            self.tell("WATCHDOG=1\n");
        }
    }

    /// While the answer lives, the manager is asked for more time: a start reads the whole log, which may be long.
    pub fn patience(&self) -> Option<Patience> {
        let socket = self.socket.as_ref()?.try_clone().ok()?;
        let (done, is_done) = channel::<()>();
        let ask = move || loop {
            // A manager that is gone is not waited for.
            let _ = socket.send(format!("EXTEND_TIMEOUT_USEC={}\n", EXTENSION.as_micros()).as_bytes());
            if !matches!(is_done.recv_timeout(EXTEND_EVERY), Err(RecvTimeoutError::Timeout)) {
                return;
            }
        };
        let thread = std::thread::Builder::new().name("patience".to_owned()).spawn(ask).ok()?;
        Some(Patience { done: Some(done), thread: Some(thread) })
    }

    fn tell(&self, text: &str) {
        // A manager that is gone hears nothing, and nothing depends on it.
        if let Some(Err(e)) = self.socket.as_ref().map(|socket| socket.send(text.as_bytes())) {
            log::debug!("the service manager was not told `{}`: {e}", text.trim_end());
        }
    }
}

/// A socket that sends there. A name that begins with `@` is one of Linux' abstract names.
fn connect(path: &str) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match path.strip_prefix('@') {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(path)?,
    }
    // A manager that does not read keeps nothing waiting.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Something that takes time; dropped when it is done.
pub struct Patience {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Patience {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

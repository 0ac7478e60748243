//! What is known of the device below the log: whether it has room, and whether an fsync has failed.

use parking_lot::Mutex;
use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use vocab::is_shortage;

/// Whether the device takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskState {
    /// It does.
    Healthy,
    /// No room: writes are refused until there is some.
    Full,
    /// Descriptors or memory are short: writes are refused until there are some.
    Short,
    /// An fsync failed: nothing is written until restart.
    Poisoned,
}

/// What is known of the device; shared by the log, the shards and the shell.
#[derive(Debug, Default)]
pub struct DiskHealth {
    state: AtomicU8,
    log_waits: AtomicBool,
    gives_up: AtomicBool,
    /// Whether a write that finds no room may wait for it.
    patient: AtomicBool,
    reason: Mutex<String>,
    log_fsyncs: AtomicU64,
    /// What `log_fsyncs` was when a log file last grew.
    fsyncs_at_growth: AtomicU64,
}

impl DiskHealth {
    /// The state now.
    #[must_use]
    pub fn state(&self) -> DiskState {
        match self.state.load(Ordering::Acquire) {
            HEALTHY => DiskState::Healthy,
            FULL => DiskState::Full,
            SHORT => DiskState::Short,
            _ => DiskState::Poisoned,
        }
    }

    /// Why it is not healthy; empty if it is.
    #[must_use]
    pub fn reason(&self) -> String {
        self.reason.lock().clone()
    }

    /// How many fsyncs of log files have succeeded.
    #[must_use]
    pub fn log_fsyncs(&self) -> u64 {
        self.log_fsyncs.load(Ordering::Relaxed)
    }

    /// An fsync of a log file has succeeded.
    pub(crate) fn log_fsynced(&self) {
        self.log_fsyncs.fetch_add(1, Ordering::Relaxed);
    }

    /// A log file grows: whether so many fsyncs came since the last time that filling it with zeros pays.
    pub(crate) fn grows_between_fsyncs(&self) -> bool {
        let fsyncs = self.log_fsyncs();
        fsyncs - self.fsyncs_at_growth.swap(fsyncs, Ordering::Relaxed).min(fsyncs) >= FSYNCS_THAT_PAY
    }

    /// Whether a write of the log itself is waiting for room right now.
    #[must_use]
    pub fn log_waits(&self) -> bool {
        self.log_waits.load(Ordering::Acquire)
    }

    /// From now on a write that finds no room waits for it. Until then it fails: a node that starts had better say so.
    pub fn be_patient(&self) {
        self.patient.store(true, Ordering::Release);
    }

    /// The node stops: a write that waits for room fails instead. No client was told that it was made.
    pub fn stop_waiting(&self) {
        self.gives_up.store(true, Ordering::Release);
    }

    /// Whether writes that find no room are to fail rather than to wait.
    #[must_use]
    pub fn gives_up(&self) -> bool {
        self.gives_up.load(Ordering::Acquire) || !self.patient.load(Ordering::Acquire)
    }

    /// No room on the device. Does not hide poison.
    pub fn set_full(&self, reason: &str) {
        self.worsen(reason, || self.change(HEALTHY, FULL).then_some("disk full, refusing writes"));
    }

    /// There is room again.
    pub fn set_room(&self) {
        self.recover(FULL, "there is room on the disk again, taking writes");
    }

    /// Descriptors or memory are short, so that a file cannot be opened or written now. Does not hide poison.
    pub fn set_short(&self, reason: &str) {
        let what = "short of descriptors or memory, refusing writes until there are some";
        self.worsen(reason, || self.change(HEALTHY, SHORT).then_some(what));
    }

    /// There are descriptors and memory again.
    pub fn set_supplied(&self) {
        self.recover(SHORT, "there are descriptors and memory again, taking writes");
    }

    /// An fsync failed. For good.
    pub fn poison(&self, reason: &str) {
        let what = "poisoned: no more writes until the node is restarted, which recovers from the log";
        self.worsen(reason, || (self.state.swap(POISONED, Ordering::AcqRel) != POISONED).then_some(what));
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Makes `call` again until it finds room, descriptors and memory. A log thread waits here, and shards refuse writes
    /// meanwhile; a thread that must not wait (`Impatient`) gets the error at once.
    pub(crate) fn wait_out<T>(&self, path: &Path, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut waited = false;
        let done = loop {
            match call() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if no_room(&e) || is_shortage(&e) => {
                    let reason = format!("{}: {e}", path.display());
                    if no_room(&e) {
                        self.set_full(&reason)
                    } else {
                        self.set_short(&reason)
                    }
                    if !self.may_wait() {
                        break Err(e);
                    }
                    waited = true;
                    self.log_waits.store(true, Ordering::Release);
                    std::thread::sleep(PAUSE);
                }
                done => break done,
            }
        };
        if waited {
            self.log_waits.store(false, Ordering::Release);
            self.set_supplied();
        }
        done
    }

    fn may_wait(&self) -> bool {
        !self.gives_up() && !Impatient::is_this_thread()
    }

    /// The reason goes with the state that it was of.
    fn recover(&self, from: u8, what: &str) {
        let mut text = self.reason.lock();
        if !self.log_waits() && self.change(from, HEALTHY) {
            log::warn!("{what}");
            text.clear();
        }
    }

    /// A reader that sees the new state asks for the reason next, and finds it.
    fn worsen(&self, reason: &str, change: impl FnOnce() -> Option<&'static str>) {
        let mut text = self.reason.lock();
        if let Some(what) = change() {
            log::error!("{what}: {reason}");
            reason.clone_into(&mut text);
        }
    }
}

/// While one exists, its thread gets an error where others wait for room, descriptors or memory: an event loop, which
/// serves reads meanwhile and has another thread make the write.
pub(crate) struct Impatient(bool);

thread_local! {
    static IMPATIENT: Cell<bool> = const { Cell::new(false) };
}

impl Impatient {
    pub(crate) fn begin() -> Self {
        Self(IMPATIENT.replace(true))
    }

    fn is_this_thread() -> bool {
        IMPATIENT.get()
    }
}

impl Drop for Impatient {
    fn drop(&mut self) {
        IMPATIENT.set(self.0);
    }
}

/// Whether `error` says that the device has no room.
pub(crate) fn no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The states as they are kept.
const HEALTHY: u8 = 0;
const FULL: u8 = 1;
const SHORT: u8 = 2;
const POISONED: u8 = 3;

/// Between two tries of a write that finds no room, no descriptor or no memory.
const PAUSE: Duration = Duration::from_millis(50);

/// Fsyncs between two growths of a log file from which zeros save more than they cost.
pub(crate) const FSYNCS_THAT_PAY: u64 = 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Fails so often with that error, then succeeds.
    fn failing(times: u32, number: i32) -> impl FnMut() -> io::Result<u32> {
        let mut tries = 0;
        move || {
            tries += 1;
            if tries > times { Ok(tries) } else { Err(io::Error::from_raw_os_error(number)) }
        }
    }

    const EINTR: i32 = 4;
    const EIO: i32 = 5;
    const ENOMEM: i32 = 12;
    const EMFILE: i32 = 24;
    const ENOSPC: i32 = 28;

    #[test]
    fn what_passes_is_waited_out_and_what_does_not_is_told() {
        let health = DiskHealth::default();
        health.be_patient();
        let path = Path::new("1.raftlog");
        for number in [EINTR, ENOMEM, EMFILE, ENOSPC] {
            assert_eq!(health.wait_out(path, failing(2, number)).unwrap(), 3, "{number}");
            assert!(!health.log_waits());
            health.set_room();
            assert_eq!((health.state(), health.reason()), (DiskState::Healthy, String::new()), "{number}");
        }
        assert_eq!(health.wait_out(path, failing(1, EIO)).unwrap_err().raw_os_error(), Some(EIO));
        assert_eq!(health.state(), DiskState::Healthy, "it is for the caller to say what that means");
    }

    #[test]
    fn a_thread_that_must_not_wait_and_a_node_that_starts_or_stops_are_told_at_once() {
        let path = Path::new("1.raftlog");
        for (number, state) in [(ENOSPC, DiskState::Full), (EMFILE, DiskState::Short)] {
            let health = DiskHealth::default();
            assert!(health.wait_out(path, failing(1, number)).is_err(), "it starts");
            assert_eq!(health.state(), state);
            health.set_room();
            health.set_supplied();
            health.be_patient();
            {
                let _impatient = Impatient::begin();
                assert!(health.wait_out(path, failing(1, number)).is_err());
                assert_eq!(health.wait_out(path, failing(1, EINTR)).unwrap(), 2, "that is no wait");
            }
            assert!(health.wait_out(path, failing(1, number)).is_ok());
            health.stop_waiting();
            assert!(health.wait_out(path, failing(1, number)).is_err(), "it stops");
            health.poison("an fsync");
            health.set_full("no room");
            health.set_short("no descriptor");
            assert_eq!((health.state(), health.reason()), (DiskState::Poisoned, "an fsync".to_owned()));
        }
    }
}

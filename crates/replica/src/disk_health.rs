//! What is known of the device below the log: whether it has room, and whether an fsync has failed.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Whether the device takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskState {
    /// It does.
    Healthy,
    /// No room: writes are refused until there is some.
    Full,
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
            0 => DiskState::Healthy,
            1 => DiskState::Full,
            _ => DiskState::Poisoned,
        }
    }

    /// Why it is not healthy.
    #[must_use]
    pub fn reason(&self) -> String {
        self.reason.lock().map(|text| text.clone()).unwrap_or_default()
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

    /// The node stops: a write that waits for room fails instead. Nobody was told that it was made.
    pub fn stop_waiting(&self) {
        self.gives_up.store(true, Ordering::Release);
    }

    /// No room on the device. Does not hide poison.
    pub fn set_full(&self, reason: &str) {
        self.worsen(reason, || {
            let full = self.state.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok();
            full.then_some("disk full, refusing writes")
        });
    }

    /// There is room again.
    pub fn set_room(&self) {
        if !self.log_waits() && self.state.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            log::warn!("there is room on the disk again, taking writes");
        }
    }

    /// An fsync failed. For good.
    pub fn poison(&self, reason: &str) {
        self.worsen(reason, || (self.state.swap(2, Ordering::AcqRel) != 2).then_some("poisoned until restart"));
    }

    /// Tries `call` until the device has room for it. A log thread waits here; the shards refuse writes meanwhile.
    pub(crate) fn wait_for_room<T>(&self, path: &Path, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        const PAUSE: Duration = Duration::from_millis(100);
        loop {
            match call() {
                Err(e) if no_room(&e) && !self.patient.load(Ordering::Acquire) => {
                    self.set_full(&format!("{}: {e}", path.display()));
                    return Err(e);
                }
                Err(e) if no_room(&e) && !self.gives_up.load(Ordering::Acquire) => {
                    self.log_waits.store(true, Ordering::Release);
                    self.set_full(&format!("{}: {e}", path.display()));
                    std::thread::sleep(PAUSE);
                }
                done => {
                    self.log_waits.store(false, Ordering::Release);
                    return done;
                }
            }
        }
    }

    /// Whoever sees the new state asks for the reason next: it is there by then.
    fn worsen(&self, reason: &str, change: impl FnOnce() -> Option<&'static str>) {
        let mut text = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(what) = change() {
            log::error!("{what}: {reason}");
            reason.clone_into(&mut text);
        }
    }
}

fn no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Fsyncs between two growths of a log file from which zeros save more than they cost.
pub(crate) const FSYNCS_THAT_PAY: u64 = 4;

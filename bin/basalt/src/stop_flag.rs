//! Commands that go on until they are told to stop.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// A flag that SIGINT and SIGTERM set. The error says what failed.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    flag_of(false)
}

/// The same; a second signal ends the process at once.
pub(crate) fn patient_stop_flag() -> io::Result<Arc<AtomicBool>> {
    flag_of(true)
}

/// A flag that SIGINT and SIGTERM set to their number; it is 0 before. A second signal ends the process at once, with the exit code
/// that a shell gives to what a signal has ended.
pub(crate) fn patient_signal() -> io::Result<Arc<AtomicUsize>> {
    let (stop, which) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let register = |signal| {
        // As in `flag_of`, what ends comes before what sets.
        flag::register_conditional_shutdown(signal, ended_by(signal), stop.clone())?;
        flag::register_usize(signal, which.clone(), signal as usize)?;
        flag::register(signal, stop.clone())
    };
    for signal in [SIGINT, SIGTERM] {
        register(signal).map_err(not_handled)?;
    }
    Ok(which)
}

/// The exit code that shells give to what a signal has ended.
pub(crate) fn ended_by(signal: i32) -> i32 {
    128 + signal
}

fn not_handled(e: io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("signals cannot be handled: {e}"))
}

fn flag_of(second_ends: bool) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let register = |signal| {
        if second_ends {
            // It comes before what sets the flag, so the first signal finds it unset.
            flag::register_conditional_shutdown(signal, 1, stop.clone())?;
        }
        flag::register(signal, stop.clone())
    };
    for signal in [SIGINT, SIGTERM] {
        register(signal).map_err(not_handled)?;
    }
    Ok(stop)
}

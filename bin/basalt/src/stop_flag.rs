//! Commands that go on until they are told to stop.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGINT and SIGTERM set. The error says what failed.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    flag_of(false)
}

/// The same; a second signal ends the process at once.
pub(crate) fn patient_stop_flag() -> io::Result<Arc<AtomicBool>> {
    flag_of(true)
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
        register(signal).map_err(|e| io::Error::new(e.kind(), format!("signals cannot be handled: {e}")))?;
    }
    Ok(stop)
}

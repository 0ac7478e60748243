//! Threads: those that the node cannot do without, and the nice levels of background work.
//!
//! A critical thread that panics ends the process, and a restart recovers from the log. Otherwise the node would look
//! alive while some of its clients wait without end.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Aborts the process when it is dropped by a panic.
struct AbortOnPanic(String);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            log::error!(
                "the thread {} has panicked, and the node cannot do without it: the process ends. No acknowledged write is \
                 lost: start the node again. If it ends in the same place again, keep the lines above and see \"The process \
                 panicked\" in docs/OPERATING.md",
                self.0
            );
            std::process::abort();
        }
    }
}

/// Starts a thread whose panic ends the process.
pub(crate) fn spawn_critical(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let guard = AbortOnPanic(name.to_owned());
    Builder::new().name(name.to_owned()).spawn(move || {
        let _guard = guard;
        run();
    })
}

/// The nice level of what is run for one client beside an event loop, whose clients come first: about a third of a busy processor.
pub(crate) const NICE_BESIDE: i32 = 5;
/// The nice level of background work that a caller waits for: about a tenth of a busy processor (see nice(2)).
pub(crate) const NICE_BACKGROUND: i32 = 10;
/// The nice level of background work that no caller waits for: about a seventieth of a busy processor.
pub(crate) const NICE_IDLE: i32 = 19;

/// Sets the nice level of the calling thread.
pub(crate) fn set_niceness(niceness: i32) {
    // On Linux a nice level belongs to the thread, so the other threads of the process keep theirs.
    if let Err(e) = rustix::process::setpriority_process(None, niceness) {
        log::debug!("a background thread keeps its priority: {e}");
    }
}

//! Threads that the node cannot do without: if one panics, the process ends, and a restart recovers from the log.
//!
//! The alternative is a node that looks alive while a part of its clients wait for ever. And threads that nobody waits
//! for, which give way to those.

use std::io;
use std::thread::{Builder, JoinHandle};

struct Vital(String);

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            log::error!("the thread {} has panicked, and the node cannot do without it", self.0);
            std::process::abort();
        }
    }
}

/// Starts a thread whose panic ends the process.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let vital = Vital(name.to_owned());
    Builder::new().name(name.to_owned()).spawn(move || {
        let _vital = vital;
        run();
    })
}

/// What a thread that somebody waits for takes of a busy processor beside others: about a tenth of theirs (see nice(2)).
pub(crate) const SOON: i32 = 10;
/// One that nobody waits for takes next to nothing: a seventieth.
pub(crate) const SOME_TIME: i32 = 19;

/// From now on the calling thread gives way to threads that serve clients: it copies or compares in the background.
pub(crate) fn give_way(niceness: i32) {
    // On Linux this is the thread and not the process, whose other threads go on as they were.
    if let Err(e) = rustix::process::setpriority_process(None, niceness) {
        log::debug!("a thread in the background cannot give way: {e}");
    }
}

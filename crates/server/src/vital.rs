//! Threads that the node cannot do without: if one panics, the process ends, and a restart recovers from the log.
//!
//! The alternative is a node that looks alive while a part of its clients wait for ever.

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

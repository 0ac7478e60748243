//! The agent's listener.

use std::io::{self, Read as _};
use std::net::{TcpListener, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::converse::{Common, converse};
use super::options::{AgentOptions, SECRET_VARIABLE, read_secret};
use crate::program::Program;
use crate::trouble::Trouble;

/// More connections at once are hung up on.
const CONVERSATIONS_MAX: usize = 16;
/// Between two looks for a new coordinator.
const LOOK: Duration = Duration::from_millis(20);

/// Serves coordinators until it is told to stop.
pub(crate) fn serve(options: &AgentOptions, program: &Program<'_>) -> Result<bool, Trouble> {
    let secret = if options.open_to_all {
        Vec::new()
    } else {
        read_secret(options.secret_file.as_deref()).map_err(Trouble::Usage)?
    };
    let bad = |problem: &dyn std::fmt::Display| Trouble::Usage(format!("--listen {}: {problem}", options.listen));
    let mut places = options.listen.to_socket_addrs().map_err(|error| bad(&error))?;
    let place = places.next().ok_or_else(|| bad(&"no such address"))?;
    if secret.is_empty() && !place.ip().is_loopback() && !options.open_to_all {
        return Err(Trouble::Usage(format!(
            "--listen {}: others can reach it, and would make it load any system that it reaches. Give --secret-file or \
             {SECRET_VARIABLE}, here and to the coordinator; or say --open-to-all",
            options.listen
        )));
    }
    let listener = TcpListener::bind(place).map_err(|error| bad(&error))?;
    listener.set_nonblocking(true)?;
    crate::output::print(&format!("agent listens on {}\n", listener.local_addr()?))?;
    if options.with_parent {
        leave_with_parent()?;
    }
    accept(&listener, &secret, program.version, program.stop)?;
    Ok(true)
}

/// Talks to every coordinator that connects, until `stop` is set. `listener` does not block.
pub(crate) fn accept(listener: &TcpListener, secret: &[u8], version: &str, stop: &AtomicBool) -> io::Result<()> {
    let (busy, talking, broken) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicBool::new(false));
    let common = Common { version, secret, stop: [stop, &broken], busy: &busy, epoch: Instant::now() };
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, from)) => {
                    if talking.fetch_add(1, Ordering::AcqRel) >= CONVERSATIONS_MAX {
                        talking.fetch_sub(1, Ordering::AcqRel);
                        continue;
                    }
                    let (common, talking) = (&common, &talking);
                    scope.spawn(move || {
                        log::info!("a coordinator at {from}");
                        if let Err(error) = converse(stream, common)
                            && error.kind() != io::ErrorKind::UnexpectedEof
                        {
                            crate::note!("basalt bench agent: the coordinator at {from}: {error}");
                        }
                        talking.fetch_sub(1, Ordering::AcqRel);
                    });
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => std::thread::sleep(LOOK),
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        broken.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                },
            }
        }
        Ok(())
    })
}

/// Ends this process when the one that started it has gone: its end of standard input is closed then.
fn leave_with_parent() -> io::Result<()> {
    let wait = || {
        let mut rest = [0; 64];
        while io::stdin().lock().read(&mut rest).is_ok_and(|count| count > 0) {}
        std::process::exit(0);
    };
    std::thread::Builder::new().name("parent".to_owned()).spawn(wait).map(drop)
}

//! The health of a node in a container: asked by `basalt ctl health`, which knows neither where the node listens nor its certificates and
//! passwords.
//!
//! Both meet at one of Linux' abstract socket names, which needs no file and goes with the node. The name has the number of the
//! mounts that a container has for itself, so nodes in several containers on one network do not meet.

use server::{Probe, Server};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// What a node says that works.
pub const WORKS: &str = "the node works\n";
/// How long event loops may keep silent before the node is said to hang.
const SILENCE: Duration = Duration::from_secs(5);
const ASKED_EVERY: Duration = Duration::from_secs(1);
const ANSWER_WITHIN: Duration = Duration::from_secs(4);

/// Whether the event loops turn.
pub struct Pulse {
    every: Duration,
    asked: Option<(Instant, Probe)>,
    worked: Instant,
}

impl Pulse {
    /// That of a node that has just started, and whose answers are wanted so often, if anyone says so.
    pub fn new(wanted: Option<Duration>) -> Self {
        let every = wanted.map_or(ASKED_EVERY, |every| ASKED_EVERY.min(every / 2));
        Self { every, asked: None, worked: Instant::now() }
    }

    /// Asks the loops if it is time to, and takes their answer: to be called often.
    pub fn take(&mut self, server: &Server) {
        match &self.asked {
            Some((asked, probe)) if probe.is_answered() => {
                self.worked = *asked;
                self.asked = None;
            }
            None if self.worked.elapsed() >= self.every => self.asked = Some((Instant::now(), server.probe())),
            _ => {}
        }
    }

    /// When all loops turned for the last time that is known.
    pub fn worked(&self) -> Instant {
        self.worked
    }

    fn told(&self) -> String {
        match self.worked.elapsed() {
            silence if silence < SILENCE => WORKS.to_owned(),
            silence => format!("the node hangs: an event loop has not answered for {} s\n", silence.as_secs()),
        }
    }
}

/// Where a node is asked.
pub struct HealthDoor(UnixListener);

impl HealthDoor {
    /// None if it cannot be had, which is logged: the node serves all the same.
    pub fn open() -> Option<Self> {
        let opened = name().and_then(|name| {
            let listener = UnixListener::bind_addr(&name)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        opened.inspect_err(|e| log::warn!("`basalt ctl health` will not find this node: {e}")).ok().map(Self)
    }

    /// Answers who has come.
    pub fn answer(&self, pulse: &Pulse) {
        while let Ok((mut asker, _)) = self.0.accept() {
            // It fits into the socket's buffer. Who has gone hears nothing.
            let _ = asker.set_nonblocking(true).and_then(|()| asker.write_all(pulse.told().as_bytes()));
        }
    }
}

/// What the node of this container says of itself.
pub fn ask() -> io::Result<String> {
    let mut node = UnixStream::connect_addr(&name()?)?;
    node.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut said = String::new();
    node.read_to_string(&mut said)?;
    Ok(said)
}

fn name() -> io::Result<SocketAddr> {
    // `mnt:[4026531841]`
    let mounts = fs::read_link("/proc/self/ns/mnt")?;
    SocketAddr::from_abstract_name(format!("basalt/health/{}", mounts.display()))
}

//! One agent, as its coordinator sees it.

use std::io;
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use vocab::limits::BENCH_FRAME_BYTES_MAX;

use super::clock::Clock;
use crate::agent::handshake::dial;
use crate::agent::{FrameReader, FromAgent, ToAgent, write_frame};

/// An agent that cannot be reached within this time is not there.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long a silent connection is waited for before its thread looks whether it is still wanted.
const LISTEN: Duration = Duration::from_millis(500);
/// An agent that does not read for so long is gone.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

/// What an agent said, and when it came.
pub(super) struct Heard {
    pub(super) from: usize,
    pub(super) at: Instant,
    pub(super) what: Result<FromAgent, String>,
}

/// One agent.
pub(super) struct AgentLink {
    /// Its address, as it was given.
    pub(super) name: String,
    pub(super) version: String,
    stream: TcpStream,
    pub(super) clock: Option<Clock>,
    pub(super) heard_at: Instant,
    pub(super) threads: u32,
    pub(super) cores: u32,
    /// Why it is not there any more.
    pub(super) gone: Option<String>,
}

impl AgentLink {
    /// Connects, and passes on what it says to `heard`.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    pub(super) fn join(
        index: usize,
        name: &str,
        secret: &[u8],
        version: &str,
        heard: Sender<Heard>,
    ) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("agent {name}: {error}"));
        let mut places = name.to_socket_addrs().map_err(named)?;
        let place = places.next().ok_or_else(|| named(io::Error::other("no such address")))?;
        let mut stream = TcpStream::connect_timeout(&place, CONNECT_WITHIN).map_err(named)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LISTEN))?;
        stream.set_write_timeout(Some(WRITE_WITHIN))?;
        let mut reader = FrameReader::default();
        let theirs = dial(&mut stream, &mut reader, secret, version).map_err(named)?;
        let mut listening = stream.try_clone()?;
        std::thread::Builder::new().name(format!("agent-{index}")).spawn(move || {
            loop {
                let what = match reader.next::<FromAgent>(&mut listening, BENCH_FRAME_BYTES_MAX) {
                    Ok(None) => continue,
                    Ok(Some(message)) => Ok(message),
                    Err(error) => Err(error.to_string()),
                };
                let ends = what.is_err();
                let unheard = heard.send(Heard { from: index, at: Instant::now(), what }).is_err();
                if ends || unheard {
                    return;
                }
            }
        })?;
        Ok(Self {
            name: name.to_owned(),
            version: theirs,
            stream,
            clock: None,
            heard_at: Instant::now(),
            threads: 0,
            cores: 0,
            gone: None,
        })
    }

    /// Says something. One that does not take it is gone.
    pub(super) fn say(&mut self, message: &ToAgent) {
        if self.gone.is_none()
            && let Err(error) = write_frame(&mut self.stream, message)
        {
            self.gone = Some(error.to_string());
        }
    }

    pub(super) fn is_here(&self) -> bool {
        self.gone.is_none()
    }
}

impl Drop for AgentLink {
    fn drop(&mut self) {
        // Wakes the thread that listens; it may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

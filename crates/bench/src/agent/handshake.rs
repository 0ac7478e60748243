//! The handshake of an agent and a coordinator: both prove that they know the secret, without sending it.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

use super::frame::{FrameReader, write_frame};
use super::message::{FromAgent, Hello, MAGIC, PROTOCOL, ToAgent};

/// Nothing longer is read from who has not shown the secret.
const FRAME_BYTES_MAX: usize = 4096;
/// A connection of which one message takes longer is closed.
const WITHIN: Duration = Duration::from_secs(5);

/// As the coordinator. Answers the agent's version.
///
/// # Errors
/// It is no agent, another version, refuses, or does not know the secret.
pub(crate) fn dial<S: Read + Write>(
    stream: &mut S,
    reader: &mut FrameReader,
    secret: &[u8],
    version: &str,
) -> io::Result<String> {
    let mine = hello(version);
    write_frame(stream, &ToAgent::Hello(mine.clone()))?;
    let theirs = match next(stream, reader)? {
        FromAgent::Hello(hello) => hello,
        FromAgent::Refused(why) => return Err(refused(&why)),
        _ => return Err(io::Error::other("it is no agent of `basalt bench`")),
    };
    check(&theirs, "the agent")?;
    write_frame(stream, &ToAgent::Proof(proof("coordinator", secret, &theirs.nonce, &mine.nonce)))?;
    match next(stream, reader)? {
        FromAgent::Welcome(shown)
            if vocab::same_secret(&shown, &proof("agent", secret, &mine.nonce, &theirs.nonce)) =>
        {
            Ok(theirs.version)
        }
        FromAgent::Refused(why) => Err(refused(&why)),
        _ => Err(io::Error::other("it does not know the secret that this side was given")),
    }
}

/// As the agent.
///
/// # Errors
/// It is no coordinator, another version, or does not know the secret.
pub(crate) fn answer<S: Read + Write>(
    stream: &mut S,
    reader: &mut FrameReader,
    secret: &[u8],
    version: &str,
) -> io::Result<()> {
    let refuse = |stream: &mut S, error: io::Error| {
        // The other side may be gone.
        let _ = write_frame(stream, &FromAgent::Refused(error.to_string()));
        Err(error)
    };
    let ToAgent::Hello(theirs) = next(stream, reader)? else {
        return refuse(stream, io::Error::other("expected a hello"));
    };
    let mine = hello(version);
    write_frame(stream, &FromAgent::Hello(mine.clone()))?;
    if let Err(error) = check(&theirs, "the coordinator") {
        return refuse(stream, error);
    }
    match next(stream, reader)? {
        ToAgent::Proof(shown)
            if vocab::same_secret(&shown, &proof("coordinator", secret, &mine.nonce, &theirs.nonce)) =>
        {
            write_frame(stream, &FromAgent::Welcome(proof("agent", secret, &theirs.nonce, &mine.nonce)))
        }
        _ => refuse(stream, io::Error::other("the coordinator does not know this agent's secret")),
    }
}

fn hello(version: &str) -> Hello {
    Hello { magic: MAGIC.to_owned(), protocol: PROTOCOL, version: version.to_owned(), nonce: random() }
}

fn check(theirs: &Hello, who: &str) -> io::Result<()> {
    if theirs.magic != MAGIC {
        return Err(io::Error::other(format!("{who} is no `basalt bench`")));
    }
    if theirs.protocol != PROTOCOL {
        return Err(io::Error::other(format!(
            "{who} is Basalt {} with protocol {}, and this one has protocol {PROTOCOL}: run the same version on both",
            theirs.version, theirs.protocol
        )));
    }
    Ok(())
}

fn refused(why: &str) -> io::Error {
    io::Error::other(format!("it refuses: {why}"))
}

fn proof(who: &str, secret: &[u8], first: &[u8; 32], second: &[u8; 32]) -> [u8; 32] {
    let text = [MAGIC.as_bytes(), who.as_bytes(), first, second].concat();
    hmac_sha256::HMAC::mac(text, secret)
}

/// A stream that has nothing more to say from a moment on, even where bytes trickle in.
struct Until<'a, S> {
    stream: &'a mut S,
    deadline: Instant,
}

impl<S: Read> Read for Until<'_, S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if Instant::now() >= self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.read(out)
    }
}

fn next<S: Read, T: serde::de::DeserializeOwned>(stream: &mut S, reader: &mut FrameReader) -> io::Result<T> {
    let deadline = Instant::now() + WITHIN;
    let mut stream = Until { stream, deadline };
    while Instant::now() < deadline {
        if let Some(message) = reader.next(&mut stream, FRAME_BYTES_MAX)? {
            return Ok(message);
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"))
}

/// Bytes that cannot be predicted.
pub(crate) fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system has no random bytes: {error}"),
        }
    }
    bytes
}

//! A call from a thread of its own, which may wait: for snapshots.

use super::greeting::{Purpose, missing};
use super::handshake::{Handshake, Peer, Step};
use super::identity::Identity;
use crate::net::Stream;
use crate::os::random;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;
use vocab::NodeId;

/// Calls a node and waits until it welcomes this one; the error says in words why it does not. The stream blocks, for
/// at most `timeout` at a time.
pub fn call(
    address: &str,
    identity: Identity,
    purpose: Purpose,
    expected: Option<NodeId>,
    timeout: Duration,
) -> Result<(Stream, Peer), String> {
    let fail = |e: std::io::Error| format!("cannot call the node at {address}: {e}");
    let mut last = format!("{address} has no address");
    for found in address.to_socket_addrs().map_err(fail)? {
        for &encrypts in identity.peer_mode().tries() {
            match connect(&found, address, &identity, encrypts, timeout) {
                Ok(stream) => return meet(stream, address, identity, purpose, expected),
                Err(e) => last = fail(e),
            }
        }
    }
    Err(last)
}

fn connect(
    found: &SocketAddr,
    address: &str,
    identity: &Identity,
    encrypts: bool,
    timeout: Duration,
) -> io::Result<Stream> {
    let mut stream = Stream::connect(found, timeout)?;
    stream.set_nodelay()?;
    stream.set_timeouts(timeout)?;
    if encrypts {
        stream.encrypt(identity.call_with_tls(address).map_err(io::Error::other)?)?;
        if !stream.handshake()? {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(stream)
}

fn meet(
    stream: Stream,
    address: &str,
    identity: Identity,
    purpose: Purpose,
    expected: Option<NodeId>,
) -> Result<(Stream, Peer), String> {
    let fail = |e: std::io::Error| format!("the node at {address} breaks off: {e}");
    let mut output = Vec::new();
    let mut handshake = Handshake::dial(identity, purpose, expected, random(), &mut output);
    let mut input = Vec::new();
    loop {
        (&stream).write_all(&output).map_err(fail)?;
        output.clear();
        // Not a byte more than the part has: what follows the welcome is not for this function.
        let at = input.len();
        input.resize(at + missing(&input), 0);
        (&stream).read_exact(&mut input[at..]).map_err(fail)?;
        let (used, step) = handshake.advance(&input, &mut output);
        input.drain(..used);
        match step {
            Step::Wait => {}
            Step::Welcome(peer) => return Ok((stream, peer)),
            Step::Refuse(refusal) => {
                // It may have gone already.
                let _ = (&stream).write_all(&output);
                return Err(format!("refused the node at {address}: {refusal}"));
            }
            Step::Refused(refusal) => return Err(format!("the node at {address} refuses: {refusal}")),
            Step::Proven(_) | Step::Garbage => return Err(format!("what answers at {address} is not a node")),
        }
    }
}

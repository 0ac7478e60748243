//! What sockets are asked for.

use mio::net::TcpStream;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Sends what the socket takes at once: how many bytes, and what keeps it from taking more.
pub(crate) fn send_now(stream: &TcpStream, bytes: &[u8]) -> (usize, Option<Errno>) {
    let mut sent = 0;
    while sent < bytes.len() {
        match send(stream, &bytes[sent..], SendFlags::NOSIGNAL) {
            Ok(0) => return (sent, Some(Errno::PIPE)),
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(e) => return (sent, Some(e)),
        }
    }
    (sent, None)
}

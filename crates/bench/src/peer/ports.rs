//! The ports of servers that are to be started: a foreign server at one of them would answer for ours, and be written to.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};

/// Where the servers will listen.
pub(super) struct Ports {
    /// On how many of the addresses 127.0.0.1, 127.0.0.2, …
    pub(super) hosts: u16,
    /// The first port on each of them.
    pub(super) first: u16,
    /// How many ports on each of them.
    pub(super) count: u16,
}

impl Ports {
    /// Makes sure that all of them are free.
    ///
    /// # Errors
    /// Another program has one of them, or there are too few ports.
    pub(super) fn require_free(&self) -> io::Result<()> {
        let Some(end) = self.first.checked_add(self.count) else {
            let text = format!("--port {}: no room for {} ports", self.first, self.count);
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        };
        for host in 0..self.hosts {
            let host = Ipv4Addr::new(127, 0, 0, (host + 1) as u8);
            for port in self.first..end {
                // It is given back at once: the server is to have it.
                TcpListener::bind((host, port)).map_err(|error| taken(host, port, &error))?;
            }
        }
        Ok(())
    }
}

fn taken(host: Ipv4Addr, port: u16, error: &io::Error) -> io::Error {
    let text = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "{host}:{port} is taken: another program listens there, and nothing was started. End it, or give another --port"
        ),
        _ => format!("{host}:{port} cannot be listened at: {error}"),
    };
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_port_that_another_program_has_is_told() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let first = other.local_addr().unwrap().port();
        let ports = Ports { hosts: 1, first, count: 1 };
        let refused = ports.require_free().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        assert!(refused.to_string().starts_with(&format!("127.0.0.1:{first} is taken")), "{refused}");
        // What is not asked for is not looked at.
        Ports { hosts: 1, first, count: 0 }.require_free().unwrap();
        let refused = Ports { hosts: 1, first: 65_000, count: 640 }.require_free().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
}

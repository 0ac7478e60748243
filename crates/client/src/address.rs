//! The address of a server.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The port when none is given: Redis's.
pub(crate) const PORT_DEFAULT: u16 = 6379;

/// A host and a port, written `redis://host:port` or `host:port`. An IPv6 host stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress(String);

impl fmt::Display for BadAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for BadAddress {}

impl BadAddress {
    /// The text is left out, because it may hold a password.
    pub(crate) fn of_login() -> Self {
        Self::of("…@…")
    }

    pub(crate) fn of_database(name: &str) -> Self {
        Self(format!("database `{name}`: a store has one database, which is 0"))
    }

    fn of(text: &str) -> Self {
        Self(format!("`{text}` is no address: expected redis://host:port"))
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        Self::parse(text, PORT_DEFAULT)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

impl Address {
    /// Reads an address; `port_default` is the port of one that names none.
    pub(crate) fn parse(text: &str, port_default: u16) -> Result<Self, BadAddress> {
        let bad = || BadAddress::of(text);
        let rest = text.strip_prefix("redis://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = if let Some(bracketed) = rest.strip_prefix('[') {
            let (host, port) = bracketed.split_once(']').ok_or_else(bad)?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(bad)?) })
        } else {
            match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            }
        };
        let port = port.map_or(Ok(port_default), |port| port.parse().map_err(|_| bad()))?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if host.is_empty() || !host.chars().all(allowed) {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), port })
    }

    /// The socket address that the host's name stands for.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn resolve(&self) -> io::Result<SocketAddr> {
        let mut found = (self.host.as_str(), self.port).to_socket_addrs()?;
        found.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{self} has no address")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses() {
        for (text, shown) in [
            ("redis://127.0.0.1:7000", "127.0.0.1:7000"),
            ("redis://db.example/", "db.example:6379"),
            ("localhost:1", "localhost:1"),
            ("[::1]:7000", "[::1]:7000"),
            ("redis://[::1]", "[::1]:6379"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown, "{text}");
        }
        for text in ["", "redis://", "http://a:1", "a:b", "a:70000", "[::1", "[::1]7", "a b:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}

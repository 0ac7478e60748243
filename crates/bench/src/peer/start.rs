//! Starts another system's servers, whichever it is.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::Duration;

use super::options::{PeerName, UpOptions};
use super::roster::Roster;
use super::site::{Site, Up};
use super::{cassandra, etcd, redis, voltdb};

/// Starts a store and waits until it serves. If that fails, what was started is ended.
///
/// # Errors
/// The folder is in use, a program is missing, or a server does not come up.
pub fn up(options: &UpOptions) -> io::Result<Roster> {
    fs::create_dir_all(&options.data)?;
    let dir = options.data.canonicalize()?;
    if let Some(roster) = Roster::read(&dir)? {
        let text = format!("{} holds a store of {} already: take it down first", dir.display(), roster.name);
        return Err(io::Error::new(ErrorKind::AlreadyExists, text));
    }
    if fs::read_dir(&dir)?.next().is_some() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, format!("{} is not empty", dir.display())));
    }
    let mut site = Site { options, dir, nodes: Vec::new() };
    let begun = match options.name {
        PeerName::Redis => redis::one(&mut site, "redis-server"),
        PeerName::Valkey => redis::one(&mut site, "valkey-server"),
        PeerName::RedisCluster => redis::cluster(&mut site, "redis-server"),
        PeerName::ValkeyCluster => redis::cluster(&mut site, "valkey-server"),
        PeerName::Etcd => etcd::up(&mut site),
        PeerName::Cassandra => cassandra::up(&mut site),
        PeerName::Voltdb => voltdb::up(&mut site),
    };
    // A server may have ended while those behind it were started.
    let begun = begun.and_then(|up| site.await_all(Duration::ZERO, |_| true).map(|()| up));
    let Site { dir, nodes, .. } = site;
    let mut roster = Roster { name: options.name.to_string(), target: String::new(), settings: String::new(), nodes };
    let written = begun.and_then(|Up { target, settings }| {
        (roster.target, roster.settings) = (target, settings);
        roster.write(&dir)
    });
    match written {
        Ok(()) => Ok(roster),
        Err(error) => {
            roster.end()?;
            Err(error)
        }
    }
}

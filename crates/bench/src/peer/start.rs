//! Starts another system's servers, whichever it is.

use std::fs;
use std::io::{self, ErrorKind};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::options::{PeerName, UpOptions};
use super::roster::Roster;
use super::site::{Site, Up};
use super::{cassandra, etcd, redis, voltdb};

/// Starts a store and waits until it serves. If that fails, or `stop` is set meanwhile, what was started is ended.
///
/// # Errors
/// The system cannot have that shape, the folder is in use, a program is missing, a server does not come up, or it was
/// stopped.
pub fn up(options: &UpOptions, stop: &AtomicBool) -> io::Result<Roster> {
    options.check().map_err(|text| io::Error::new(ErrorKind::InvalidInput, text))?;
    fs::create_dir_all(&options.data)?;
    let dir = options.data.canonicalize()?;
    if let Some(roster) = Roster::read(&dir)? {
        let text = format!("{} holds a store of {} already: take it down first", dir.display(), roster.name);
        return Err(io::Error::new(ErrorKind::AlreadyExists, text));
    }
    if fs::read_dir(&dir)?.next().is_some() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, format!("{} is not empty", dir.display())));
    }
    let mut site = Site { options, dir, nodes: Vec::new(), stop };
    let begun = match options.name {
        PeerName::Redis => redis::one(&mut site, "redis-server"),
        PeerName::Valkey => redis::one(&mut site, "valkey-server"),
        PeerName::RedisCluster => redis::cluster(&mut site, "redis-server"),
        PeerName::ValkeyCluster => redis::cluster(&mut site, "valkey-server"),
        PeerName::Etcd => etcd::up(&mut site),
        PeerName::Cassandra => cassandra::up(&mut site),
        PeerName::Voltdb => voltdb::up(&mut site),
    };
    conclude(&site, begun)
}

/// The store that has `begun` to serve; otherwise its servers are ended.
fn conclude(site: &Site<'_>, begun: io::Result<Up>) -> io::Result<Roster> {
    // A server may have ended while those behind it were started.
    let begun = begun.and_then(|up| site.await_all(Duration::ZERO, |_| true).map(|()| up));
    let mut roster = site.roster();
    let written = begun.and_then(|Up { target, settings }| {
        (roster.target, roster.settings) = (target, settings);
        roster.write(&site.dir)
    });
    match written {
        Ok(()) => Ok(roster),
        Err(error) => {
            // What cannot be ended is still to be found.
            roster.end()?;
            roster.forget(&site.dir)?;
            Err(error)
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::test_options::Given;

    fn sleeper() -> Command {
        let mut sleeper = Command::new("sh");
        sleeper.args(["-c", "exec sleep 1000"]);
        sleeper
    }

    #[test]
    fn servers_are_known_as_soon_as_they_are_started_and_end_with_a_start_that_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let options: UpOptions = Given::by(["up", "etcd", "--data", folder.path().to_str().unwrap()]);
        let stop = AtomicBool::new(false);
        let mut site = Site { options: &options, dir: folder.path().to_owned(), nodes: Vec::new(), stop: &stop };
        for number in 1..=2 {
            site.start(format!("127.0.0.1:{number}"), sleeper()).unwrap();
            let known = Roster::read(folder.path()).unwrap().unwrap();
            assert_eq!((known.nodes.len(), known.alive()), (number, number));
        }
        // They would be waited for longer than any test runs.
        let mut asked = 0;
        let waited = site.await_all(Duration::from_secs(100_000), |_| {
            asked += 1;
            stop.store(true, Ordering::Relaxed);
            false
        });
        assert_eq!((waited.unwrap_err().kind(), asked), (ErrorKind::Interrupted, 1));
        assert!(site.start("127.0.0.1:3".to_owned(), sleeper()).is_err() && site.nodes.len() == 2);
        let serves = Up { target: "etcd://127.0.0.1:1".to_owned(), settings: String::new() };
        assert_eq!(conclude(&site, Ok(serves)).unwrap_err().kind(), ErrorKind::Interrupted);
        assert_eq!((site.roster().alive(), Roster::read(folder.path()).unwrap()), (0, None));
    }

    #[test]
    fn a_store_that_serves_is_written_down_whole() {
        let folder = tempfile::tempdir().unwrap();
        let options: UpOptions = Given::by(["up", "redis", "--data", folder.path().to_str().unwrap()]);
        let stop = AtomicBool::new(false);
        let mut site = Site { options: &options, dir: folder.path().to_owned(), nodes: Vec::new(), stop: &stop };
        site.start("127.0.0.1:1".to_owned(), sleeper()).unwrap();
        let serves = Up { target: "redis://127.0.0.1:1".to_owned(), settings: "one server".to_owned() };
        let roster = conclude(&site, Ok(serves)).unwrap();
        assert_eq!(Roster::read(folder.path()).unwrap(), Some(roster.clone()));
        assert_eq!((roster.target.as_str(), roster.alive()), ("redis://127.0.0.1:1", 1));
        roster.end().unwrap();
    }
}

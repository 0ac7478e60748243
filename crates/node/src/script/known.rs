//! The scripts that a node knows the store to know: by their SHA1, in memory.

use super::natives::{is_sha, sha1_hex};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vocab::limits::SCRIPTS_KNOWN_BYTES_MAX;

/// The name of a script: digits in lower case.
type Sha = [u8; 40];

/// What a script takes beside its source.
const COST: usize = 128;

/// A script that the store knows.
#[derive(Debug)]
pub struct KnownScript {
    /// Its source.
    pub source: Box<[u8]>,
    /// It has written at this node: it does not begin as a read any more.
    writes: AtomicBool,
}

impl KnownScript {
    /// Whether it has written at this node.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.writes.load(Ordering::Relaxed)
    }

    /// It writes.
    pub fn note_writes(&self) {
        self.writes.store(true, Ordering::Relaxed);
    }
}

/// Scripts by their names. What is not here may be known to the store all the same: the metadata group is asked.
#[derive(Debug, Default)]
pub struct KnownScripts(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// In order: to compare a few names takes less than to hash one as a map must whose names clients can choose.
    by_sha: BTreeMap<Sha, Arc<KnownScript>>,
    /// The oldest first.
    order: VecDeque<Sha>,
    bytes: usize,
}

impl KnownScripts {
    /// The script of that name.
    #[must_use]
    pub fn get(&self, sha: &[u8]) -> Option<Arc<KnownScript>> {
        let mut name = Sha::try_from(sha).ok().filter(|sha| is_sha(sha))?;
        name.make_ascii_lowercase();
        self.0.lock().by_sha.get(&name).cloned()
    }

    /// The script of that source, if it is known.
    #[must_use]
    pub fn of_source(&self, source: &[u8]) -> Option<Arc<KnownScript>> {
        let sha = sha_of(source);
        self.0.lock().by_sha.get(&sha).cloned()
    }

    /// The store knows a script.
    pub fn add(&self, source: &[u8]) {
        let sha = sha_of(source);
        let mut known = self.0.lock();
        if known.by_sha.contains_key(&sha) {
            return;
        }
        known.bytes += source.len() + COST;
        let script = KnownScript { source: source.into(), writes: AtomicBool::new(false) };
        known.by_sha.insert(sha, Arc::new(script));
        known.order.push_back(sha);
        while known.bytes > SCRIPTS_KNOWN_BYTES_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            let bytes = known.by_sha.remove(&oldest).map_or(0, |script| script.source.len() + COST);
            known.bytes -= bytes;
        }
    }

    /// The store has forgotten all scripts.
    pub fn forget_all(&self) {
        *self.0.lock() = Known::default();
    }

    /// How many there are, and their bytes.
    #[must_use]
    pub fn figures(&self) -> (usize, usize) {
        let known = self.0.lock();
        (known.by_sha.len(), known.bytes)
    }
}

fn sha_of(source: &[u8]) -> Sha {
    sha1_hex(source).as_bytes().try_into().expect("a SHA1 has 40 digits")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn scripts_are_known_by_their_names_until_they_are_forgotten() {
        let known = KnownScripts::default();
        let sha = sha1_hex(b"return 1");
        assert!(known.get(sha.as_bytes()).is_none() && known.of_source(b"return 1").is_none());
        known.add(b"return 1");
        known.add(b"return 1");
        let script = known.get(sha.to_uppercase().as_bytes()).unwrap();
        assert!(*script.source == *b"return 1" && !script.writes());
        script.note_writes();
        assert!(known.of_source(b"return 1").unwrap().writes());
        assert_eq!(known.figures(), (1, 8 + COST));
        let large = vec![b' '; SCRIPTS_KNOWN_BYTES_MAX / 2];
        known.add(&large);
        known.add(&[&large[..], b" "].concat());
        assert!(known.get(sha.as_bytes()).is_none() && known.figures().1 <= SCRIPTS_KNOWN_BYTES_MAX);
        known.forget_all();
        assert_eq!(known.figures(), (0, 0));
    }
}

//! The scripts that a node knows the store to know: by their SHA1, in memory.

use super::natives::{is_sha, sha1_hex};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use vocab::limits::SCRIPTS_KNOWN_BYTES_MAX;

/// What a script takes beside its source.
const COST: usize = 128;

/// Scripts by their names. What is not here may be known to the store all the same: the metadata group is asked.
#[derive(Debug, Default)]
pub struct KnownScripts(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_sha: HashMap<String, Arc<[u8]>>,
    /// The oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

impl KnownScripts {
    /// The source of the script of that name.
    #[must_use]
    pub fn get(&self, sha: &[u8]) -> Option<Arc<[u8]>> {
        if !is_sha(sha) {
            return None;
        }
        let name = String::from_utf8_lossy(sha).to_ascii_lowercase();
        self.0.lock().by_sha.get(&name).cloned()
    }

    /// Whether a script is known.
    #[must_use]
    pub fn holds(&self, source: &[u8]) -> bool {
        let sha = sha1_hex(source);
        self.0.lock().by_sha.contains_key(&sha)
    }

    /// The store knows a script.
    pub fn add(&self, source: &[u8]) {
        let sha = sha1_hex(source);
        let mut known = self.0.lock();
        if known.by_sha.contains_key(&sha) {
            return;
        }
        known.bytes += source.len() + COST;
        known.by_sha.insert(sha.clone(), source.into());
        known.order.push_back(sha);
        while known.bytes > SCRIPTS_KNOWN_BYTES_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            let bytes = known.by_sha.remove(&oldest).map_or(0, |source| source.len() + COST);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_known_by_their_names_until_they_are_forgotten() {
        let known = KnownScripts::default();
        let sha = sha1_hex(b"return 1");
        assert!(known.get(sha.as_bytes()).is_none() && !known.holds(b"return 1"));
        known.add(b"return 1");
        known.add(b"return 1");
        assert_eq!(known.get(sha.to_uppercase().as_bytes()).as_deref(), Some(&b"return 1"[..]));
        assert_eq!(known.figures(), (1, 8 + COST));
        let large = vec![b' '; SCRIPTS_KNOWN_BYTES_MAX / 2];
        known.add(&large);
        known.add(&[&large[..], b" "].concat());
        assert!(known.get(sha.as_bytes()).is_none() && known.figures().1 <= SCRIPTS_KNOWN_BYTES_MAX);
        known.forget_all();
        assert_eq!(known.figures(), (0, 0));
    }
}

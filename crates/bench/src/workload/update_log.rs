//! Whether a store loses updates: of all compare-and-set writes that compared one version of one record, at most one may
//! succeed.

use parking_lot::Mutex;
use std::collections::HashSet;

/// Further updates are compared with these, and not remembered: 16 MB at most.
const REMEMBERED_MAX: usize = 1 << 20;

/// The versions that acknowledged compare-and-set writes replaced.
#[derive(Debug, Default)]
pub struct UpdateLog {
    replaced: Mutex<HashSet<u64>>,
}

impl UpdateLog {
    /// Notes an acknowledged write to the record whose key has this hash. False if another one had replaced the same
    /// version: one of the two is lost.
    #[must_use]
    pub fn is_first(&self, key_hash: u64, version: u64) -> bool {
        let mark = xxhash_rust::xxh3::xxh3_64_with_seed(&version.to_le_bytes(), key_hash);
        let mut replaced = self.replaced.lock();
        if replaced.contains(&mark) {
            return false;
        }
        if replaced.len() < REMEMBERED_MAX {
            replaced.insert(mark);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_replaced_once() {
        let log = UpdateLog::default();
        for (key, version, first) in
            [(1, 1, true), (1, 2, true), (2, 1, true), (1, 1, false), (2, 1, false), (2, 2, true)]
        {
            assert_eq!(log.is_first(key, version), first, "{key} {version}");
        }
    }
}

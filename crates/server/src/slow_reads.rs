//! The reads of one connection that are made in the pool.

use crate::requests::KeyHashes;
use node::key_hash;
use resp::table::CommandSpec;

/// Reads that are made in the pool, and of what.
#[derive(Default)]
pub(crate) struct SlowReads(Vec<(u64, KeyHashes)>);

impl SlowReads {
    /// No keys: the whole store.
    fn keys(spec: &CommandSpec, args: &[&[u8]]) -> KeyHashes {
        let hash = |at: usize| args.get(at).map(|key| key_hash(key));
        spec.keys(args).into_iter().flatten().filter_map(hash).collect()
    }

    /// A request is made in the pool.
    pub(crate) fn begin(&mut self, sequence: u64, spec: &CommandSpec, args: &[&[u8]]) {
        self.0.push((sequence, Self::keys(spec, args)));
    }

    /// It has its answer.
    pub(crate) fn end(&mut self, sequence: u64) {
        if !self.0.is_empty() {
            self.0.retain(|(other, _)| *other != sequence);
        }
    }

    /// Whether one of them reads what this request is about. It may see what is written until it is made, so a later
    /// read of the same must not be made before it: its answer, which comes second, might be the older value.
    pub(crate) fn touch(&self, spec: &CommandSpec, args: &[&[u8]]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let keys = Self::keys(spec, args);
        let meets = |others: &KeyHashes| keys.iter().any(|key| others.contains(key));
        self.0.iter().any(|(_, others)| keys.is_empty() || others.is_empty() || meets(others))
    }
}

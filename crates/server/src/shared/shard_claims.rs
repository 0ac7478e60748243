//! Which shards background threads of one kind work on: each at most one thread at a time.

use parking_lot::Mutex;
use std::collections::HashSet;
use vocab::ShardId;

/// The shards that are claimed.
#[derive(Default)]
pub(crate) struct ShardClaims(Mutex<HashSet<ShardId>>);

/// A shard is claimed as long as this lives.
pub(crate) struct ShardClaim<'a> {
    claims: &'a ShardClaims,
    shard: ShardId,
}

impl ShardClaims {
    /// Claims a shard, unless another thread has.
    pub(crate) fn claim(&self, shard: ShardId) -> Option<ShardClaim<'_>> {
        let is_free = self.0.lock().insert(shard);
        is_free.then(|| ShardClaim { claims: self, shard })
    }
}

impl Drop for ShardClaim<'_> {
    fn drop(&mut self) {
        self.claims.0.lock().remove(&self.shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_has_one_claim_at_a_time() {
        let claims = ShardClaims::default();
        let first = claims.claim(ShardId(1));
        assert!(first.is_some() && claims.claim(ShardId(1)).is_none() && claims.claim(ShardId(2)).is_some());
        drop(first);
        assert!(claims.claim(ShardId(1)).is_some());
    }
}

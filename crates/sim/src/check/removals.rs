//! No voter is removed if the living ones of those that stay are not a majority, unless there was no such majority before.

use std::collections::BTreeMap;
use vocab::{ReplicaId, ShardId};

/// The voters of each shard, as of the newest change of its members that any replica has applied.
#[derive(Default)]
pub struct Removals(BTreeMap<ShardId, (u64, Vec<ReplicaId>)>);

impl Removals {
    /// The entry that last changed the members of a shard.
    #[must_use]
    pub fn newest(&self, shard: ShardId) -> u64 {
        self.0.get(&shard).map_or(0, |known| known.0)
    }

    /// A replica has applied entry `index`, which makes these the voters. `is_dead` is true of a replica whose node has been down for so
    /// long that every node knows it.
    pub fn changed(
        &mut self,
        shard: ShardId,
        index: u64,
        voters: &[ReplicaId],
        is_dead: impl Fn(ReplicaId) -> bool,
    ) -> Result<(), String> {
        let known = self.0.entry(shard).or_default();
        if index <= known.0 {
            return Ok(());
        }
        let before = std::mem::replace(known, (index, voters.to_vec())).1;
        let lives = |voters: &[ReplicaId]| voters.iter().filter(|id| !is_dead(**id)).count() > voters.len() / 2;
        let removed = before.len() > voters.len() && voters.iter().all(|id| before.contains(id));
        if removed && lives(&before) && !lives(voters) {
            return Err(format!(
                "shard {shard}: of the voters {before:?} only {voters:?} are left, and too many of them are dead"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_needed_stays() {
        let ids = |ids: &[u64]| ids.iter().copied().map(ReplicaId).collect::<Vec<_>>();
        let run = |before: &[u64], after: &[u64], dead: &[u64]| {
            let mut removals = Removals::default();
            assert_eq!(removals.changed(ShardId(1), 5, &ids(before), |_| false), Ok(()));
            removals.changed(ShardId(1), 6, &ids(after), |id| dead.contains(&id.0))
        };
        assert_eq!(run(&[1, 2, 3], &[1, 2], &[]), Ok(()));
        assert_eq!(run(&[1, 2, 3], &[1, 2], &[3]), Ok(()));
        assert!(run(&[1, 2, 3], &[1, 3], &[3]).is_err());
        assert_eq!(run(&[1, 2, 3], &[1, 3], &[2, 3]), Ok(()), "there was no majority before");
        assert_eq!(run(&[1, 2], &[1, 2, 3], &[2, 3]), Ok(()), "no node is removed");
        let mut removals = Removals::default();
        assert_eq!(removals.changed(ShardId(1), 6, &ids(&[1, 2, 3]), |_| false), Ok(()));
        assert_eq!(removals.changed(ShardId(1), 5, &ids(&[3]), |_| true), Ok(()), "an old one, applied again");
    }
}

//! After healing, all replicas of a shard hold the same: rows and what is counted of them, as of the same entry.

use vocab::{NodeId, ShardId};

/// What one replica holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The entry that it is of.
    pub index: u64,
    /// Of all rows.
    pub digest: u64,
    /// How many keys it counts.
    pub keys: u64,
}

/// Compares the replicas of one shard.
pub fn check(shard: ShardId, replicas: &[(NodeId, Holding)]) -> Result<(), String> {
    let Some((first, holding)) = replicas.first() else { return Err(format!("shard {shard} has no replica")) };
    match replicas.iter().find(|(_, other)| other != holding) {
        Some((second, other)) => Err(format!("shard {shard}: {holding:?} on node {first}, {other:?} on node {second}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_difference_counts() {
        let holding = Holding { index: 9, digest: 1, keys: 3 };
        let with = |other| check(ShardId(1), &[(NodeId(1), holding), (NodeId(2), holding), (NodeId(3), other)]);
        assert_eq!(with(holding), Ok(()));
        for other in [Holding { index: 8, ..holding }, Holding { digest: 2, ..holding }, Holding { keys: 4, ..holding }]
        {
            assert!(with(other).is_err(), "{other:?}");
        }
        assert!(check(ShardId(1), &[]).is_err());
    }
}

//! Which shards were split off which, and where: a shard is split off once, at one entry of its parent's log, with the same
//! slots and members on every replica. So a slot has one owner at every entry.

use node::SplitTask;
use std::collections::BTreeMap;
use vocab::{ShardId, Slot};

/// Where a shard comes from.
#[derive(Clone, Debug, PartialEq)]
struct Origin {
    parent: ShardId,
    slots: Vec<(u16, u16)>,
    index: u64,
    term: u64,
    voters: Vec<u64>,
}

/// Every split that any replica has come to.
#[derive(Default)]
pub struct Splits(BTreeMap<ShardId, Origin>);

impl Splits {
    /// A replica has come to a split; true if it is the first one.
    pub fn saw(&mut self, task: &SplitTask) -> Result<bool, String> {
        let origin = Origin {
            parent: task.parent,
            slots: task.slots.ranges().to_vec(),
            index: task.point.index,
            term: task.point.term,
            voters: task.point.conf_state.voters.clone(),
        };
        self.note(task.child, origin)
    }

    fn note(&mut self, child: ShardId, origin: Origin) -> Result<bool, String> {
        match self.0.get(&child) {
            Some(known) if *known == origin => Ok(false),
            Some(known) => Err(format!("shard {child} is split off by {known:?}, and by {origin:?}")),
            None => {
                self.0.insert(child, origin);
                Ok(true)
            }
        }
    }

    /// Of a shard that was split off: whose part it was, the index and term of the entry, and how many voted.
    #[must_use]
    pub fn origin(&self, child: ShardId) -> Option<(ShardId, (u64, u64), usize)> {
        self.0.get(&child).map(|origin| (origin.parent, (origin.index, origin.term), origin.voters.len()))
    }

    /// Who owns a slot that `shard` owned once.
    #[must_use]
    pub fn owner(&self, shard: ShardId, slot: Slot) -> ShardId {
        let has = |origin: &Origin| origin.slots.iter().any(|&(first, last)| (first..=last).contains(&slot.0));
        let child = self.0.iter().find(|(_, origin)| origin.parent == shard && has(origin));
        child.map_or(shard, |(child, _)| self.owner(*child, slot))
    }

    /// The shard of the store's first map that a shard was a part of.
    #[must_use]
    pub fn root(&self, shard: ShardId) -> ShardId {
        self.0.get(&shard).map_or(shard, |origin| self.root(origin.parent))
    }

    /// Whether `shard` owned a slot once, and gave it away.
    #[must_use]
    pub fn gave_away(&self, shard: ShardId, slot: Slot) -> bool {
        self.owner(shard, slot) != shard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_followed_to_its_owner() {
        let mut splits = Splits::default();
        let origin = |parent, slots: &[(u16, u16)], index| Origin {
            parent: ShardId(parent),
            slots: slots.to_vec(),
            index,
            term: 2,
            voters: vec![1, 2, 3],
        };
        assert_eq!(splits.note(ShardId(3), origin(1, &[(50, 99)], 7)), Ok(true));
        assert_eq!(splits.note(ShardId(3), origin(1, &[(50, 99)], 7)), Ok(false));
        assert!(splits.note(ShardId(3), origin(1, &[(50, 99)], 8)).is_err(), "at another entry");
        assert_eq!(splits.note(ShardId(4), origin(3, &[(80, 99)], 20)), Ok(true));
        assert_eq!(splits.note(ShardId(5), origin(1, &[(0, 9)], 11)), Ok(true));
        let owners: Vec<u32> = [5, 20, 60, 90].map(|slot| splits.owner(ShardId(1), Slot(slot)).0).into();
        assert_eq!(owners, [5, 1, 3, 4]);
        assert_eq!((splits.root(ShardId(4)), splits.root(ShardId(2))), (ShardId(1), ShardId(2)));
        assert!(splits.gave_away(ShardId(3), Slot(90)) && !splits.gave_away(ShardId(4), Slot(90)));
    }
}

//! The shards of a map, in blocks that the maps of many epochs share: a change copies one block, whatever the store's size.
//!
//! Invariants: a block holds the shards whose numbers have the same quotient by [`BLOCK_SHARDS`], rising, and is not empty;
//! `held` names, for every node, exactly the shards that have a replica on it.

use crate::shard_info::ShardInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Deref, DerefMut, Index};
use std::sync::Arc;
use vocab::{NodeId, ShardId};

/// Numbers of shards that one block covers.
const BLOCK_SHARDS: u32 = 64;

/// Every shard of a store, by its number.
#[derive(Clone, Default)]
pub struct Shards {
    blocks: BTreeMap<u32, Arc<Block>>,
    count: usize,
    held: BTreeMap<NodeId, Arc<BTreeSet<ShardId>>>,
}

/// Shards whose numbers lie together, rising.
#[derive(Clone, Default, PartialEq, Eq)]
struct Block {
    ids: Vec<ShardId>,
    infos: Vec<ShardInfo>,
}

impl Shards {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, id: &ShardId) -> Option<&ShardInfo> {
        let block = self.blocks.get(&block_of(*id))?;
        Some(&block.infos[block.place(*id).ok()?])
    }

    /// Whether there is one of that number.
    #[must_use]
    pub fn contains_key(&self, id: &ShardId) -> bool {
        self.get(id).is_some()
    }

    /// All of them, by rising number.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&ShardId, &ShardInfo)> {
        self.blocks.values().flat_map(|block| block.iter())
    }

    /// Their numbers, rising.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &ShardId> {
        self.iter().map(|(id, _)| id)
    }

    /// All of them, by rising number.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &ShardInfo> {
        self.iter().map(|(_, info)| info)
    }

    /// The numbers of those that have a replica on `node`, rising.
    pub fn held_by(&self, node: NodeId) -> impl Iterator<Item = ShardId> {
        self.held.get(&node).into_iter().flat_map(|held| held.iter().copied())
    }

    /// Those that may differ from what `older` has: all that do are among them, with a few of their neighbours.
    pub fn changed_since<'a>(&'a self, older: &'a Self) -> impl Iterator<Item = (&'a ShardId, &'a ShardInfo)> {
        let is_shared =
            |number: &u32, block: &Arc<Block>| older.blocks.get(number).is_some_and(|old| Arc::ptr_eq(old, block));
        let other = self.blocks.iter().filter(move |(number, block)| !is_shared(number, block));
        other.flat_map(|(_, block)| block.iter())
    }

    /// One of them, to be changed.
    pub fn get_mut(&mut self, id: &ShardId) -> Option<ShardEdit<'_>> {
        let id = *id;
        let block = self.blocks.get_mut(&block_of(id))?;
        let at = block.place(id).ok()?;
        let info = std::mem::take(&mut Arc::make_mut(block).infos[at]);
        let before = info.replicas.iter().map(|replica| replica.node).collect();
        Some(ShardEdit { shards: self, id, at, info, before })
    }

    /// Adds one, or puts it in the place of the one of that number, which is answered.
    pub fn insert(&mut self, id: ShardId, info: ShardInfo) -> Option<ShardInfo> {
        if let Some(mut known) = self.get_mut(&id) {
            return Some(std::mem::replace(&mut *known, info));
        }
        hold(&mut self.held, id, &info);
        let block = Arc::make_mut(self.blocks.entry(block_of(id)).or_default());
        let at = block.place(id).unwrap_or_else(|at| at);
        block.ids.insert(at, id);
        block.infos.insert(at, info);
        self.count += 1;
        None
    }

    /// Takes one away. A store never does: the numbers of shards are not used twice.
    pub fn remove(&mut self, id: &ShardId) -> Option<ShardInfo> {
        let gone = std::mem::take(&mut *self.get_mut(id)?);
        let number = block_of(*id);
        let block = Arc::make_mut(self.blocks.get_mut(&number)?);
        let at = block.place(*id).ok()?;
        block.ids.remove(at);
        block.infos.remove(at);
        if block.ids.is_empty() {
            self.blocks.remove(&number);
        }
        self.count -= 1;
        Some(gone)
    }
}

impl Block {
    fn place(&self, id: ShardId) -> Result<usize, usize> {
        // As long as no shard was ever removed, a shard's place is its number.
        let at = (id.0 % BLOCK_SHARDS) as usize;
        if self.ids.get(at) == Some(&id) {
            return Ok(at);
        }
        self.ids.binary_search(&id)
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = (&ShardId, &ShardInfo)> {
        self.ids.iter().zip(&self.infos)
    }
}

/// A shard that is being changed. It is in its place again when this goes.
pub struct ShardEdit<'a> {
    shards: &'a mut Shards,
    id: ShardId,
    /// Its place in its block.
    at: usize,
    info: ShardInfo,
    /// The nodes of its replicas before.
    before: Vec<NodeId>,
}

impl Deref for ShardEdit<'_> {
    type Target = ShardInfo;

    fn deref(&self) -> &ShardInfo {
        &self.info
    }
}

impl DerefMut for ShardEdit<'_> {
    fn deref_mut(&mut self) -> &mut ShardInfo {
        &mut self.info
    }
}

impl Drop for ShardEdit<'_> {
    fn drop(&mut self) {
        let info = std::mem::take(&mut self.info);
        if !info.replicas.iter().map(|replica| replica.node).eq(self.before.iter().copied()) {
            for node in &self.before {
                if let Some(held) = self.shards.held.get_mut(node) {
                    Arc::make_mut(held).remove(&self.id);
                    if held.is_empty() {
                        self.shards.held.remove(node);
                    }
                }
            }
            hold(&mut self.shards.held, self.id, &info);
        }
        if let Some(block) = self.shards.blocks.get_mut(&block_of(self.id)) {
            Arc::make_mut(block).infos[self.at] = info;
        }
    }
}

fn block_of(id: ShardId) -> u32 {
    id.0 / BLOCK_SHARDS
}

fn hold(held: &mut BTreeMap<NodeId, Arc<BTreeSet<ShardId>>>, id: ShardId, info: &ShardInfo) {
    for replica in &info.replicas {
        Arc::make_mut(held.entry(replica.node).or_default()).insert(id);
    }
}

impl Index<&ShardId> for Shards {
    type Output = ShardInfo;

    fn index(&self, id: &ShardId) -> &ShardInfo {
        self.get(id).expect("the map has the shard")
    }
}

impl PartialEq for Shards {
    /// What they share is not compared.
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&Arc<Block>, &Arc<Block>)| Arc::ptr_eq(a, b) || a == b;
        self.count == other.count
            && self.blocks.keys().eq(other.blocks.keys())
            && self.blocks.values().zip(other.blocks.values()).all(same)
    }
}

impl Eq for Shards {}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl FromIterator<(ShardId, ShardInfo)> for Shards {
    fn from_iter<I: IntoIterator<Item = (ShardId, ShardInfo)>>(all: I) -> Self {
        let mut shards = Self::default();
        all.into_iter().for_each(|(id, info)| drop(shards.insert(id, info)));
        shards
    }
}

impl<'a> IntoIterator for &'a Shards {
    type Item = (&'a ShardId, &'a ShardInfo);
    type IntoIter = Box<dyn DoubleEndedIterator<Item = Self::Item> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::shard_info::ReplicaInfo;
    use vocab::{Prng, ReplicaId};

    fn drawn(prng: &mut Prng) -> ShardInfo {
        let replica = |id| ReplicaInfo { id: ReplicaId(id), node: NodeId(id), learner: false, member: true };
        let replicas = (1..8).filter(|_| prng.below(2) == 0).map(replica).collect();
        ShardInfo { replicas, next_replica: 9, ..ShardInfo::default() }
    }

    /// The same as a `BTreeMap` that is looked through.
    #[test]
    fn shards_are_a_map_that_knows_what_nodes_hold() {
        let mut prng = Prng::new(7);
        let (mut shards, mut model) = (Shards::default(), BTreeMap::new());
        let mut kept: Vec<(Shards, BTreeMap<ShardId, ShardInfo>)> = Vec::new();
        for step in 0..3000 {
            let id = ShardId(prng.below(300) as u32 * if prng.below(9) == 0 { 1_000_003 } else { 1 });
            match prng.below(4) {
                0 | 1 => {
                    let info = drawn(&mut prng);
                    assert_eq!(shards.insert(id, info.clone()), model.insert(id, info));
                }
                2 => assert_eq!(shards.remove(&id), model.remove(&id)),
                _ => {
                    let info = drawn(&mut prng);
                    let known = shards.get_mut(&id).map(|mut known| *known = info.clone());
                    assert_eq!(known, model.get_mut(&id).map(|known| *known = info));
                }
            }
            assert_eq!((shards.len(), shards.get(&id)), (model.len(), model.get(&id)));
            if step % 300 == 0 {
                kept.push((shards.clone(), model.clone()));
            }
        }
        kept.push((shards, model));
        for (shards, model) in &kept {
            assert!(shards.iter().eq(model.iter()) && shards.iter().rev().eq(model.iter().rev()));
            for node in (0..10).map(NodeId) {
                let on = |(id, info): (&ShardId, &ShardInfo)| info.replica_on(node).map(|_| *id);
                assert!(shards.held_by(node).eq(model.iter().filter_map(on)), "node {node}");
            }
            assert_eq!(*shards, model.iter().map(|(id, info)| (*id, info.clone())).collect());
        }
        for (older, newer) in kept.windows(2).map(|pair| (&pair[0], &pair[1])) {
            let told: BTreeSet<ShardId> = newer.0.changed_since(&older.0).map(|(id, _)| *id).collect();
            let changed = |(id, info): &(&ShardId, &ShardInfo)| older.1.get(id) != Some(*info);
            assert!(newer.1.iter().filter(changed).all(|(id, _)| told.contains(id)));
        }
    }

    #[test]
    fn one_change_copies_one_block() {
        let all = (0..10_000).map(|id| (ShardId(id), ShardInfo { next_replica: 1, ..ShardInfo::default() }));
        let older: Shards = all.collect();
        let mut newer = older.clone();
        assert_eq!(newer.changed_since(&older).count(), 0);
        newer.get_mut(&ShardId(5000)).unwrap().next_replica = 2;
        let changed: Vec<u32> = newer.changed_since(&older).map(|(id, _)| id.0).collect();
        assert!(changed.len() == BLOCK_SHARDS as usize && changed.contains(&5000), "{changed:?}");
        assert!(newer != older);
    }
}

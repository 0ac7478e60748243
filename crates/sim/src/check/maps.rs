//! The map: all nodes tell of the same map for an epoch, and each map keeps the rules of a map. The id of a
//! replica is given out once.

use cluster::Map;
use std::collections::BTreeMap;
use vocab::{Epoch, NodeId, ReplicaId, ShardId, StoreId};
use xxhash_rust::xxh3::xxh3_64;

/// The maps that were seen.
#[derive(Default)]
pub struct Maps {
    store: Option<StoreId>,
    by_epoch: BTreeMap<Epoch, u64>,
    newest: Epoch,
    /// The slots of each shard that has some, by the newest map.
    slots: BTreeMap<ShardId, Vec<(u16, u16)>>,
    /// Where each replica is, or was, and whether it still is.
    replicas: BTreeMap<(ShardId, ReplicaId), (NodeId, bool)>,
}

impl Maps {
    /// A node has a map.
    pub fn saw(&mut self, map: &Map) -> Result<(), String> {
        let store = *self.store.get_or_insert(map.store);
        if store != map.store {
            return Err(format!("there are two stores: {store} and {}", map.store));
        }
        let bytes = map.encode();
        let hash = xxh3_64(&bytes);
        match self.by_epoch.get(&map.epoch) {
            Some(known) if *known == hash => Ok(()),
            Some(_) => Err(format!("there are two maps of epoch {}; this is one: {map:?}", map.epoch)),
            None => {
                self.by_epoch.insert(map.epoch, hash);
                match Map::decode(&bytes) {
                    Ok(read) if read == *map => {}
                    Ok(read) => return Err(format!("a map is read as another one: {map:?}, {read:?}")),
                    Err(e) => return Err(format!("{e}: {map:?}")),
                }
                map.validate().map_err(|e| format!("map {}: {e}", map.epoch))?;
                if map.epoch > self.newest { self.follow(map) } else { Ok(()) }
            }
        }
    }

    /// The node of a replica that is, or was.
    #[must_use]
    pub fn node_of(&self, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
        Some(self.replicas.get(&(shard, replica))?.0)
    }

    fn follow(&mut self, map: &Map) -> Result<(), String> {
        self.newest = map.epoch;
        for (shard, info) in &map.shards {
            let within = |&(first, last): &(u16, u16), before: &[(u16, u16)]| {
                before.iter().any(|&(from, to)| from <= first && last <= to)
            };
            if let Some(before) = self.slots.get(shard)
                && !info.slots.iter().all(|range| within(range, before))
            {
                return Err(format!("shard {shard} had the slots {before:?}, and has {:?}", info.slots));
            }
            if !info.slots.is_empty() {
                self.slots.insert(*shard, info.slots.clone());
            }
        }
        for (&(shard, id), (_, there)) in &mut self.replicas {
            *there &= map.replica(shard, id).is_some();
        }
        for (&shard, info) in &map.shards {
            for replica in &info.replicas {
                let known = *self.replicas.entry((shard, replica.id)).or_insert((replica.node, true));
                if known != (replica.node, true) {
                    return Err(format!(
                        "replica {} of shard {shard} was on node {} before, and is made anew on node {}",
                        replica.id, known.0, replica.node
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_has_one_map() {
        let info = cluster::NodeInfo {
            id: vocab::NodeId(1),
            peer_address: "a:1".to_owned(),
            client_host: "a".to_owned(),
            client_port: 1,
            zone: String::new(),
            capacity: 1,
        };
        let map = cluster::initial_map(StoreId(7), &[info], 2, 1).expect("a map of one node");
        let mut maps = Maps::default();
        assert_eq!((maps.saw(&map), maps.saw(&map)), (Ok(()), Ok(())));
        let other = Map { replication_factor: 2, ..map.clone() };
        assert!(maps.saw(&other).is_err_and(|what| what.contains("two maps of epoch 1")));
        assert!(maps.saw(&Map { store: StoreId(8), ..map.clone() }).is_err_and(|what| what.contains("two stores")));
        assert_eq!(maps.saw(&Map { epoch: Epoch(2), ..other.clone() }), Ok(()));
        let mut without = Map { epoch: Epoch(3), ..map.clone() };
        let gone = without.shards.get_mut(&ShardId(1)).map(|mut info| std::mem::take(&mut info.replicas));
        let gone = gone.expect("a shard of the map");
        let mut maps = Maps::default();
        assert_eq!(maps.follow(&map), Ok(()));
        assert_eq!(maps.follow(&without), Ok(()));
        without.shards.get_mut(&ShardId(1)).expect("it is there").replicas = gone;
        assert!(maps.follow(&without).is_err_and(|what| what.contains("is made anew")));
        let mut maps = Maps::default();
        let mut grown = Map { epoch: Epoch(5), ..map.clone() };
        for (shard, slots) in [(1, (0, 9)), (2, (10, 16383))] {
            grown.shards.get_mut(&ShardId(shard)).expect("a shard of the map").slots = vec![slots];
        }
        assert_eq!(maps.follow(&map), Ok(()));
        assert!(maps.follow(&grown).is_err_and(|what| what.contains("had the slots")));
        let mut wrong = Map { epoch: Epoch(4), ..map };
        wrong.shards.remove(&vocab::ShardId(2));
        assert!(maps.saw(&wrong).is_err());
    }
}

//! A store of nodes 1 to 3 with one data shard, as node 1 sees it: for the tests of the read protocol.

#![allow(clippy::unwrap_used)]

use super::{LeaderCell, LocalShard};
use crate::format::slots::Slots;
use crate::shard_handle::ShardHandle;
use cluster::{Map, NodeInfo};
use std::sync::Arc;
use storage::{EngineKind, RowCache, SharedResources, StorageOptions, WriteBatch, open_engine};
use vocab::{Moment, NodeId, ShardId, Slot, StoreId};

/// The shard.
pub(super) const SHARD: ShardId = ShardId(1);
/// This node.
pub(super) const HERE: NodeId = NodeId(1);
/// The slot that is asked for.
pub(super) const SLOT: Slot = Slot(7);
/// When the request is there.
pub(super) const ARRIVED: Moment = Moment { wall_ms: 50_000, mono_us: 10_000_000 };

/// What node 1 has of the shard.
pub(super) struct Fixture {
    pub(super) map: Map,
    pub(super) handle: Arc<ShardHandle>,
    pub(super) leader: LeaderCell,
    folder: tempfile::TempDir,
}

impl Fixture {
    /// A store with so many replicas of its shard: this node's follows, and has applied entry 5.
    pub(super) fn new(replicas: u32) -> Self {
        let info = |id: u64| NodeInfo {
            id: NodeId(id),
            peer_address: format!("n{id}:1"),
            client_host: format!("n{id}"),
            client_port: 1,
            zone: String::new(),
            capacity: 1,
        };
        let nodes: Vec<NodeInfo> = (1..=u64::from(replicas)).map(info).collect();
        let map = cluster::initial_map(StoreId(1), &nodes, 1, replicas).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let handle = open(&folder.path().join("a"));
        handle.engine().apply(5, WriteBatch::default());
        Self { map, handle, leader: LeaderCell::default(), folder }
    }

    /// A replica that has never applied anything.
    pub(super) fn empty(&mut self) {
        self.handle = open(&self.folder.path().join("b"));
    }

    /// The replica leads; its lease ends at `until_us`, and a majority last confirmed it at `confirmed_us`.
    pub(super) fn lead(&self, confirmed_us: u64, until_us: u64) {
        self.handle.lease().end();
        self.handle.lease().set_leading(true);
        self.handle.lease().confirm(confirmed_us, until_us);
    }

    /// The leader has proposed to give the slot away.
    pub(super) fn fence(&self) {
        self.handle.fence(Some(Slots::from((SLOT.0, SLOT.0))));
    }

    /// The slot is another shard's.
    pub(super) fn give_away(&self) {
        self.handle.give_away(&Slots::from((SLOT.0, SLOT.0)));
    }

    /// What the node knows.
    pub(super) fn local(&self) -> LocalShard<'_> {
        LocalShard { node: HERE, shard: SHARD, map: &self.map, handle: Some(&self.handle), leader: Some(&self.leader) }
    }
}

fn open(folder: &std::path::Path) -> Arc<ShardHandle> {
    let resources = SharedResources::new(StorageOptions::default());
    let engine = open_engine(EngineKind::Memory, folder, &resources).unwrap();
    ShardHandle::open(SHARD, (0, 16383), engine, Arc::new(RowCache::new(0))).unwrap()
}

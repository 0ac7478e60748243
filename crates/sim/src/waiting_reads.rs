//! Reads on a node that wait for news of their shard.

use crate::client_read::ClientRead;
use std::collections::BTreeMap;
use vocab::ShardId;

/// Reads that wait, by the shard of which they wait for news.
#[derive(Default)]
pub struct WaitingReads(BTreeMap<ShardId, Vec<ClientRead>>);

impl WaitingReads {
    /// A read waits.
    pub fn park(&mut self, shard: ShardId, read: ClientRead) {
        self.0.entry(shard).or_default().push(read);
    }

    /// There is news of a shard: those that wait for it, in the order in which they came.
    pub fn wake(&mut self, shard: ShardId) -> Vec<ClientRead> {
        self.0.remove(&shard).unwrap_or_default()
    }

    /// The shards that are waited for.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.0.keys().copied()
    }
}

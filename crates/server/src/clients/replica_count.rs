//! How many replicas hold what a client has written.

use crate::shared::NodeShared;
use node::session::WaitFor;
use node::{EntryId, ShardHandle};
use vocab::ShardId;

/// How many followers hold what a client has written: the fewest over all its shards.
pub(super) fn replicas_that_hold(store: &NodeShared, wait: &WaitFor) -> u64 {
    let known = store.known();
    let leader = |shard: ShardId| known.handle(shard).filter(|handle| handle.leading());
    let of_shard = |(shard, index): &(ShardId, u64)| leader(*shard).map_or(0, |handle| handle.followers().with(*index));
    let of_early = |entry: &EntryId| leader(entry.shard).map_or(0, |handle| handle.followers().holding(*entry));
    let written = &wait.written;
    let counted = written.shards().iter().map(of_shard).chain(written.early().iter().map(of_early));
    let led = || known.data_handles().filter(|handle| handle.leading());
    let fewest = if written.shards().is_empty() && written.early().is_empty() {
        led().map(|handle| handle.followers().with(0)).min()
    } else if written.beyond() {
        counted.chain(led().map(|handle| with_last(handle))).min()
    } else {
        counted.min()
    };
    fewest.unwrap_or(0)
}

/// Whether an entry that was answered early is known to be applied here.
pub(super) fn is_applied(store: &NodeShared, entry: EntryId) -> bool {
    store.known().handle(entry.shard).is_some_and(|handle| handle.followers().has_applied(entry))
}

/// Whether an entry that was answered early may be lost, for all that is known here.
pub(super) fn may_be_lost(store: &NodeShared, entry: EntryId) -> bool {
    let known = store.known();
    let leader = known.handle(entry.shard).filter(|handle| handle.leading());
    !leader.is_some_and(|handle| handle.followers().keeps(entry)) && !is_applied(store, entry)
}

/// How many followers hold all that any client was told to be written in a shard.
fn with_last(handle: &ShardHandle) -> u64 {
    let followers = handle.followers();
    let applied = followers.with(handle.engine().applied_index());
    followers.early().map_or(applied, |entry| applied.min(followers.holding(entry)))
}

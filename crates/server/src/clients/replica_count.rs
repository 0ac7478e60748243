//! How many replicas hold what a client has written.

use crate::shared::NodeShared;
use node::session::WaitFor;
use vocab::ShardId;

/// How many followers hold what a client has written: the fewest over all its shards.
pub(super) fn replicas_that_hold(store: &NodeShared, wait: &WaitFor) -> u64 {
    let known = store.known();
    let of_shard = |shard: ShardId, index: u64| {
        let handle = known.handle(shard).filter(|handle| handle.leading());
        handle.map_or(0, |handle| handle.followers_with(index))
    };
    let written = &wait.written;
    let counted = written.shards().iter().map(|(shard, index)| of_shard(*shard, *index));
    let led = || known.data_handles().filter(|handle| handle.leading());
    let fewest = if written.shards().is_empty() {
        led().map(|handle| handle.followers_with(0)).min()
    } else if written.beyond() {
        let all = led().map(|handle| handle.followers_with(handle.engine().applied_index()));
        counted.chain(all).min()
    } else {
        counted.min()
    };
    fewest.unwrap_or(0)
}

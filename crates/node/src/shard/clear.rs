//! FLUSHALL's part of one shard.

use crate::format::{Fact, keys};
use crate::shard_handle::ShardHandle;
use storage::{Span, WriteBatch};

/// Applies entry `index`, of that clock, which removes every key.
pub(super) fn apply_clear(handle: &ShardHandle, index: u64, now_ms: u64) -> storage::Result<()> {
    clear(handle, index)?;
    handle.begin_write(index);
    handle.engine().apply(index, WriteBatch::default());
    handle.clock().reach(now_ms);
    handle.lose_trackers();
    Ok(())
}

/// Removes every key of a shard: what entry `index` begins with. What is remembered of numbered requests stays: one that
/// was applied before is not applied again after.
pub(crate) fn clear(handle: &ShardHandle, index: u64) -> storage::Result<()> {
    let requests = requests_kept(handle)?;
    let next_expiry_ms = requests.iter().find_map(|(key, _)| keys::parse_forgetting(key).map(|(at_ms, _)| at_ms));
    handle.begin_write(index);
    // The cache goes first, so that no one sees a row of it beside the empty tree.
    handle.cache().clear_shard(handle.id().0);
    handle.kept_stretch().forget();
    // As of the entry before: this one is applied, without writes, when it is committed.
    handle.engine().clear(index - 1, handle.facts_when_cleared(), requests)?;
    handle.counters().clear();
    handle.garbage(false);
    handle.next_expiry(next_expiry_ms.unwrap_or(u64::MAX));
    Ok(())
}

/// All rows about numbered requests, in the order of their keys.
fn requests_kept(handle: &ShardHandle) -> storage::Result<Vec<Fact>> {
    let snapshot = handle.engine().snapshot();
    let of = |(start, end): (Vec<u8>, Vec<u8>)| snapshot.iter(Span { start, end }, false);
    of(keys::all_requests()).chain(of(keys::forgettings())).collect()
}

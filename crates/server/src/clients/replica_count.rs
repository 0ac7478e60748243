//! How many replicas hold what a client has written.

use super::connection::Connection;
use crate::shared::NodeShared;
use node::session::{Session, Transaction, WaitFor, Written};
use node::{EntryId, ShardHandle};
use vocab::{ShardId, Slot};

/// What counts for a client of a database is what it has written to the database that it has chosen.
pub(super) fn narrow(store: &NodeShared, session: &Session, written: &mut Written) {
    let Some(database) = session.keyspace().database() else { return };
    let known = store.known();
    let shard = known.shard_of(known.databases.place_of(database).slot());
    shard.into_iter().for_each(|shard| written.narrow(shard));
}

/// Where another node has answered what a client has written to a shard that this one leads: what is applied by now counts.
pub(super) fn look_up(store: &NodeShared, written: &mut Written) {
    let known = store.known();
    written.look_up(|shard| known.handle(shard)?.followers().applied_in_own_term());
}

/// Whether the node that runs a transaction knows then which entries have all that the client has written to its database: it is
/// about the database's shard, and no write was answered before it was committed.
pub(super) fn leader_knows_written(store: &NodeShared, connection: &Connection, transaction: &Transaction) -> bool {
    let Some(database) = connection.session.keyspace().database() else { return false };
    let known = store.known();
    let slot = known.databases.place_of(database).slot();
    let is_of_its_shard = |of: Slot| known.shard_of(of) == known.shard_of(slot);
    transaction.slot().is_some_and(is_of_its_shard) && connection.is_settled_in(slot)
}

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

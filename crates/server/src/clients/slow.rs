//! Clients that are closed because they do not take what they are owed.

use super::connection::Connection;
use super::output_watch::Slow;
use crate::shared::NodeShared;

/// A client is closed because it does not take its replies. Until its connection is gone, others find it too slow as well: it is
/// said and counted once.
pub(super) fn note_slow(store: &NodeShared, worker: usize, connection: &mut Connection, why: Slow) {
    if connection.is_broken() {
        return;
    }
    let why = match why {
        Slow::Hard => "it is owed more than the hard limit",
        Slow::Soft => "it was owed more than the soft limit for too long",
        Slow::Idle => "it has taken nothing of a long reply for too long",
        Slow::Replaced => "its long reply reads a replica that another one is to take the place of",
    };
    let from = &connection.session.entry().addr;
    log::warn!("the client at {from} is closed because it is slow: {why}");
    store.stats.worker(worker).output_limit_passed();
    connection.break_off();
}

/// A client is closed because all clients take too much memory together, and it takes so much of it.
pub(super) fn note_evicted(store: &NodeShared, worker: usize, connection: &mut Connection, bytes: u64) {
    let from = &connection.session.entry().addr;
    log::warn!(
        "the client at {from} is closed: clients take more than `maxmemory-clients` together, and it takes {bytes} bytes"
    );
    store.stats.worker(worker).client_evicted();
    connection.break_off();
}

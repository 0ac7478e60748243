//! What this node has to do before an exchange of databases is answered.

use crate::mailbox::WorkerMessage;
use crate::shared::NodeShared;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// For so long the answer waits for waits that go on elsewhere: a client that does not take what it is sent keeps its own from it.
const MOVED_WITHIN: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);

/// Waits, for a moment, until the clients of this node that wait in a database wait for the keys that are its own now.
pub(super) fn settle(store: &NodeShared) {
    let until = Instant::now() + MOVED_WITHIN;
    let workers = store.mailboxes.workers();
    let (done, is_done) = sync_channel(workers);
    store.mailboxes.tell_all(|| WorkerMessage::DatabasesExchanged(done.clone()));
    for _ in 0..workers {
        // A worker that takes longer does it all the same.
        let _ = is_done.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
    while Arc::strong_count(&store.moving_waits) > 1 && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
}

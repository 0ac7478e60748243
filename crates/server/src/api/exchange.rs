//! What this node has to do before an exchange of databases is answered.

use crate::mailbox::WorkerMessage;
use crate::shared::NodeShared;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For so long the answer waits for waits that go on elsewhere: a client that does not take what it is sent keeps its own from it.
const MOVED_WITHIN: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);

/// Waits, for a moment, until the clients of this node that wait in a database wait for the keys that are its own now.
pub(super) fn settle(store: &NodeShared) {
    let until = Instant::now() + MOVED_WITHIN;
    store.mailboxes.await_all(until, WorkerMessage::DatabasesExchanged);
    while Arc::strong_count(&store.moving_waits) > 1 && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
}

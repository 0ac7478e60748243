//! Passwords that clients have sent, which are compared elsewhere.

use crate::shared::NodeShared;
use node::session::{Host as _, Session};
use std::sync::Arc;

/// Has threads compare the passwords that clients have sent; their requests are looked at again then.
pub(super) fn compare_passwords(store: &Arc<NodeShared>) {
    for check in store.users.take_checks() {
        let of_job = store.clone();
        store.pool.run(Box::new(move || {
            check.run(&of_job.users.control.logins);
            of_job.wake_all();
        }));
    }
}

/// Whether logins from where a client is are slowed now, because others have failed.
pub(super) fn is_slowed(store: &NodeShared, session: &Session, now_ms: u64) -> bool {
    session.entry().ip().is_some_and(|ip| store.users.control.delay.until_ms(ip, now_ms).is_some())
}

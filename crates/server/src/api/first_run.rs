//! The first run of a script at a node: it is learned, then run.

use super::embedded::Caller;
use super::route::route;
use super::routed::Routed;
use super::scripts::learn;
use crate::os::steady_us;
use crate::shared::{NodeShared, refusal_text};
use node::acl::User;
use node::read::{Hold, NotHere, leader_access};
use node::session::Consistency;
use resp::{Reply, table};
use std::sync::Arc;
use std::time::Duration;

/// Between two looks for a leader.
const PAUSE: Duration = Duration::from_millis(10);

/// Has this node know a script, and runs it, as that user if it may not run every command. Waits: for threads of the pool.
pub(crate) fn first_run(store: &Arc<NodeShared>, args: &[&[u8]], user: Option<Arc<User>>, reply: &mut Reply) {
    if let Err(text) = learn(store, args).and_then(|()| await_leader(store, args)) {
        return reply.error(&text);
    }
    Caller::new(store.clone()).for_user(user).call_into(args, reply);
}

/// Waits for the shard of a script to have a leader. The error says that it is elsewhere, or that there is none.
fn await_leader(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<(), String> {
    let target = match route(store, table::resolve(args)?, args)? {
        Routed::Script { target, .. } => target,
        _ => return Err("TRYAGAIN the scripts of the store are changing".to_owned()),
    };
    let hold = Hold::for_leader(steady_us());
    loop {
        let known = store.known();
        match leader_access(known.local(store.node(), target.shard), target.slot, hold, steady_us()) {
            Ok(_) => return Ok(()),
            Err(NotHere::Wait { .. }) => std::thread::sleep(PAUSE),
            Err(why) => return Err(refusal_text(&known, target.slot, Consistency::Absolute, &why)),
        }
    }
}

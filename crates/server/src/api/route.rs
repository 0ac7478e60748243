//! From a request to where it runs: its shard, the whole store, or the session itself.

use crate::mailbox::KeyHashes;
use crate::shared::NodeShared;
use node::command::{Error, Handler, Outcome, StoreHandler};
use node::{Fault, ShardView, admission, handlers, key_hash};
use resp::Reply;
use resp::table::CommandSpec;
use std::sync::Arc;
use vocab::{ShardId, Slot, slot_of};

/// What runs a command in the pool, over what it finds out itself.
pub(crate) type PoolHandler = fn(&Arc<NodeShared>, &[&[u8]], &mut Reply);

/// Where a request runs.
pub(crate) enum Routed {
    /// On one shard.
    Shard {
        /// The shard; `None` while the node belongs to no store.
        shard: Option<ShardId>,
        /// The slot of the keys.
        slot: Slot,
        /// Hashes of the keys.
        keys: KeyHashes,
        /// What runs it.
        handler: Handler,
    },
    /// On all shards together.
    Store {
        /// What runs it.
        handler: StoreHandler,
    },
    /// By a thread of the pool, over what that finds out itself.
    Pool {
        /// What runs it.
        handler: PoolHandler,
    },
    /// On each shard: FLUSHALL.
    Clear,
}

/// Finds where a command over data runs. The error is the text of the reply.
pub(crate) fn route(store: &NodeShared, spec: &CommandSpec, args: &[&[u8]]) -> Result<Routed, String> {
    if matches!(spec.name, "FLUSHALL" | "FLUSHDB") {
        return check_flush(args).map(|()| Routed::Clear);
    }
    let of_pool = [super::backup::handler, super::admin::handler, super::copy::handler];
    if let Some(handler) = of_pool.iter().find_map(|family| family(spec.name)) {
        return Ok(Routed::Pool { handler });
    }
    let found = handlers(spec.id);
    if let Some(handler) = found.store {
        return Ok(Routed::Store { handler });
    }
    let handler = found.data.ok_or_else(|| format!("ERR {} is not a command over data", spec.name))?;
    admission::check(spec, args).map_err(String::from)?;
    let positions = spec.keys(args).map_err(|_| "ERR Invalid arguments specified for command".to_owned())?;
    let mut keys = KeyHashes::new();
    let mut slot: Option<Slot> = None;
    for at in positions {
        let key = args[at];
        let of_key = slot_of(key);
        if *slot.get_or_insert(of_key) != of_key {
            return Err("CROSSSLOT Keys in request don't hash to the same slot".to_owned());
        }
        keys.push(key_hash(key));
    }
    let slot = slot.unwrap_or(Slot(0));
    let shard = store.known().shard_of(slot);
    Ok(Routed::Shard { shard, slot, keys, handler })
}

fn check_flush(args: &[&[u8]]) -> Result<(), String> {
    match args {
        [_] => Ok(()),
        [_, how] if how.eq_ignore_ascii_case(b"ASYNC") || how.eq_ignore_ascii_case(b"SYNC") => Ok(()),
        _ => Err("ERR syntax error".to_owned()),
    }
}

/// Turns a handler's failure into its reply; true if it succeeded.
pub(crate) fn conclude(done: Outcome, reply: &mut Reply, mark: usize) {
    let text = match done {
        Ok(()) => return,
        Err(Error::Reply(text)) => text,
        Err(Error::Fault(Fault::Storage(e))) => {
            log::error!("{e}");
            format!("ERR {e}").into()
        }
        Err(Error::Fault(Fault::Remote(text))) => text.into(),
        Err(Error::Fault(Fault::WouldBlock)) => "ERR this read would wait for the disk for ever".into(),
    };
    reply.buf.truncate(mark);
    reply.error(&text);
}

/// The same of a command that ran on that replica, which is known to be damaged from now on if it met damage.
pub(crate) fn conclude_on(view: &ShardView, done: Outcome, reply: &mut Reply, mark: usize) {
    if let Err(Error::Fault(Fault::Storage(e))) = &done {
        view.damage().note(view.id(), e);
    }
    conclude(done, reply, mark);
}

//! From a request to where it runs: its shard, the whole store, or the session itself.

use crate::store::{Store, now_ms};
use node::exec::{Error, Handler, Outcome, ScanCursors, StoreCall, StoreHandler};
use node::{Fault, KeyHash, RecordRange, Records, Shards, SnapshotSpace, Space, handlers, key_hash};
use resp::Reply;
use resp::table::CommandSpec;
use smallvec::SmallVec;
use vocab::{Slot, limits, slot_of};

/// Hashes of a request's keys; most have one.
pub(crate) type KeyHashes = SmallVec<[KeyHash; 4]>;

/// Where a request runs.
pub(crate) enum Routed {
    /// On one shard.
    Shard {
        /// The shard's place.
        shard: usize,
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
    /// On each shard: FLUSHALL.
    Clear,
}

/// Finds where a command over data runs. The error is the text of the reply.
pub(crate) fn route(store: &Store, spec: &CommandSpec, args: &[&[u8]]) -> Result<Routed, String> {
    if matches!(spec.name, "FLUSHALL" | "FLUSHDB") {
        return check_flush(args).map(|()| Routed::Clear);
    }
    let found = handlers(spec.id);
    if let Some(handler) = found.store {
        return Ok(Routed::Store { handler });
    }
    let handler = found.data.ok_or_else(|| format!("ERR {} is not a command over data", spec.name))?;
    let positions = spec.keys(args).map_err(|_| "ERR Invalid arguments specified for command".to_owned())?;
    let mut keys = KeyHashes::new();
    let mut slot: Option<Slot> = None;
    for at in positions {
        let key = args[at];
        if key.len() > limits::KEY_BYTES_MAX {
            return Err(format!("ERR key is too long ({} bytes, {} are allowed)", key.len(), limits::KEY_BYTES_MAX));
        }
        let of_key = slot_of(key);
        if *slot.get_or_insert(of_key) != of_key {
            return Err("CROSSSLOT Keys in request don't hash to the same slot".to_owned());
        }
        keys.push(key_hash(key));
    }
    Ok(Routed::Shard { shard: store.shard_of(slot.unwrap_or(Slot(0))), keys, handler })
}

fn check_flush(args: &[&[u8]]) -> Result<(), String> {
    match args {
        [_] => Ok(()),
        [_, how] if how.eq_ignore_ascii_case(b"ASYNC") || how.eq_ignore_ascii_case(b"SYNC") => Ok(()),
        _ => Err("ERR syntax error".to_owned()),
    }
}

/// Views of all shards, made when they are first looked at.
struct StoreShards<'a> {
    store: &'a Store,
    spaces: Vec<Option<SnapshotSpace<'a>>>,
    now_ms: u64,
    seed: u64,
}

impl Shards for StoreShards<'_> {
    fn count(&self) -> usize {
        self.spaces.len()
    }

    fn slots(&self, i: usize) -> (u16, u16) {
        self.store.views[i].slots()
    }

    fn leads(&self, i: usize) -> bool {
        self.store.views[i].serving()
    }

    fn space(&mut self, i: usize) -> &mut dyn Space {
        let (store, now_ms, seed) = (self.store, self.now_ms, self.seed);
        self.spaces[i].get_or_insert_with(|| SnapshotSpace::new(&store.views[i], now_ms, seed ^ i as u64))
    }

    fn records<'b>(&'b mut self, range: &RecordRange<'_>) -> Vec<Box<dyn Records + 'b>> {
        for i in 0..self.count() {
            self.space(i);
        }
        self.spaces.iter().flatten().map(|space| space.records(range.start, range.end, range.reverse)).collect()
    }
}

/// Runs a command over the whole store and writes its reply.
pub(crate) fn run_on_store(
    store: &Store,
    spec: &CommandSpec,
    handler: StoreHandler,
    args: &[&[u8]],
    reply: &mut Reply,
    seed: u64,
) {
    let mark = reply.buf.len();
    let spaces = store.views.iter().map(|_| None).collect();
    let mut shards = StoreShards { store, spaces, now_ms: now_ms(), seed };
    let mut call = |cursors: &mut ScanCursors| handler(&mut StoreCall { args, shards: &mut shards, cursors, reply });
    // Only SCAN has cursors; others shall not wait for each other.
    let done = if spec.name == "SCAN" { call(&mut store.cursors()) } else { call(&mut ScanCursors::default()) };
    conclude(done, reply, mark);
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

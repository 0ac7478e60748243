//! Commands over the whole store: the shards that this node leads are read here, the others on their leaders.

use crate::access::Access;
use crate::requests::conclude;
use crate::store::{Store, now_ms};
use node::exec::{ScanCursors, StoreCall, StoreHandler};
use node::session::Consistency;
use node::{
    RecordRange, Records, Remote, RemoteAnswer, RemoteSpace, ShardView, Shards, SnapshotSpace, Space, remote_records,
};
use resp::Reply;
use resp::table::CommandSpec;
use std::sync::Arc;
use vocab::{ShardId, Slot};

/// The leaders of shards elsewhere.
#[derive(Clone)]
struct Elsewhere(Arc<Store>);

impl Remote for Elsewhere {
    fn call(&mut self, shard: ShardId, command: &[&[u8]]) -> RemoteAnswer {
        self.0.call_leader(shard, command)
    }

    fn call_all(&mut self, shards: &[ShardId], command: &[&[u8]]) -> Vec<RemoteAnswer> {
        self.0.call_leaders(shards, command)
    }
}

/// A shard as a command sees it.
enum Seen<'a> {
    Here(SnapshotSpace<'a>),
    There(Box<RemoteSpace<Elsewhere>>),
}

/// One shard of the store.
struct Part {
    id: ShardId,
    slots: (u16, u16),
    /// Whether this node leads it.
    leads: bool,
    /// This node's replica, if it may answer.
    view: Option<Arc<ShardView>>,
}

/// Views of all shards, made when they are first looked at.
struct StoreShards<'a> {
    store: &'a Arc<Store>,
    parts: &'a [Part],
    seen: Vec<Option<Seen<'a>>>,
    now_ms: u64,
    seed: u64,
}

impl<'a> StoreShards<'a> {
    fn see(&mut self, i: usize) -> &mut Seen<'a> {
        let (store, now_ms, seed) = (self.store, self.now_ms, self.seed ^ i as u64);
        let part = &self.parts[i];
        self.seen[i].get_or_insert_with(|| match &part.view {
            Some(view) => Seen::Here(SnapshotSpace::new(view, now_ms, seed)),
            None => Seen::There(Box::new(RemoteSpace::new(Elsewhere(store.clone()), part.id, now_ms, seed))),
        })
    }
}

impl Shards for StoreShards<'_> {
    fn count(&self) -> usize {
        self.parts.len()
    }

    fn slots(&self, i: usize) -> (u16, u16) {
        self.parts[i].slots
    }

    fn leads(&self, i: usize) -> bool {
        self.parts[i].leads
    }

    fn space(&mut self, i: usize) -> &mut dyn Space {
        match self.see(i) {
            Seen::Here(space) => space,
            Seen::There(space) => &mut **space,
        }
    }

    fn records<'b>(&'b mut self, range: &RecordRange<'_>) -> Vec<Box<dyn Records + 'b>> {
        for i in 0..self.count() {
            self.see(i);
        }
        let away: Vec<ShardId> = self.parts.iter().filter(|part| part.view.is_none()).map(|part| part.id).collect();
        let mut away = remote_records(&Elsewhere(self.store.clone()), &away, range).into_iter();
        let mut lists: Vec<Box<dyn Records + 'b>> = Vec::with_capacity(self.parts.len());
        for seen in self.seen.iter().flatten() {
            match seen {
                Seen::Here(space) => lists.push(space.records(range.start, range.end, range.reverse)),
                Seen::There(_) => lists.extend(away.next()),
            }
        }
        lists
    }
}

/// A command over the whole store, and what its client is promised.
pub(crate) struct Asked<'a> {
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) seed: u64,
    /// When the request was there.
    pub(crate) arrived_us: u64,
    pub(crate) consistency: Consistency,
}

/// Runs a command over the whole store and writes its reply.
pub(crate) fn run_on_store(
    store: &Arc<Store>,
    spec: &CommandSpec,
    handler: StoreHandler,
    asked: &Asked<'_>,
    reply: &mut Reply,
) {
    let mark = reply.buf.len();
    let known = store.known();
    let shards = known.shards();
    if shards.is_empty() {
        return reply.error("CLUSTERDOWN The cluster is down: this node belongs to no store yet (basalt ctl init)");
    }
    let mut confirm = Vec::new();
    let parts: Vec<Part> = shards
        .into_iter()
        .map(|(id, slots)| {
            let view = match store.access(&known, id.0 as usize, Slot(slots.0), asked.consistency) {
                Access::Leader(view) => {
                    confirm.push(view.clone());
                    Some(view.clone())
                }
                Access::Follower(view) => Some(view.clone()),
                Access::Refused(_) | Access::Wait => None,
            };
            Part { id, slots, leads: known.view(id.0 as usize).is_some_and(|view| view.leading()), view }
        })
        .collect();
    // One that has just begun to lead may not have applied all that was acknowledged before: it is not confirmed until
    // it has, so it is asked before its rows are looked at.
    let leads = |views: &[Arc<ShardView>]| views.iter().all(|view| store.confirm_read(view, asked.arrived_us));
    if !leads(&confirm) {
        return reply.error("CLUSTERDOWN The cluster is down: a shard has no leader that is confirmed, try again");
    }
    let seen = parts.iter().map(|_| None).collect();
    let mut shards = StoreShards { store, parts: &parts, seen, now_ms: now_ms(), seed: asked.seed };
    let mut call = |cursors: &mut ScanCursors| {
        handler(&mut StoreCall { args: asked.args, shards: &mut shards, cursors, reply: &mut *reply })
    };
    // Only SCAN has cursors; others shall not wait for each other.
    let done = if spec.name == "SCAN" { call(&mut store.cursors()) } else { call(&mut ScanCursors::default()) };
    conclude(done, reply, mark);
    // Only now is it known whether this node led all the while.
    if !leads(&confirm) {
        reply.buf.truncate(mark);
        reply.error("CLUSTERDOWN The cluster is down: a shard has changed its leader meanwhile, try again");
    }
}

//! Whether a request of a client of a database is for this node, or for the one that leads the shard of its keys.

use super::forward;
use super::forwarding::Watches;
use super::replica_count::may_be_lost;
use super::request::Request;
use super::turn::{Step, Turn};
use super::wait;
use super::watch as watches_here;
use super::write;
use node::RequestKeys;
use node::command::{Handler, handler};
use node::session::{Host as _, Keyspace, Transaction, WaitFor};
use resp::Reply;
use resp::table::{CommandSpec, Group, behaviour};
use vocab::{Database, Slot, slot_of};

/// WAIT: the node that leads the shard of a database knows what was written there, but for what another one has answered early.
pub(super) fn wait_for(turn: &mut Turn<'_>, id: usize, wait: WaitFor, args: &[&[u8]]) -> Step {
    let Some(connection) = turn.clients.get(id) else { return Step::Next };
    let databases = &turn.requests.store.known().databases;
    let database = connection.session.keyspace().database();
    let slot = database.map(|database| databases.place_of(database).slot());
    let store = &turn.requests.store;
    match slot.filter(|slot| forward::is_for_other_node(turn, id, *slot)) {
        Some(_) if wait.written.early().iter().any(|entry| may_be_lost(store, *entry)) => {
            wait::answer_none(turn, id, &wait)
        }
        Some(slot) => forward::wait(turn, Request { id, spec: wait.spec, args }, slot, &wait),
        None if slot.is_some_and(|slot| connection.early_is_elsewhere(slot)) => wait::answer_none(turn, id, &wait),
        None => wait::wait_for(turn, id, wait),
    }
}

/// WATCH: the node that leads the shard of the keys knows what is watched.
pub(super) fn watch(
    turn: &mut Turn<'_>,
    id: usize,
    spec: &'static CommandSpec,
    keys: Vec<Vec<u8>>,
    reply: &mut Reply,
) -> Step {
    let slot = keys.first().map(|key| slot_of(key));
    match slot.filter(|slot| forward::is_for_other_node(turn, id, *slot)) {
        Some(slot) => forward::watch(turn, Request { id, spec, args: &[] }, &keys, slot),
        None => watches_here::watch(turn, id, spec, keys, reply),
    }
}

/// EXEC. Where what it watches is not known to the node that runs it, it counts as changed.
pub(super) fn transaction(turn: &mut Turn<'_>, id: usize, transaction: Transaction, reply: &mut Reply) -> Step {
    let Some(connection) = turn.clients.get(id) else { return Step::Next };
    let (watches, keyspace) = (connection.watches_elsewhere(), connection.session.keyspace());
    let database = keyspace.database().filter(|_| watches != Watches::None);
    let databases = &turn.requests.store.known().databases;
    let slot = transaction.slot().or(database.map(|database| databases.place_of(database).slot()));
    let slot = slot.filter(|slot| forward::is_for_other_node(turn, id, *slot));
    match slot {
        Some(slot) if transaction.watches().is_empty() && watches != Watches::Lost => {
            return forward::transaction(turn, id, transaction, slot);
        }
        None if watches == Watches::None => return write::transaction(turn, id, transaction),
        _ => {}
    }
    if let Some(connection) = turn.clients.get_mut(id) {
        connection.unwatch_elsewhere();
    }
    reply.null_array();
    turn.clients.put_unless_silent(id, &reply.buf);
    Step::Next
}

/// Where a command goes whose keys are led by another node, if its client is one of a database.
pub(super) fn slot_elsewhere(turn: &Turn<'_>, request: Request<'_>) -> Option<Slot> {
    let Request { id, spec, args } = request;
    if turn.requests.store.is_alone() {
        return None;
    }
    let client = turn.clients.get(id)?;
    let database = client.session.database()?;
    if !spec.does(behaviour::NAMES_DATABASES) {
        // All of its keys are in the slot of its database.
        let known = turn.requests.store.known();
        let shard = known.shard_of(known.databases.place_of(database).slot())?;
        if known.handle(shard).is_some_and(|handle| handle.leading()) {
            return None;
        }
    }
    // Of keys of databases BCAST is told by their leaders alone: a follower may answer what is older than what was told, and the client would keep it.
    let is_told_by_leaders =
        || client.session.tracking_elsewhere().is_some_and(|tracking| tracking.options.is_broadcast);
    let reads_here =
        !spec.is_write() && client.session.consistency_for(spec, args).allows_followers() && !is_told_by_leaders();
    let slot = match handler(spec) {
        Some(Handler::Store(handler)) => handler.slot(args),
        _ => {
            let store = &turn.requests.store;
            RequestKeys::within(spec, args, |span| store.share_shard(span, Keyspace::Stored))
                .ok()
                .and_then(|keys| keys.slot)
        }
    };
    // A script that declares no keys ends in its database.
    let of_script = || args.last().filter(|_| spec.group == Group::Scripting).map(|last| Database::of_key(last));
    let slot = slot.or_else(|| of_script().flatten().map(Database::slot));
    let known = turn.requests.store.known();
    // Where the keys cannot be found (LMPOP 0), the node that leads the database says what is wrong.
    let of_database = || spec.has_keys().then(|| known.databases.place_of(database).slot());
    let slot = slot.or_else(of_database);
    let has_replica = |slot: Slot| known.shard_of(slot).is_some_and(|shard| known.handle(shard).is_some());
    slot.filter(|slot| !(reads_here && has_replica(*slot)) && forward::is_for_other_node(turn, id, *slot))
}

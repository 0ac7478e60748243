//! WATCH: looks up the versions of keys, on the event loop where they are few and in memory, else in the pool.

use super::forwarding::{Kept, watch_words};
use super::registry::{ClientId, Clients};
use super::reply_queue::{ALL_KEYS, Effect};
use super::request::Request;
use super::turn::{Step, Turn};
use super::write::keep;
use crate::mailbox::{WatchedKeys, WorkerMessage};
use crate::os::steady_us;
use crate::shared::NodeShared;
use node::command::{Error, conclude_on};
use node::read::{Attempt, Begin, Finish, ReadRequest};
use node::session::Consistency;
use node::{EncodedCommand, Fault, Held, ReadSpace, ShardHandle, SnapshotSpace, Ticket, WatchedVersion};
use resp::Reply;
use resp::table::CommandSpec;
use std::borrow::Cow;
use std::sync::Arc;
use vocab::{Slot, SlotSpan, slot_of};

/// So many keys an event loop looks up at once.
const KEYS_AT_ONCE_MAX: usize = 64;
/// The disk is asked ahead for so many keys.
const KEYS_AHEAD: usize = 64;

/// Watches keys, which are of one shard. Nothing of the connection is under way.
pub(super) fn watch(
    turn: &mut Turn<'_>,
    id: usize,
    spec: &'static CommandSpec,
    keys: Vec<Vec<u8>>,
    reply: &mut Reply,
) -> Step {
    let slot = keys.first().map_or(Slot(0), |key| slot_of(key));
    let span = keys.iter().skip(1).fold(SlotSpan::from(slot), |span, key| span.with(slot_of(key)));
    let wider = Some(span).filter(|span| !span.is_one());
    let asked = ReadRequest::new(slot, Consistency::Absolute, turn.arrived_us(id)).over(wider);
    let known = turn.requests.store.known();
    let local = known.local(turn.requests.store.node(), known.shard_of(slot));
    let attempt = match asked.begin(local, turn.now, || turn.requests.store.moment()) {
        Begin::Run(attempt) => attempt,
        Begin::WaitForLease(shard) => return turn.wait_for_lease(id, shard),
        Begin::NotHere(why) => return turn.not_here(id, slot, Consistency::Absolute, &why),
    };
    let handle = *attempt.handle();
    let mut held = Held { blocks: Vec::new(), lacking: None };
    let mut space = SnapshotSpace::without_waiting(handle, turn.now.wall_ms, 0, &mut held);
    let is_short = keys.len() <= KEYS_AT_ONCE_MAX;
    let found = if is_short { versions(handle, &mut space, &keys) } else { Err(Fault::WouldBlock) };
    let versions = match found {
        Ok(versions) => versions,
        Err(Fault::WouldBlock) => {
            let attempt = attempt.into();
            return look_up_aside(turn, Request { id, spec, args: &[] }, attempt, keys);
        }
        Err(fault) => {
            conclude_on(handle, Err(Error::Fault(fault)), reply, 0);
            Vec::new()
        }
    };
    if let Finish::Again(why) = attempt.finish(steady_us) {
        return turn.read_again(id, handle.id(), why);
    }
    if let Some(connection) = turn.clients.get_mut(id) {
        connection.session.watching(&keys, versions);
    }
    if reply.buf.is_empty() {
        reply.ok();
    }
    turn.clients.put_unless_silent(id, &reply.buf);
    Step::Next
}

/// The versions of keys, each watched since before it was looked up.
fn versions(
    handle: &ShardHandle,
    space: &mut SnapshotSpace<'_>,
    keys: &[Vec<u8>],
) -> Result<Vec<WatchedVersion>, Fault> {
    let version = |key: &Vec<u8>| {
        let absent = handle.watch_absent(key);
        Ok(match space.get(key)? {
            Some(record) => WatchedVersion::Present(record.view().version),
            None => WatchedVersion::Absent(absent),
        })
    };
    keys.iter().map(version).collect()
}

/// Has a thread of the pool look up the versions; the client's next request waits for them.
fn look_up_aside(turn: &mut Turn<'_>, request: Request<'_>, attempt: Attempt, keys: Vec<Vec<u8>>) -> Step {
    let Some(ticket) = turn.clients.begin(request, ALL_KEYS, Effect::Unsettled, turn.requests.clock) else {
        return Step::Stall;
    };
    if let Some(connection) = turn.clients.get_mut(request.id) {
        connection.look_up_watched(true);
    }
    let ticket = Ticket { slot: keys.first().map_or(Slot(0), |key| slot_of(key)), ..ticket };
    keep(turn, &ticket, || Kept::Watch(EncodedCommand::of(request.spec, &watch_words(&keys))));
    let store = turn.requests.store.clone();
    turn.requests.store.pool.run_patient(Box::new(move || {
        let versions = patient_versions(&store, attempt, &keys);
        let watched = Box::new(WatchedKeys { ticket, keys, versions });
        store.mailboxes.tell(ticket.worker as usize, WorkerMessage::Watched(watched));
    }));
    Step::Next
}

/// The same where the disk and the leader may be waited for. The error is the text of the reply.
fn patient_versions(
    store: &Arc<NodeShared>,
    attempt: Attempt,
    keys: &[Vec<u8>],
) -> Result<Vec<WatchedVersion>, String> {
    let mut found = Ok(Vec::new());
    store.access().run_read(attempt, |attempt| {
        let handle = attempt.handle();
        let mut space = SnapshotSpace::new(handle, store.now_ms(), 0);
        let look_up = |keys: &[Vec<u8>]| {
            keys.iter().for_each(|key| handle.prefetch(key));
            versions(handle, &mut space, keys)
        };
        let chunks: Result<Vec<_>, Fault> = keys.chunks(KEYS_AHEAD).map(look_up).collect();
        found = chunks.map(|chunks| chunks.into_iter().flatten().collect()).map_err(|fault| {
            let mut reply = Reply::default();
            conclude_on(handle, Err(Error::Fault(fault)), &mut reply, 0);
            String::from_utf8_lossy(&reply.buf).trim_start_matches('-').trim_end().to_owned()
        });
    })?;
    found
}

/// The versions of keys are known: the connection watches them, and is answered.
pub(crate) fn watched(clients: &mut Clients, watched: WatchedKeys) {
    let WatchedKeys { ticket, keys, versions } = watched;
    let client = ClientId::from(&ticket);
    let Some(connection) = clients.find(client) else { return };
    connection.look_up_watched(false);
    let mut reply = Reply::new(ticket.proto);
    match versions {
        Ok(versions) => {
            connection.session.watching(&keys, versions);
            connection.take_kept(ticket.sequence);
            reply.ok();
            // It was counted when it was admitted.
            connection.answer(ticket.sequence, Cow::Owned(reply.buf));
        }
        Err(text) => {
            // The node that leads now is asked, if it is a client of a database.
            reply.error(&text);
            clients.deliver_owned(&ticket, reply.buf);
        }
    }
    clients.unstall(client.id);
}

//! Waits that go on for other keys: SWAPDB gives the database of a client that waits the keys of another one.
//!
//! The wait ends where it is, which may be at another node; its answer says so, unless an element came first. Then the command is made anew
//! with the names that its keys have now, and for the time that is left. Its client hears nothing of it.

use super::answers::hand_on;
use super::connection::Connection;
use super::forwarding::Kept;
use crate::mailbox::WorkerMessage;
use crate::shared::NodeShared;
use cluster::Databases;
use node::Ticket;

/// Whether a wait that has ended goes on.
pub(super) enum WaitsOn {
    /// It does not: its answer is the client's.
    No,
    /// At this node.
    Here,
    /// It is to be sent to the node that leads.
    AtAnother,
}

/// Whether the keys that the connection waits for are another database's now: when it began to wait.
pub(super) fn waits_elsewhere(connection: &Connection, now: &Databases) -> Option<u64> {
    let blocking = connection.blocking().filter(|blocking| !blocking.is_ending())?;
    let place = now.place_of(connection.session.database()?);
    (place.slot() != blocking.ticket().slot).then(|| blocking.since_us())
}

/// A request is answered: if it is a wait that moves, it goes on.
pub(super) fn waits_on(store: &NodeShared, connection: &mut Connection, ticket: &Ticket, answer: &[u8]) -> WaitsOn {
    let blocking = connection.blocking().filter(|blocking| blocking.ticket().sequence == ticket.sequence);
    let (Some(blocking), Some(database)) = (blocking, connection.session.database()) else { return WaitsOn::No };
    let known = store.known();
    let Some(moved) = blocking.moved(answer, known.databases.place_of(database)) else { return WaitsOn::No };
    let (ticket, command) = (moved.ticket(), moved.command().clone());
    let shard = known.shard_of(ticket.slot);
    let here = shard.filter(|shard| known.handle(*shard).is_some_and(|handle| handle.leading()));
    if let Some(shard) = here {
        let submission = moved.submission(shard);
        connection.go_on_blocking(moved);
        if !store.is_alone() {
            connection.forwarding().keep(ticket.sequence, Kept::Command(command.clone()));
        }
        store.write_queued(command.bytes());
        store.mailboxes.tell_owner(shard, WorkerMessage::Write(submission));
        return WaitsOn::Here;
    }
    connection.go_on_blocking(moved);
    if let Some(spec) = command.spec() {
        hand_on(store, connection, &ticket, (spec, Kept::Command(command)));
    }
    WaitsOn::AtAnother
}

//! Makes long replies part by part, on threads that may wait for the disk.
//!
//! A worker asks for the next part when its client has taken enough of the earlier ones, so a reply of any length has only a few
//! parts in memory.

use crate::mailbox::{ReplyPart, WorkerMessage};
use crate::shared::NodeShared;
use node::Ticket;
use node::command::{Error, Progress, conclude_on};
use node::read::ReplyStream;
use resp::Reply;
use std::sync::Arc;

/// Makes the next part of a reply, which goes to the worker of its client.
pub(crate) fn make_next_part(store: &Arc<NodeShared>, ticket: Ticket, stream: ReplyStream) {
    let message = next_part(store, ticket, stream, Reply::new(ticket.proto));
    store.mailboxes.tell(ticket.worker as usize, message);
}

/// The message with the next part of a reply, which `reply` begins.
pub(crate) fn next_part(
    store: &NodeShared,
    ticket: Ticket,
    mut stream: ReplyStream,
    mut reply: Reply,
) -> WorkerMessage {
    let made = if stream.is_done() { Ok(Progress::Done) } else { stream.step(&mut reply) };
    store.stats.looked_up(stream.take_lookups());
    match made {
        Ok(Progress::Done) => WorkerMessage::Answer { ticket, reply: reply.buf },
        Ok(Progress::More) => WorkerMessage::Part(Box::new(ReplyPart { ticket, bytes: reply.buf, rest: Some(stream) })),
        Err(error) => {
            note_failure(&stream, error);
            WorkerMessage::Part(Box::new(ReplyPart { ticket, bytes: Vec::new(), rest: None }))
        }
    }
}

/// A reply breaks off: its head has promised the client more elements than come, so the client is closed.
fn note_failure(stream: &ReplyStream, error: Error) {
    let mut text = Reply::default();
    if let Some(handle) = stream.handle() {
        conclude_on(handle, Err(error), &mut text, 0);
    }
    log::error!("a long reply breaks off, its client is closed: {}", String::from_utf8_lossy(&text.buf).trim_end());
}

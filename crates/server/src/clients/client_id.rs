//! The id of a connection within its worker.

use node::Ticket;
use node::pubsub::Subscriber;

/// A connection, and what tells it from those that had its place before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientId {
    pub(super) id: usize,
    pub(super) generation: u32,
}

impl From<&Ticket> for ClientId {
    fn from(ticket: &Ticket) -> Self {
        Self { id: ticket.connection as usize, generation: ticket.generation }
    }
}

impl From<&Subscriber> for ClientId {
    fn from(client: &Subscriber) -> Self {
        Self { id: client.connection as usize, generation: client.generation }
    }
}

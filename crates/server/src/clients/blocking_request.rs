//! The blocking command that a connection waits in.
//!
//! Invariant: with a `refusal` its wait is to end, and no other end of it is told to the client than that.

use crate::shared::NodeShared;
use node::blocking::is_ended_by_client;
use node::session::{Session, refused_wait};
use node::{EncodedCommand, Ticket};
use resp::Reply;

/// A blocking command under way.
pub(super) struct BlockingRequest {
    ticket: Ticket,
    /// In the words that its user was allowed.
    command: EncodedCommand,
    /// Why it is to end: its user has lost the right to it.
    refusal: Option<String>,
}

impl BlockingRequest {
    pub(super) fn new(ticket: Ticket, command: EncodedCommand) -> Self {
        Self { ticket, command, refusal: None }
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Whether it is to end because its user has lost the right to it.
    pub(super) fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Users have changed: whether its own may no longer run it, and has just lost the right.
    pub(super) fn loses_right(&mut self, session: &Session, store: &NodeShared) -> bool {
        let Some(spec) = self.command.spec().filter(|_| !self.is_refused()) else { return false };
        self.refusal = refused_wait(session, spec, &self.command.args(), store);
        self.is_refused()
    }

    /// What its client is told in place of an answer. None: the answer, which may be an element that was taken before.
    pub(super) fn in_place_of(&self, answer: &[u8]) -> Option<Vec<u8>> {
        let refusal = self.refusal.as_ref().filter(|_| is_ended_by_client(answer))?;
        let mut reply = Reply::new(self.ticket.proto);
        reply.error(refusal);
        Some(reply.buf)
    }
}

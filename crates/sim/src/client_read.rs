//! A client's read on a node, from its request to its answer.

use crate::request::Request;
use crate::schedule::Micros;
use node::ShardHandle;
use node::read::{Attempt, ReadRequest};
use node::session::Consistency;
use std::sync::Arc;
use vocab::slot_of;

/// A client's read.
pub struct ClientRead {
    /// The operation's number in the history.
    pub operation: usize,
    /// What the client asks.
    pub request: Request,
    /// The same, as the read protocol has it.
    pub(crate) asked: ReadRequest,
}

impl ClientRead {
    /// Of a request that has come at `arrived_us`, by the node's steady clock.
    #[must_use]
    pub fn new(operation: usize, request: Request, arrived_us: u64) -> Self {
        let consistency = request.weak.unwrap_or(Consistency::Absolute);
        let asked = ReadRequest::new(slot_of(&request.keys()[0]), consistency, arrived_us);
        Self { operation, request, asked }
    }
}

/// A read that has begun.
pub struct RunningRead {
    /// The read.
    pub read: ClientRead,
    pub(crate) source: Source,
    /// When it began.
    pub(crate) began: Micros,
}

/// What a read reads.
pub(crate) enum Source {
    /// What the read protocol says.
    Attempt(Attempt),
    /// What a planted bug takes instead, without asking.
    Bug(Arc<ShardHandle>),
}

impl RunningRead {
    pub(crate) fn handle(&self) -> &Arc<ShardHandle> {
        match &self.source {
            Source::Attempt(attempt) => attempt.handle(),
            Source::Bug(handle) => handle,
        }
    }

    /// Whether a replica that does not lead answers.
    pub(crate) fn is_weak(&self) -> bool {
        match &self.source {
            Source::Attempt(attempt) => !attempt.leads(),
            Source::Bug(handle) => self.read.request.weak.is_some() && !handle.leading(),
        }
    }
}

//! A client's read on a node, from its request to its answer.

use crate::collections::CollectionRequest;
use crate::request::Request;
use crate::schedule::Micros;
use node::ShardHandle;
use node::read::{Attempt, ReadRequest};
use node::session::Consistency;
use std::fmt;
use std::sync::Arc;
use vocab::slot_of;

/// Who reads, and what.
pub enum Reader {
    /// An ordinary client: the operation's number in the history, and what it asks.
    Client(usize, Request),
    /// A client of collections.
    Collection(Box<CollectionRequest>),
}

/// A client's read.
pub struct ClientRead {
    /// Who reads, and what.
    pub reader: Reader,
    /// The same, as the read protocol has it.
    pub(crate) asked: ReadRequest,
}

impl ClientRead {
    /// The read of a request that has come at `arrived_us`, by the node's steady clock.
    #[must_use]
    pub fn new(operation: usize, request: Request, arrived_us: u64) -> Self {
        let consistency = request.weak.unwrap_or(Consistency::Absolute);
        let asked = ReadRequest::new(slot_of(&request.keys()[0]), consistency, arrived_us);
        Self { reader: Reader::Client(operation, request), asked }
    }

    /// Of a client of collections: it is answered by leaders alone.
    #[must_use]
    pub fn of_collection(request: CollectionRequest, arrived_us: u64) -> Self {
        let asked = ReadRequest::new(request.slot(), Consistency::Absolute, arrived_us);
        Self { reader: Reader::Collection(Box::new(request)), asked }
    }

    /// The command, word by word.
    #[must_use]
    pub fn args(&self) -> Vec<Vec<u8>> {
        match &self.reader {
            Reader::Client(_, request) => request.command(),
            Reader::Collection(request) => request.commands.first().cloned().unwrap_or_default(),
        }
    }

    /// Whether another replica than the leader may answer it.
    fn may_be_weak(&self) -> bool {
        matches!(&self.reader, Reader::Client(_, Request { weak: Some(_), .. }))
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
            Source::Bug(handle) => self.read.may_be_weak() && !handle.leading(),
        }
    }
}

impl fmt::Display for ClientRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reader {
            Reader::Client(operation, _) => write!(f, "operation {operation}"),
            Reader::Collection(request) => write!(f, "tag {}", request.tag),
        }
    }
}

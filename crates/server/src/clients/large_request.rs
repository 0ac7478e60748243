//! Requests that are too large for an event loop, and the way to the thread that runs them.

use super::client_id::ClientId;
use super::connection::Connection;
use super::letters::Letter;
use crate::mailbox::WorkerMessage;
use node::Ticket;
use replica::Bytes;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::mpsc::Sender;

/// A request that was taken out of a connection's input.
pub(super) struct LargeRequest {
    /// The input, which begins with it.
    pub(super) input: Bytes,
    /// What its arguments are in, if that is not the input: it was typed by hand.
    pub(super) typed: Option<Vec<u8>>,
    /// Its arguments.
    pub(super) ranges: Vec<Range<usize>>,
    /// Its bytes in the input.
    pub(super) bytes: usize,
}

/// A request that waits is in its connection's input again.
pub(super) fn put_back(connection: &mut Connection, request: LargeRequest) {
    let LargeRequest { input, typed, ranges, .. } = request;
    if typed.is_none() && input.first() == Some(&b'*') {
        connection.parse.put_back(ranges);
    }
    connection.input = input.into();
}

/// Whether a request is about all that its session holds, which is much.
#[cold]
pub(super) fn is_about_all(connection: &Connection, input: &[u8], ranges: &[Range<usize>]) -> bool {
    let args: SmallVec<[&[u8]; 8]> = ranges.iter().map(|range| &input[range.clone()]).collect();
    connection.session.is_about_all(&args)
}

/// What the thread does with a connection.
pub(super) enum Job {
    /// Runs its next request.
    Run(LargeRequest),
    /// Gives it the answer of a transaction.
    Answer(Ticket, Vec<u8>),
    /// Gives it what else is long.
    Message(Box<WorkerMessage>),
    /// Gives it what has come for it while it was away.
    Letters(Vec<Letter>),
    /// Makes room for more of its input.
    Grow,
    /// Forgets it: it is closed.
    Close,
}

impl Job {
    /// Bytes that the client will be owed for it, as far as they are known.
    pub(super) fn answer_bytes(&self) -> usize {
        match self {
            Self::Answer(_, reply) => reply.len(),
            Self::Letters(letters) => letters.iter().map(Letter::bytes).sum(),
            Self::Run(_) | Self::Message(_) | Self::Grow | Self::Close => 0,
        }
    }
}

/// A connection on its way to the thread.
pub(super) struct Loan {
    pub(super) id: usize,
    pub(super) connection: Connection,
    pub(super) job: Job,
}

/// The way to the thread; none: there is no thread.
#[derive(Default)]
pub(super) struct Lender(Option<Sender<Option<Loan>>>);

impl Lender {
    pub(super) fn to(loans: Sender<Option<Loan>>) -> Self {
        Self(Some(loans))
    }

    pub(super) fn has_thread(&self) -> bool {
        self.0.is_some()
    }

    /// Lends a connection. The worker is told when it comes back; one to be closed does not.
    pub(super) fn lend(&self, loan: Loan) {
        if let Some(loans) = &self.0 {
            // A thread that has ended has done so with its worker, and with all clients of it.
            let _ = loans.send(Some(loan));
        }
    }
}

/// A connection that is back.
#[derive(Clone, Copy)]
pub(crate) struct BackAgain(pub(super) ClientId);

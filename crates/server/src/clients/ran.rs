//! The result of running requests.

use super::turn::Wanted;
use node::Ticket;
use std::ops::Range;
use std::time::Instant;

/// A reply that is sent later (DEBUG SLEEP).
pub(super) struct DelayedReply {
    pub(super) at: Instant,
    pub(super) ticket: Ticket,
    pub(super) reply: Vec<u8>,
}

/// What requests have left for the worker to do.
pub(super) struct Collected {
    pub(super) wanted: Wanted,
    pub(super) delayed: Vec<DelayedReply>,
    pub(super) served_others: bool,
}

/// What has become of the requests in some bytes.
pub(super) struct Ran {
    /// So many bytes of them are done with.
    pub(super) used: usize,
    /// What comes next.
    pub(super) next: After,
}

/// What comes after the requests that have run.
pub(super) enum After {
    /// Nothing, or an incomplete request, or one that waits.
    Wait,
    /// Others have their turn first.
    Others,
    /// A request for the thread for large ones: its arguments, relative to its beginning or to what was typed, and its bytes.
    Large { ranges: Vec<Range<usize>>, typed: Option<Vec<u8>>, bytes: usize },
}

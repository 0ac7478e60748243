//! A request of a client that another node answers.

use node::Ticket;
use node::session::{Durability, Transaction};
use node::tracking::TrackingElsewhere;
use replica::Bytes;
use resp::encode_request;
use resp::table::CommandSpec;
use std::sync::Arc;
use vocab::NodeId;

/// For how long a leader is looked for, in µs: longer than an election takes.
pub(super) const LEADER_WITHIN_US: u64 = 10_000_000;

/// The kind of the push by which another node tells what a script runs.
pub(super) const MONITOR_PUSH: &[u8] = b"monitor";

/// What a request does, as far as it matters whether it may be made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It only reads: it may be made again.
    Read,
    /// It may write, or take what it answers: made again, it might be done twice.
    Write,
    /// WATCH: what it watches is known to the node that answers it.
    Watch,
    /// EXEC of a transaction that watches keys, which this node knows.
    WatchedExec(NodeId),
    /// WAIT, or WAITAOF if `is_of_disk`. Of a write that was answered before it was committed only the node knows that has answered it.
    Wait { is_of_disk: bool },
}

/// A request that another node answers.
pub(super) struct Forwarded {
    /// Where its answer goes. Its slot is that of the keys.
    pub(super) ticket: Ticket,
    /// It and what goes before it, encoded, with keys as they are stored.
    pub(super) bytes: Bytes,
    /// As whom its scripts run; none: they may run every command, or it runs none.
    pub(super) script_user: Option<Arc<str>>,
    /// Whether a monitor of this node is to see what its scripts run.
    pub(super) shows_calls: bool,
    /// How many answers that makes; the last one is the client's.
    pub(super) answers: usize,
    /// Whether that one goes to the client as it comes: nothing is to be done with it here.
    pub(super) is_passed_on: bool,
    pub(super) deed: Deed,
    /// How its client is told of changes of what it reads, if it is.
    pub(super) tracking: Option<TrackingElsewhere>,
    /// When it is given up, in µs of the steady clock.
    pub(super) until_us: u64,
    /// When it was sent last, in µs of the steady clock.
    pub(super) sent_us: u64,
}

impl Forwarded {
    /// One command.
    pub(super) fn command(ticket: Ticket, spec: &CommandSpec, args: &[&[u8]], now_us: u64) -> Self {
        let mut bytes = Vec::new();
        encode_request(&mut bytes, args);
        let deed = if spec.is_write() { Deed::Write } else { Deed::Read };
        let until_us = now_us + LEADER_WITHIN_US;
        Self {
            ticket,
            bytes: bytes.into(),
            script_user: None,
            shows_calls: false,
            answers: 1,
            is_passed_on: true,
            deed,
            tracking: None,
            until_us,
            sent_us: now_us,
        }
    }

    /// A transaction for another node, whose watched keys are not this node's to compare.
    pub(super) fn transaction(ticket: Ticket, transaction: &Transaction, now_us: u64) -> Self {
        let mut bytes = Vec::new();
        let mut answers = 2;
        encode_request(&mut bytes, &[b"MULTI"]);
        for command in transaction.data() {
            encode_request(&mut bytes, &command.args());
            answers += 1;
        }
        encode_request(&mut bytes, &[b"EXEC"]);
        let deed = if transaction.has_writes() { Deed::Write } else { Deed::Read };
        let until_us = now_us + LEADER_WITHIN_US;
        Self {
            ticket,
            bytes: bytes.into(),
            script_user: None,
            shows_calls: false,
            answers,
            is_passed_on: false,
            deed,
            tracking: None,
            until_us,
            sent_us: now_us,
        }
    }

    /// It was under way at a node that has not made it. A wait's time there was none in which a leader was looked for: a blocking
    /// command may have waited for long. Other requests end at their time.
    #[must_use]
    pub(super) fn back(self, now_us: u64) -> Self {
        let waited_us = if self.ticket.may_wait { now_us.saturating_sub(self.sent_us) } else { 0 };
        Self { until_us: self.until_us + waited_us, sent_us: now_us, ..self }
    }

    /// The durability that its client is promised.
    pub(super) fn durability(&self) -> Durability {
        self.ticket.durability()
    }

    /// Whether it may write.
    pub(super) fn is_write(&self) -> bool {
        matches!(self.deed, Deed::Write | Deed::WatchedExec(_))
    }

    /// Whether the node that answers it so has noted, for WAIT, in which entry it is.
    pub(super) fn is_noted_by(&self, answer: &[u8]) -> bool {
        // A transaction may have been refused before a shard had it.
        let is_run = self.answers == 1 || !matches!(answer, [b'*', b'-', ..] | [b'_', ..]);
        self.is_write() && is_run && !answer.starts_with(b"-")
    }

    /// Whether it can be made again after it may have been made.
    pub(super) fn is_repeatable(&self) -> bool {
        matches!(self.deed, Deed::Read | Deed::Watch | Deed::Wait { .. })
    }
}

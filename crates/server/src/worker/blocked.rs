//! The blocking commands of a worker's shards: `node::blocking` decides, and this carries it out.

use crate::mailbox::Submission;
use crate::shared::NodeShared;
use node::blocking::{Answered, Attempt, Begin, End, Ended, Waiters, Withdrawn};
use node::{KeyHashes, ReadyKey, ShardHandle, SnapshotSpace, Ticket, Write, key_hash};
use vocab::ShardId;
use vocab::limits::BLOCKED_CLIENTS_STEP_MAX;

/// What a client is told whose shard is led by another node, if that is not known yet.
const NO_LEADER: &str = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// The clients that wait for keys of a worker's shards.
#[derive(Default)]
pub(super) struct Blocked {
    waiters: Waiters,
    /// Answers of waits that have ended.
    ended: Vec<Ended>,
    /// Commands of clients whose shard is another one now, or led elsewhere.
    lost: Vec<Submission>,
}

impl Blocked {
    /// Whether there is nothing to do for any client.
    pub(super) fn is_idle(&self) -> bool {
        self.waiters.is_empty() && self.ended.is_empty() && self.lost.is_empty()
    }

    /// Whether something is to be done at once.
    pub(super) fn has_work(&self) -> bool {
        self.waiters.has_ready() || !self.ended.is_empty() || !self.lost.is_empty()
    }

    /// When the next wait ends, in µs of the steady clock.
    pub(super) fn deadline_us(&self) -> Option<u64> {
        self.waiters.deadline_us()
    }

    /// A blocking command has come to its shard: whether it is proposed now.
    pub(super) fn begin(&mut self, shard: &ShardHandle, submission: &Submission, now_us: u64) -> Begin {
        let Write::Command(command) = &submission.write else { return Begin::Propose };
        self.waiters.begin((shard.id(), shard.awaited()), submission.ticket, command, now_us)
    }

    /// An attempt has been answered.
    pub(super) fn answered(&mut self, store: &NodeShared, ticket: &Ticket, reply: &[u8]) -> Answered {
        let now = store.moment();
        let answered = self.waiters.answered(ticket, reply, now.mono_us);
        if answered == Answered::Waits(true)
            && let Some((shard, command)) = self.waiters.floating(ticket)
            && let Some(handle) = store.known().handle(shard.0 as usize)
        {
            // Its attempt has read the streams' records: they are in memory.
            match command.fixed(&mut SnapshotSpace::new(handle, now.wall_ms, 0)) {
                Ok(fixed) => self.waiters.fix(ticket, fixed),
                Err(fault) => {
                    log::error!("shard {shard}: the last id of a stream cannot be read: {fault:?}");
                    self.end(ticket, End::Unread);
                }
            }
        }
        answered
    }

    /// Entries have written keys.
    pub(super) fn keys_ready(&mut self, keys: Vec<ReadyKey>) {
        for key in keys {
            self.ended.extend(self.waiters.ready(key));
        }
    }

    /// A shard has no keys any more.
    pub(super) fn cleared(&mut self, shard: ShardId) {
        self.ended.extend(self.waiters.cleared(shard));
    }

    /// The attempts to propose now.
    pub(super) fn take_attempts(&mut self) -> Vec<Submission> {
        self.waiters.take_attempts(BLOCKED_CLIENTS_STEP_MAX).into_iter().map(submission_of).collect()
    }

    /// A client's wait is to end.
    pub(super) fn end(&mut self, ticket: &Ticket, end: End) {
        self.ended.extend(self.waiters.end(ticket, end));
    }

    /// Ends the waits whose time is over, up to a bound.
    pub(super) fn expire(&mut self, now_us: u64) {
        self.ended.extend(self.waiters.expire(now_us, BLOCKED_CLIENTS_STEP_MAX));
    }

    /// A client's attempt was not proposed: it is routed anew. False if it is not known.
    pub(super) fn withdraw(&mut self, ticket: &Ticket, now_us: u64) -> bool {
        let withdrawn = self.waiters.withdraw(ticket, now_us);
        let is_known = withdrawn.is_some();
        withdrawn.into_iter().for_each(|withdrawn| self.take_out(withdrawn));
        is_known
    }

    /// Clients that wait for keys of a shard that this node does not lead are routed anew, up to a bound.
    pub(super) fn withdraw_lost(&mut self, store: &NodeShared, now_us: u64) {
        let known = store.known();
        let leads = |shard: ShardId| known.handle(shard.0 as usize).is_some_and(|handle| handle.leading());
        if self.waiters.shards().all(leads) {
            return;
        }
        let lost = self.waiters.withdraw_all(now_us, BLOCKED_CLIENTS_STEP_MAX, |shard, _| !leads(shard));
        lost.into_iter().for_each(|withdrawn| self.take_out(withdrawn));
    }

    /// A shard has given slots away: clients that wait for their keys are routed anew.
    pub(super) fn withdraw_moved(&mut self, shard: &ShardHandle, now_us: u64) {
        let is_moved = |of: ShardId, ticket: &Ticket| of == shard.id() && !shard.owns(ticket.slot);
        let moved = self.waiters.withdraw_all(now_us, usize::MAX, is_moved);
        moved.into_iter().for_each(|withdrawn| self.take_out(withdrawn));
    }

    fn take_out(&mut self, withdrawn: Withdrawn) {
        match withdrawn {
            Withdrawn::Again(attempt) => self.lost.push(submission_of(attempt)),
            Withdrawn::Ended(ended) => self.ended.push(ended),
        }
    }

    /// The commands that are to be routed anew.
    pub(super) fn take_lost(&mut self) -> Vec<Submission> {
        std::mem::take(&mut self.lost)
    }

    /// The answers of waits that have ended.
    pub(super) fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// What a client is told that cannot wait here any longer, in place of `text`.
    pub(super) fn refusal<'a>(ticket: &Ticket, text: &'a str) -> &'a str {
        if ticket.may_wait && text.starts_with("CLUSTERDOWN") { NO_LEADER } else { text }
    }
}

fn submission_of(attempt: Attempt) -> Submission {
    let Attempt { shard, ticket, command } = attempt;
    let keys: KeyHashes = match command.spec() {
        Some(spec) => {
            let args = command.args();
            spec.keys(&args).into_iter().flatten().map(|at| key_hash(args[at])).collect()
        }
        None => KeyHashes::new(),
    };
    Submission { shard, write: Write::Command(command), keys, ticket }
}

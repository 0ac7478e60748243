//! Drives `node::read` for threads that may wait: each method blocks until the read's condition holds or its time is over.

use super::routing_table::{RoutingSnapshot, RoutingTable};
use super::worker_mailboxes::WorkerMailboxes;
use crate::mailbox::WorkerMessage;
use crate::os::{raw_moment, steady_us};
use node::read::{
    Again, Attempt, Begin, Confirmation, Deadline, Finish, NotHere, ReadRequest, Refusal, confirm_leader,
};
use node::session::Consistency;
use node::{ShardHandle, StoreClock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vocab::{Moment, NodeId, ShardId, Slot};

/// Between two looks of a thread that may block.
const PAUSE: Duration = Duration::from_micros(200);

/// Begins reads and settles whether their answers count, for threads that may wait.
pub(crate) struct Access<'a> {
    pub(super) node: NodeId,
    pub(super) routing: &'a RoutingTable,
    pub(super) clock: &'a StoreClock,
    pub(super) mailboxes: &'a WorkerMailboxes,
    /// The node is being stopped: nothing is waited for any more.
    pub(super) stopping: &'a AtomicBool,
}

impl Access<'_> {
    /// Has the leader of a shard confirmed.
    pub(crate) fn ask_lease(&self, shard: ShardId) {
        self.mailboxes.tell_owner(shard, WorkerMessage::AskLease(shard));
    }

    /// Waits until this node's replica is known to lead since `arrived_us`; false if it is not.
    pub(crate) fn confirm_leader(&self, handle: &ShardHandle, arrived_us: u64) -> bool {
        let deadline = Deadline::for_leader(steady_us());
        let mut asked = false;
        loop {
            match confirm_leader(handle, arrived_us, deadline, steady_us()) {
                Confirmation::Confirmed => return true,
                Confirmation::Lost => return false,
                Confirmation::Wait if self.is_stopping() => return false,
                Confirmation::Wait => {}
            }
            if !std::mem::replace(&mut asked, true) {
                self.ask_lease(handle.id());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn moment(&self) -> Moment {
        self.clock.read(raw_moment())
    }

    /// Lets a moment pass before something is looked at again; false if the node stops.
    pub(crate) fn pause(&self) -> bool {
        let goes_on = !self.is_stopping();
        if goes_on {
            std::thread::sleep(PAUSE);
        }
        goes_on
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Begins a read, and waits for what it waits for: on the shard that has the slot by then. The error is what the
    /// client is told.
    pub(crate) fn begin_read(&self, request: ReadRequest) -> Result<Attempt, String> {
        let mut asked = false;
        loop {
            let known = self.routing.known();
            let shard = known.shard_of(request.slot);
            match request.begin(known.local(self.node, shard), self.moment(), || self.moment()) {
                Begin::Run(attempt) => return Ok(attempt.into()),
                Begin::WaitForLease(shard) if !std::mem::replace(&mut asked, true) => self.ask_lease(shard),
                Begin::WaitForLease(_) | Begin::NotHere(NotHere::Wait { .. }) => {}
                Begin::NotHere(why) => return Err(refusal_text(&known, request.slot, request.consistency, &why)),
            }
            if self.is_stopping() {
                return Err(Refusal::after_wait(request.consistency).to_string());
            }
            drop(known);
            std::thread::sleep(PAUSE);
        }
    }

    /// Runs a read until its answer counts: `run` makes it, and is called again where the answer is dropped. The error is
    /// what the client is told.
    pub(crate) fn run_read(&self, attempt: Attempt, mut run: impl FnMut(&Attempt)) -> Result<(), String> {
        let mut attempt = attempt;
        let request = ReadRequest { waiting_since_us: steady_us(), ..attempt.request() };
        let deadline = Deadline::for_read(request.consistency, request.waiting_since_us);
        loop {
            run(&attempt);
            match self.finish_read(&attempt) {
                Finish::Answer => return Ok(()),
                Finish::Again(_) if deadline.is_over(steady_us()) => {
                    return Err(Refusal::after_wait(request.consistency).to_string());
                }
                Finish::Again(_) => attempt = self.begin_read(request)?,
            }
        }
    }

    /// Whether an answer counts. Waits for the leader to be confirmed.
    pub(crate) fn finish_read<H: AsRef<ShardHandle>>(&self, attempt: &Attempt<H>) -> Finish {
        match attempt.finish(steady_us) {
            Finish::Again(Again::Unconfirmed)
                if self.confirm_leader(attempt.handle().as_ref(), attempt.request().arrived_us) =>
            {
                attempt.finish(steady_us)
            }
            finish => finish,
        }
    }
}

/// What a client is told that this node does not serve now, by a thread that does not wait.
pub(crate) fn refusal_text(known: &RoutingSnapshot, slot: Slot, consistency: Consistency, why: &NotHere) -> String {
    match why {
        NotHere::Redirect(node) => known.moved(slot, *node),
        NotHere::Refuse(refusal) => Some(refusal.to_string()),
        NotHere::Wait { .. } => None,
    }
    .unwrap_or_else(|| Refusal::after_wait(consistency).to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{IdleNode, TestNode};
    use vocab::slot_of;

    fn asked(key: &str) -> ReadRequest {
        ReadRequest::new(slot_of(key.as_bytes()), Consistency::Absolute, steady_us())
    }

    #[test]
    fn a_node_without_a_store_refuses_and_a_stopping_one_does_not_wait() {
        let node = IdleNode::open();
        let refused = node.store.access().begin_read(asked("a")).err();
        assert_eq!(refused, Some(Refusal::NoStore.to_string()));
        // A leader that is not there is waited for, but not by a node that stops.
        let map = cluster::initial_map(vocab::StoreId(1), &[node.store.node_info()], 1, 1).unwrap();
        node.store.routing.set_map(std::sync::Arc::new(map));
        node.store.stopping.store(true, Ordering::Release);
        let refused = node.store.access().begin_read(asked("a")).err();
        assert_eq!(refused, Some(Refusal::after_wait(Consistency::Absolute).to_string()));
        assert!(node.mail().is_empty(), "there is no replica that could be confirmed");
    }

    #[test]
    fn a_leader_is_confirmed_and_its_answers_count() {
        let node = TestNode::start(&[]);
        let access = node.store().access();
        let attempt = access.begin_read(asked("a")).unwrap();
        assert!(access.confirm_leader(attempt.handle(), steady_us()));
        assert_eq!(access.finish_read(&attempt), Finish::Answer);
        let mut runs = 0;
        assert_eq!(access.run_read(attempt, |_| runs += 1), Ok(()));
        assert_eq!(runs, 1);
    }
}

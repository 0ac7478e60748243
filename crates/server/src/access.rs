//! Drives `node::read` for this node's threads: what the node knows of a shard, and waits that block.

use crate::mailbox::WorkerMessage;
use crate::os::steady_us;
use crate::shared::{Known, NodeShared};
use node::ShardView;
use node::read::{
    Again, Attempt, Begin, Confirmation, Finish, Hold, LocalShard, NotHere, ReadRequest, Refusal, confirm_leader,
};
use node::session::Consistency;
use std::time::Duration;
use vocab::{NodeId, ShardId, Slot};

/// Between two looks of a thread that may block.
const PAUSE: Duration = Duration::from_micros(200);

impl NodeShared {
    /// What this node knows of a shard; `None` while it belongs to no store.
    pub(crate) fn local<'a>(&self, known: &'a Known, shard: Option<ShardId>) -> Option<LocalShard<'a>> {
        let (map, shard) = (known.map.as_deref()?, shard?);
        let place = known.place(shard.0 as usize);
        let handle = place.and_then(|place| place.view.as_ref());
        Some(LocalShard { node: self.node(), shard, map, handle, leader: place.map(|place| &*place.leader) })
    }

    /// The error that sends a client to the node that leads a shard; `None` if no such node is known.
    pub(crate) fn redirection(&self, shard: ShardId, slot: Slot) -> Option<String> {
        let known = self.known();
        moved(&known, slot, self.local(&known, Some(shard))?.other_leader()?)
    }

    /// Has the leader of a shard confirmed.
    pub(crate) fn ask_lease(&self, shard: ShardId) {
        self.tell_owner(shard, WorkerMessage::AskLease(shard));
    }

    /// Waits until this node's replica is known to lead since `arrived_us`; false if it is not. For threads that may
    /// block.
    pub(crate) fn confirm_leader(&self, handle: &ShardView, arrived_us: u64) -> bool {
        let hold = Hold::for_leader(steady_us());
        let mut asked = false;
        loop {
            match confirm_leader(handle, arrived_us, hold, steady_us()) {
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

    /// Begins a read, and waits for what it waits for: on whichever shard has the slot by then. The error is what the
    /// client is told. For threads that may block.
    pub(crate) fn begin_read(&self, request: ReadRequest) -> Result<Attempt, String> {
        let mut asked = false;
        loop {
            let known = self.known();
            let shard = known.shard_of(request.slot);
            match request.begin(self.local(&known, shard), self.moment(), || self.moment()) {
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
    /// what the client is told. For threads that may block.
    pub(crate) fn run_read(&self, attempt: Attempt, mut run: impl FnMut(&Attempt)) -> Result<(), String> {
        let mut attempt = attempt;
        let request = ReadRequest { waiting_since_us: steady_us(), ..attempt.request() };
        let hold = Hold::for_read(request.consistency, request.waiting_since_us);
        loop {
            run(&attempt);
            match self.finish_read(&attempt) {
                Finish::Answer => return Ok(()),
                Finish::Again(_) if hold.is_over(steady_us()) => {
                    return Err(Refusal::after_wait(request.consistency).to_string());
                }
                Finish::Again(_) => attempt = self.begin_read(request)?,
            }
        }
    }

    /// Whether an answer counts. Waits for the leader to be confirmed. For threads that may block.
    pub(crate) fn finish_read<H: AsRef<ShardView>>(&self, attempt: &Attempt<H>) -> Finish {
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

/// The error that sends a client to a node of the map.
pub(crate) fn moved(known: &Known, slot: Slot, node: NodeId) -> Option<String> {
    let node = known.map.as_ref()?.nodes.get(&node)?;
    Some(format!("MOVED {slot} {}:{}", node.client_host, node.client_port))
}

/// What a client is told that this node does not serve now, by a thread that does not wait.
pub(crate) fn refusal_text(known: &Known, slot: Slot, consistency: Consistency, why: &NotHere) -> String {
    match why {
        NotHere::Redirect(node) => moved(known, slot, *node),
        NotHere::Refuse(refusal) => Some(refusal.to_string()),
        NotHere::Wait { .. } => None,
    }
    .unwrap_or_else(|| Refusal::after_wait(consistency).to_string())
}

//! One replica of a shard on its owning thread: commands in, entries proposed, committed entries applied, answers out.
//!
//! Pure: the caller writes the log, flushes the tree, carries the messages and passes the time in.

mod apply;
mod collector;
mod cpu_prefetch;
mod effects;
mod evaluate;
mod events;
mod fresh;
mod group;
mod lease;
mod map_rows;
mod meta;
mod point;
mod prefetch;
mod proposals;
#[cfg(test)]
mod scale_tests;
mod snapshot;
mod split;
mod ticket;
mod write_barrier;

pub(crate) use apply::clear;
pub(crate) use cpu_prefetch::Fetch;
pub use effects::{ArrivedSnapshot, Effects, SnapshotTask, SplitTask};
pub(crate) use evaluate::{ReplyBounds, command, transaction};
pub use evaluate::{read_transaction, read_transaction_in_steps};
pub use events::{StoreEvent, events_after, newest_event, newest_events};
pub use lease::LEASE_US;
pub use meta::stored_map;
pub use prefetch::{ColdItem, Warmed, Warmth, cold_items};
pub(crate) use ticket::CommandRows;
pub(crate) use ticket::refuse;
pub use ticket::{Answers, KeyHash, Ticket, Write, key_hash};

pub use crate::format::Fact;
use crate::format::entry::{EntryTerms, Evaluation};
use crate::peer_protocol::PeerMessage;
use crate::request;
use crate::shard_handle::ShardHandle;
use collector::Collector;
use fresh::Told;
use lease::Lease;
use meta::MetaState;
use proposals::Proposals;
use replica::{DiskHealth, DiskState, LogWrite, Message, Ready, Replica};
use resp::Reply;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use vocab::{Moment, NodeId, ReplicaId, ShardId, limits};

/// One replica of a shard on its owning thread.
pub struct Shard {
    view: Arc<ShardHandle>,
    replica: Replica,
    health: Arc<DiskHealth>,
    proposals: Proposals,
    lease: Lease,
    /// Of the metadata group: the map.
    meta: Option<MetaState>,
    /// On which nodes the replicas are, as the map tells.
    nodes: Vec<(ReplicaId, NodeId)>,
    /// A snapshot whose message has been stepped and not been accepted yet.
    arrived: Option<ArrivedSnapshot>,
    /// The index up to which everything must be applied for the replica to have all that was acknowledged, and by when.
    fresh: Option<(u64, u64)>,
    /// Of a leader: a follower wants to know how old it is, and is to be told once a majority has confirmed this leader.
    vouches: bool,
    /// Turns whose entries are not applied yet, oldest first.
    collected: VecDeque<Ready>,
    /// Leader and term as they were last told.
    told: (Option<NodeId>, u64),
    clock_ms: u64,
    collector: Collector,
    /// The newest rules that all members know.
    evaluation: Evaluation,
    hold: write_barrier::Hold,
    splitting: split::Splitting,
    warming: prefetch::Warming,
    scratch: Reply,
    /// Why the shard no longer applies, if it doesn't.
    broken: Option<String>,
    /// Bytes of the entries that were applied since the last seal.
    unsealed_bytes: Cell<u64>,
}

impl Shard {
    /// A shard whose tree and log have been opened.
    pub fn new(view: Arc<ShardHandle>, replica: Replica, health: Arc<DiskHealth>) -> Result<Self, String> {
        let meta = if view.id() == ShardId::META { Some(MetaState::load(&view)?) } else { None };
        view.set_replayed_at(replica.status().committed);
        Ok(Self {
            view,
            replica,
            health,
            proposals: Proposals::default(),
            lease: Lease::default(),
            meta,
            nodes: Vec::new(),
            arrived: None,
            fresh: None,
            vouches: false,
            collected: VecDeque::new(),
            told: (None, 0),
            clock_ms: 0,
            collector: Collector::default(),
            evaluation: Evaluation::First,
            hold: write_barrier::Hold::default(),
            splitting: split::Splitting::default(),
            warming: prefetch::Warming::default(),
            scratch: Reply::default(),
            broken: None,
            unsealed_bytes: Cell::new(0),
        })
    }

    /// What other threads see of it.
    #[must_use]
    pub fn view(&self) -> &Arc<ShardHandle> {
        &self.view
    }

    /// Its place in its group.
    #[must_use]
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// For elections, ticks and messages.
    pub fn replica_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }

    /// Of the metadata group: the map as its entries have made it.
    #[must_use]
    pub fn map(&self) -> Option<&Arc<cluster::Map>> {
        self.meta.as_ref()?.map()
    }

    /// Tells on which nodes the replicas are.
    pub fn place(&mut self, nodes: Vec<(ReplicaId, NodeId)>) {
        self.nodes = nodes;
        self.told.1 = 0;
    }

    /// The node of the replica that leads, as far as is known.
    #[must_use]
    pub fn leader_node(&self) -> Option<NodeId> {
        self.node_of(self.replica.leader()?)
    }

    pub(crate) fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.nodes.iter().find(|(id, _)| *id == replica).map(|(_, node)| *node)
    }

    pub(crate) fn replica_on(&self, node: NodeId) -> Option<ReplicaId> {
        self.nodes.iter().find(|(_, on)| *on == node).map(|(id, _)| *id)
    }

    /// Takes a write to `keys`. The answer comes through `Answers`: after commit and apply, or an error at once. False
    /// if it is refused.
    pub fn submit(&mut self, write: &Write, keys: &[KeyHash], ticket: Ticket, answers: &mut dyn Answers) -> bool {
        if let Some(refusal) = self.refusal() {
            refuse(&refusal, &ticket, answers);
            return false;
        }
        if write.is_of_slot() && !self.view.owns(ticket.slot) {
            // Its shell knows better where to bring it.
            refuse("TRYAGAIN the slot is another shard's now: nothing was written", &ticket, answers);
            return false;
        }
        if let Err(refusal) = request::check_item(write.bytes()) {
            refuse(&refusal, &ticket, answers);
            return false;
        }
        self.proposals.push(write, keys, ticket);
        true
    }

    /// Asks for a step of background collection if one is due.
    pub fn housekeep(&mut self, now: Moment) {
        let due = self.view.wants_housekeeping(now.wall_ms);
        self.collect_garbage(due, now.mono_us);
    }

    /// Queues a step of background collection if the collector wants one.
    fn collect_garbage(&mut self, due: bool, now_us: u64) {
        let idle = self.proposals.is_idle();
        let may = self.replica.serves() && self.meta.is_none() && self.refusal().is_none();
        if !self.collector.wants_step(due, idle, now_us) || !may {
        } else if self.evaluation == Evaluation::Second {
            self.proposals.push_collect(self.collector.propose(now_us));
        } else if due && idle {
            self.proposals.push_housekeeping();
        }
    }

    /// Proposes what has been submitted: usually one entry.
    pub fn propose(&mut self, now: Moment, effects: &mut dyn Effects) {
        self.lease.look_at(now);
        if !self.proposals.has_queued() || self.replica.is_transferring() || self.hold.holds(now) {
            // While leadership is handed over, writes wait: they go to the next leader, or here if it comes to nothing.
            // While they are held back, they wait too.
            if self.replica.is_leader() {
                return;
            }
        }
        if !self.replica.is_leader() {
            // Who leads now is told to those that wait; while there is no leader, they wait.
            self.tell_leader(effects);
            if self.replica.leader().is_none() && self.proposals.is_young(now) {
                return;
            }
        }
        // Only a leader that has applied all that others have proposed knows which slots are its shard's.
        if self.replica.is_leader() && !self.replica.serves() {
            return;
        }
        let all_read = self.nodes.iter().all(|(_, node)| effects.reads_second_format(*node));
        self.evaluation = if all_read { Evaluation::Second } else { Evaluation::First };
        self.clock_ms = self.view.clock().next_entry(now.wall_ms, self.clock_ms);
        let keeps_changes = self.meta.is_some() && self.nodes.iter().all(|(_, node)| effects.keeps_map_changes(*node));
        let terms = EntryTerms { now_ms: self.clock_ms, evaluation: self.evaluation, keeps_changes };
        self.proposals.propose(&mut self.replica, &self.view, terms, now, effects);
    }

    /// Collects what the group has to do: what must be written is added to `write`, messages go out, what is committed
    /// is kept for `apply_collected`. Answers the number to hand to `persisted` when the write is done; 0 if nothing
    /// was added.
    pub fn collect(&mut self, write: &mut LogWrite, effects: &mut dyn Effects) -> Result<u64, String> {
        let mut number = 0;
        while let Some(mut turn) = self.replica.ready(write).map_err(|e| e.to_string())? {
            number = number.max(turn.number);
            if turn.role_changed {
                self.lease.end(&self.view);
                self.collector.role_changed();
                self.fresh = None;
                self.view.set_leading(self.replica.is_leader());
                // After the lease: who asks whether the slot is owned, then whether the lease holds, is told no once.
                self.stop_splitting();
                self.tell_followers();
            }
            if let Some(point) = turn.snapshot.take() {
                let before = self.view.applied_slots();
                number = number.max(self.install(&point, write)?);
                // A split that this replica was sent past: as where it is applied.
                self.proposals.give_back(&before.without(&self.view.applied_slots()), effects);
            }
            self.post(std::mem::take(&mut turn.messages), effects);
            if !turn.committed.is_empty() || !turn.read_states.is_empty() {
                self.collected.push_back(turn);
            }
            self.tell_leader(effects);
        }
        self.proposals.settle(&self.replica, effects);
        if self.view.followers_wanted() {
            self.tell_followers();
        }
        Ok(number)
    }

    /// Whether something was collected that is not applied yet.
    #[must_use]
    pub fn has_collected(&self) -> bool {
        !self.collected.is_empty()
    }

    /// Applies what was collected. What that changes in the log is added to `later`.
    pub fn apply_collected(&mut self, now: Moment, later: &mut LogWrite, effects: &mut dyn Effects) {
        while let Some(mut turn) = self.collected.pop_front() {
            let left = self.apply_some(&turn.committed, now, later, effects);
            for sent_us in std::mem::take(&mut turn.read_states) {
                self.lease.confirmed(sent_us, &self.replica, &self.view);
                self.tell_fresh();
                effects.readable(self.view.id());
            }
            if left > 0 {
                // A fork is waited for, or rows.
                turn.committed.drain(..turn.committed.len() - left);
                self.collected.push_front(turn);
                break;
            }
        }
        self.proposals.settle(&self.replica, effects);
        if !self.replica.has_ready() && !self.replica.is_installing() {
            // Rows that the replica did not need after all.
            self.arrived = None;
        }
        self.collect_garbage(false, now.mono_us);
        self.view.set_status(self.replica.status());
        self.refresh();
        self.tell_leader(effects);
        if self.wants_seal() {
            self.seal();
            effects.sealed(self.view.id());
        }
    }

    /// Applies entries up to the first that has to wait; answers how many are left.
    fn apply_some(
        &mut self,
        committed: &[replica::Entry],
        now: Moment,
        later: &mut LogWrite,
        effects: &mut dyn Effects,
    ) -> usize {
        let mut applied = 0;
        while applied < committed.len()
            && !self.waits_for_rows(&committed[applied..], effects)
            && !self.waits_for_fork(&committed[applied], effects)
        {
            self.apply(&committed[applied], later, effects);
            applied += 1;
        }
        if let Some(last) = committed[..applied].last()
            && self.broken.is_none()
        {
            let served = self.replica.serves();
            self.replica.applied(last);
            if self.replica.serves() && !served {
                self.begin_to_serve(now);
            }
        }
        committed.len() - applied
    }

    /// The log holds everything of the turns up to `number`.
    pub fn persisted(&mut self, number: u64, effects: &mut dyn Effects) {
        let messages = self.replica.persisted(number);
        self.post(messages, effects);
    }

    /// A message of another replica.
    pub fn step(&mut self, message: Message) {
        let told = Told::by(&message);
        match self.replica.step(message) {
            Ok(()) => told.iter().for_each(|told| self.heard(told)),
            Err(e @ replica::Error::Malformed(_)) => log::warn!("shard {}: a message is dropped: {e}", self.view.id()),
            Err(e) => self.breaks(format!("shard {}: {e}", self.view.id())),
        }
    }

    /// The replica cannot go on: it serves nothing any more.
    pub(crate) fn breaks(&mut self, detail: String) {
        if self.broken.is_none() {
            log::error!("{detail}");
            self.lease.end(&self.view);
            self.view.set_leading(false);
            self.view.set_broken(&detail);
            self.broken = Some(detail);
        }
    }

    /// A read waits for this leader to be confirmed.
    pub fn ask_lease(&mut self, now: Moment) {
        if self.replica.serves() {
            self.lease.ask(&mut self.replica, now);
        }
    }

    /// Renews the lease if it is in use and near its end, and has a leader confirmed that is not (a change of members ends
    /// that): the store is directed by one. True if a round was sent.
    pub(crate) fn renew_lease(&mut self, now: Moment) -> bool {
        let ends = || self.view.take_lease_use() && Lease::wants_renewal(&self.view, now.mono_us);
        let due = self.replica.serves() && (!self.view.serving() || ends());
        if due {
            self.lease.ask(&mut self.replica, now);
        }
        due
    }

    /// Has the leader confirmed for its followers' sake, who are to know how old they are, as often as that is of use.
    pub(crate) fn confirm(&mut self, now: Moment) -> bool {
        let due = self.replica.serves() && self.lease.is_old(&self.view, now.mono_us);
        if due {
            self.lease.ask(&mut self.replica, now);
        }
        due
    }

    /// The nodes of its other replicas.
    pub fn other_nodes(&self, me: NodeId) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().map(|(_, node)| *node).filter(move |node| *node != me)
    }

    /// Time passes for those who wait.
    pub(crate) fn expire(&mut self, now: Moment, effects: &mut dyn Effects) {
        self.proposals.expire(now, effects);
    }

    /// This node gives the replica up: waiting clients are sent to its leader, or told that the outcome is unknown.
    pub fn dismiss(&mut self, effects: &mut dyn Effects) {
        self.lease.end(&self.view);
        self.view.set_leading(false);
        self.proposals.dismiss(self.view.id(), effects);
    }

    /// Nothing more can be written: waiting clients are told that the outcome is unknown.
    pub fn fail_pending(&mut self, reason: &str, answers: &mut dyn Answers) {
        self.proposals.fail(reason, answers);
    }

    /// Whether writes have been submitted that are not proposed yet.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        self.proposals.has_queued()
    }

    /// Whether no client waits for anything here.
    pub(crate) fn is_idle(&self) -> bool {
        self.proposals.is_idle() && self.collected.is_empty() && self.arrived.is_none() && self.broken.is_none()
    }

    /// Whether nothing is under way here.
    #[must_use]
    pub fn can_rest(&self) -> bool {
        self.is_idle() && self.replica.can_rest()
    }

    /// Whether the tree's memory is large, or the log behind it.
    fn wants_seal(&self) -> bool {
        let engine = self.view.engine();
        let log_is_long = self.unsealed_bytes.get() >= limits::LOG_UNFLUSHED_BYTES_SOFT;
        engine.wants_flush() || (log_is_long && engine.flush_is_partial())
    }

    /// Seals the tree's memory for a background flush, with the shard's own facts in it.
    /// Not once an entry could not be applied as a whole: what is in the files shall be what whole entries made.
    pub fn seal(&self) {
        if self.broken.is_some() {
            return;
        }
        self.unsealed_bytes.set(0);
        self.view.engine().seal(self.view.facts());
    }

    /// Drops log that the tree's files made unnecessary; true if something was added to `write`.
    pub fn truncate(&mut self, write: &mut LogWrite) -> replica::Result<bool> {
        let flushed = self.view.engine().flushed_index();
        if self.keeps_log() { Ok(false) } else { self.replica.truncate(flushed, write) }
    }

    /// Why the shard has stopped applying entries, if it has.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Checks what must always hold; called after every step in tests and simulation.
    pub fn validate(&self) {
        self.replica.validate();
        assert!(self.view.engine().applied_index() <= self.replica.status().committed);
        assert!(self.view.lease_until_us() == 0 || self.replica.is_leader(), "a lease without leading");
    }

    pub(crate) fn can_write(&self) -> bool {
        self.health.state() == DiskState::Healthy
    }

    /// Why writes are refused now, if they are.
    fn refusal(&self) -> Option<String> {
        if let Some(detail) = &self.broken {
            return Some(format!("ERR this shard takes no commands: {detail}"));
        }
        match self.health.state() {
            DiskState::Healthy => None,
            DiskState::Full => Some(format!(
                "ERR disk full: writes are refused until there is room, reads go on ({})",
                self.health.reason()
            )),
            DiskState::Short => Some(format!(
                "ERR short of descriptors or memory: writes are refused until there are some ({})",
                self.health.reason()
            )),
            DiskState::Poisoned => {
                Some(format!("ERR writes are refused until this node is restarted: {}", self.health.reason()))
            }
        }
    }

    /// Everything that was committed before is applied: reads may be answered once this leader is confirmed.
    fn begin_to_serve(&mut self, now: Moment) {
        self.lease.ask(&mut self.replica, now);
        if let Some(meta) = &self.meta
            && meta.map().is_none()
        {
            self.proposals.begin_map();
        }
    }

    fn post(&mut self, messages: Vec<Message>, effects: &mut dyn Effects) {
        let shard = self.view.id();
        for mut message in messages {
            self.tell_commit(&mut message);
            let to = ReplicaId(message.to);
            let Some(node) = self.node_of(to) else { continue };
            if message.has_snapshot() && !message.get_snapshot().is_empty() {
                self.send_snapshot(to, node, message, effects);
            } else {
                effects.send(node, PeerMessage::Raft { shard, message });
            }
        }
    }

    fn tell_leader(&mut self, effects: &mut dyn Effects) {
        let now = (self.leader_node(), self.replica.term());
        if now != self.told {
            self.told = now;
            effects.led(self.view.id(), now.0, now.1);
        }
    }

    /// The first map, to be proposed by the metadata group's first leader: nothing to any other group, of which there may be
    /// thousands, each with a map that tells of all of them.
    pub fn set_first_map(&mut self, map: &cluster::Map) {
        if self.meta.is_some() {
            self.proposals.set_first_map(cluster::Change::Begin(map.clone()).encode());
        }
    }
}

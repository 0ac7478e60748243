//! One replica of a shard on its owning thread: commands in, entries proposed, committed entries applied, answers out.
//!
//! Pure: the caller writes the log, flushes the tree, carries the messages and passes the time in.

mod apply;
mod apply_error;
mod apply_task;
mod aside;
mod clear;
mod collector;
mod effects;
mod entry_fill;
mod evaluate;
mod events;
#[cfg(test)]
mod fixture;
mod freshness;
mod group;
#[cfg(test)]
mod keyspace_event_tests;
mod lease;
mod map_rows;
mod meta;
mod pending;
mod prefetch;
mod prepared_write;
mod proposals;
mod proposer;
#[cfg(test)]
mod scale_tests;
mod script_lane;
mod scripts;
mod snapshot;
mod split;
mod ticket;

pub use apply_task::{AppliedAside, ApplyTask, is_large_entry};
pub(crate) use clear::clear;
pub use effects::{ArrivedSnapshot, Effects, SnapshotTask, SplitTask};
pub(crate) use evaluate::{Evaluated, items as evaluate_items};
pub use evaluate::{read_script, read_script_first, read_transaction, read_transaction_in_steps};
pub use events::{StoreEvent, events_after, newest_event, newest_events};
pub use lease::LEASE_US;
pub use meta::stored_map;
pub(crate) use prefetch::CpuPrefetch;
pub use prefetch::{PrefetchItem, Prefetched};
pub(crate) use prepared_write::CommandRows;
pub use prepared_write::PreparedWrite;
pub(crate) use proposer::Proposer;
pub use scripts::{
    NOSCRIPT, declared_keys, function_command, script_as, script_command, script_without_context, slot_of_script,
    without_namespace,
};
pub(crate) use ticket::refuse;
pub use ticket::{Answers, Ticket, Write};

use crate::format::entry::{self, Bounding, EntryTerms, Evaluation, Pops, Rules};
use crate::format::key_bound::KeyBound;
use crate::format::slots::Slots;
use crate::outcome::{REPLICA_GONE, SCRIPTS_WAIT, SLOT_GONE};
use crate::peer_protocol::PeerMessage;
use crate::request;
use crate::shard_handle::ShardHandle;
use crate::storage_failure::note_lack;
use crate::{Fault, KeyHash};
use apply::{Applier, ApplyQueue, Parts, apply_nothing};
use apply_error::ApplyError;

use aside::Aside;
use entry_fill::EntryFill;
use freshness::{CommitNews, Freshness};
use group::Group;
use lease::Lease;
use proposals::{OwnEntry, Proposals};
use replica::{DiskHealth, DiskState, Entry, LogWrite, MemberChange, Message, Ready, Replica};
use snapshot::SnapshotIntake;
use split::{ForkState, Splitting};
use std::sync::Arc;
use vocab::limits::{APPLY_ASIDE_BACKLOG_BYTES_MAX, APPLY_INLINE_US_MAX};
use vocab::{Moment, NodeId, ReplicaId, ShardId};

/// One replica of a shard on its owning thread.
pub struct Shard {
    handle: Arc<ShardHandle>,
    replica: Replica,
    health: Arc<DiskHealth>,
    group: Group,
    proposals: Proposals,
    lease: Lease,
    freshness: Freshness,
    intake: SnapshotIntake,
    queue: ApplyQueue,
    applier: Applier,
    aside: Aside,
    /// The newest rules that all members know.
    evaluation: Evaluation,
    splitting: Splitting,
    /// Entries are left that could be applied, and the shell wanted its turn first.
    yielded: bool,
    /// Why the shard has stopped applying entries, if it has.
    broken: Option<String>,
}

impl Shard {
    /// A shard whose tree and log have been opened.
    pub fn new(handle: Arc<ShardHandle>, replica: Replica, health: Arc<DiskHealth>) -> storage::Result<Self> {
        let applier = Applier::new(&handle)?;
        handle.set_replayed_at(replica.status().committed);
        Ok(Self {
            handle,
            replica,
            health,
            group: Group::default(),
            proposals: Proposals::default(),
            lease: Lease::default(),
            freshness: Freshness::default(),
            intake: SnapshotIntake::default(),
            queue: ApplyQueue::default(),
            applier,
            aside: Aside::default(),
            evaluation: Evaluation::First,
            splitting: Splitting::default(),
            yielded: false,
            broken: None,
        })
    }

    /// What all threads share of it.
    #[must_use]
    pub fn handle(&self) -> &Arc<ShardHandle> {
        &self.handle
    }

    /// Its member of the Raft group.
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
        self.applier.map()
    }

    /// Tells on which nodes the replicas are.
    pub fn place(&mut self, nodes: Vec<(ReplicaId, NodeId)>) {
        self.group.place(nodes);
    }

    /// Databases may have so many keys from now on: sorted by slot; none if none has a bound.
    pub(crate) fn bound_keys(&mut self, bounds: Option<Arc<[KeyBound]>>) {
        self.proposals.bound_keys(bounds);
    }

    /// The node of the replica that leads, as far as is known.
    #[must_use]
    pub fn leader_node(&self) -> Option<NodeId> {
        self.group.leader_node(&self.replica)
    }

    pub(crate) fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.group.node_of(replica)
    }

    pub(crate) fn replica_on(&self, node: NodeId) -> Option<ReplicaId> {
        self.group.replica_on(node)
    }

    /// Takes a write to `keys`. The answer comes through `Answers`: after commit and apply, or an error at once. False
    /// if it is refused.
    pub fn submit(&mut self, write: &Write, keys: &[KeyHash], ticket: Ticket, answers: &mut dyn Answers) -> bool {
        if let Some(refusal) = self.refusal() {
            refuse(&refusal, &ticket, answers);
            return false;
        }
        if write.is_of_slot() && self.handle.id() != ShardId::META && !self.handle.owns_all(ticket.span()) {
            // The shell routes it anew.
            refuse(SLOT_GONE, &ticket, answers);
            return false;
        }
        let fits = request::check_item(write.bytes()).and_then(|()| request::check_arguments(write.arguments()));
        if let Err(refusal) = fits {
            refuse(&refusal, &ticket, answers);
            return false;
        }
        if !self.proposals.push(write, keys, ticket) {
            refuse(SCRIPTS_WAIT, &ticket, answers);
            return false;
        }
        true
    }

    /// Asks for a step of background collection if one is due.
    pub fn housekeep(&mut self, now: Moment) {
        let due = self.handle.wants_housekeeping(now.wall_ms);
        self.collect_garbage(due, now.mono_us);
    }

    /// Queues a step of background collection if the collector wants one.
    fn collect_garbage(&mut self, due: bool, now_us: u64) {
        let idle = self.proposals.is_idle();
        let may = self.replica.serves() && !self.is_meta() && self.refusal().is_none();
        let scans_at_once = || self.handle.engine().scans_at_once();
        let collector = self.applier.collector();
        if !collector.wants_step(due, idle, now_us) || !may {
        } else if !scans_at_once() {
            // A background thread puts the tree's memory in order, and a later tick proposes the step.
        } else if self.evaluation == Evaluation::Second {
            if self.handle.take_expires_behind() {
                collector.begin_again();
            }
            self.proposals.push_collect(collector.propose(now_us));
        } else if due && idle {
            self.proposals.push_housekeeping();
        }
    }

    /// Proposes what has been submitted: usually one entry. True if a large one is still being copied together, so that this
    /// should be called again soon.
    pub fn propose(&mut self, now: Moment, effects: &mut dyn Effects) -> bool {
        self.lease.look_at(now);
        self.proposals.end_turns(self.replica.is_leader());
        if !self.proposals.has_queued() || self.replica.is_transferring() || self.proposals.has_barrier(now) {
            // While leadership is handed over, writes wait: they go to the next leader, or are proposed here if that fails.
            // While a write barrier stands, they wait too.
            if self.replica.is_leader() {
                return false;
            }
        }
        if !self.replica.is_leader() {
            // Waiting clients are sent to the leader. While there is none, they wait.
            self.tell_leader(effects);
            if self.replica.leader().is_none() && self.proposals.is_young(now) {
                return false;
            }
        }
        // A leader knows which slots are its shard's only after it has applied all entries of leaders before it.
        if self.replica.is_leader() && !self.replica.serves() {
            return false;
        }
        let all_read = self.group.nodes().all(|node| effects.reads_second_format(node));
        self.evaluation = if all_read { Evaluation::Second } else { Evaluation::First };
        let keeps_changes = self.is_meta() && self.group.nodes().all(|node| effects.keeps_map_changes(node));
        let pops = if all_read && self.proposals.pack() {
            self.group.nodes().map(|node| effects.pops(node)).min().unwrap_or(Pops::GoingOn)
        } else {
            Pops::Alone
        };
        let now_ms = self.applier.next_entry_ms(&self.handle, now.wall_ms);
        let bounding = if all_read && self.proposals.bounds_keys() {
            self.group.nodes().map(|node| effects.bounding(node)).min().unwrap_or(Bounding::OfAll)
        } else {
            Bounding::None
        };
        let rules = if all_read && self.proposals.are_ruled() { effects.rules() } else { Rules::First };
        let evaluation = self.evaluation;
        let terms = EntryTerms { now_ms, evaluation, keeps_changes, pops, bounding, rules };
        self.proposals.propose(&mut self.replica, &self.handle, terms, now, effects)
    }

    /// Collects the replica's turns. What the log must hold is added to `write`, messages go out, and committed entries
    /// are queued for `apply_collected`. Answers the number to hand to `persisted` when the write is done; 0 if nothing
    /// was added.
    pub fn collect(&mut self, write: &mut LogWrite, effects: &mut dyn Effects) -> Result<u64, String> {
        let mut number = if self.intake.is_lacking() && self.can_write() { self.install(write, effects)? } else { 0 };
        while let Some(mut turn) = self.replica.ready(write).map_err(|e| e.to_string())? {
            if turn.role_changed {
                self.lease.end(&self.handle);
                self.applier.collector().role_changed();
                self.freshness.role_changed();
                self.handle.lease().set_leading(self.replica.is_leader());
                // After the lease has ended: a reader asks for the slot first and then for the lease, and one of the two refuses.
                self.splitting.stop(&self.handle);
                self.tell_followers();
            }
            let mut due = turn.number;
            if let Some(point) = turn.snapshot.take() {
                self.intake.accept(point, &self.handle)?;
                // One that cannot be installed now is due with the write that notes it, and not with this one.
                due = self.install(write, effects)?;
            }
            number = number.max(due);
            self.post(std::mem::take(&mut turn.messages), effects);
            if self.has_collected() && self.replica.serves() {
                // What waits may do so for long: a thread evaluates an entry, or the disk is slow. Reads go on meanwhile.
                self.take_confirmed(&mut turn, effects);
            }
            if !turn.committed.is_empty() || !turn.read_states.is_empty() {
                self.queue.push(turn);
            }
            self.tell_leader(effects);
        }
        // A snapshot that waits for its turn keeps `ready` from telling these.
        self.post_unlogged(effects);
        self.proposals.settle(&self.replica, effects);
        if self.handle.followers_wanted() {
            self.tell_followers();
        }
        Ok(number)
    }

    /// Installs the snapshot that was accepted. Answers the number to hand to `persisted`; 0 if it could not be installed now.
    fn install(&mut self, write: &mut LogWrite, effects: &mut dyn Effects) -> Result<u64, String> {
        let parts = (&*self.handle, &mut self.replica, &mut self.applier);
        let Some(installed) = self.intake.install(parts, &self.health, write)? else { return Ok(0) };
        // The snapshot may be of a moment after a split: the same is done as where the split is applied.
        self.proposals.give_back(&installed.slots_lost, effects);
        Ok(installed.number)
    }

    /// Sends what says nothing of the log, heartbeats above all, though nothing else of the replica may go out.
    pub(crate) fn post_unlogged(&mut self, effects: &mut dyn Effects) {
        let messages = self.replica.take_unlogged();
        self.post(messages, effects);
    }

    /// Whether committed entries are not applied yet.
    #[must_use]
    pub fn has_collected(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether `apply_collected` has left entries that could be applied, because the shell wanted its turn.
    pub(crate) fn has_yielded(&self) -> bool {
        self.yielded
    }

    /// Applies what was collected. What that changes in the log is added to `later`.
    pub fn apply_collected(&mut self, now: Moment, later: &mut LogWrite, effects: &mut dyn Effects) {
        self.yielded = false;
        while !self.yielded
            && let Some(mut turn) = self.queue.pop()
        {
            let left = self.apply_some(&turn.committed, now, later, effects);
            self.take_confirmed(&mut turn, effects);
            if left > 0 {
                // They wait for a fork, or for rows.
                turn.committed.drain(..turn.committed.len() - left);
                self.queue.put_back(turn);
                break;
            }
        }
        self.yielded &= !self.queue.is_empty();
        self.proposals.settle(&self.replica, effects);
        if !self.replica.has_ready() && !self.replica.is_installing() && !self.replica.has_snapshot() {
            // The replica has not accepted the snapshot, and will not.
            self.intake.forget();
        }
        self.collect_garbage(false, now.mono_us);
        self.handle.set_status(self.replica.status());
        self.freshness.refresh(&self.handle);
        self.tell_leader(effects);
        if self.wants_seal() {
            self.seal();
            effects.sealed(self.handle.id());
        }
    }

    /// A majority has confirmed this leader, which may read what it has applied: no replica shows more.
    fn take_confirmed(&mut self, turn: &mut Ready, effects: &mut dyn Effects) {
        for sent_us in std::mem::take(&mut turn.read_states) {
            self.lease.confirmed(sent_us, &self.replica, &self.handle);
            self.freshness.tell(&mut self.replica);
            effects.readable(self.handle.id());
        }
    }

    /// Applies entries up to the first that has to wait; answers how many are left.
    fn apply_some(
        &mut self,
        committed: &[Entry],
        now: Moment,
        later: &mut LogWrite,
        effects: &mut dyn Effects,
    ) -> usize {
        let mut applied = 0;
        // What the tree holds: an entry that could not be applied is done with, but is not in it.
        let mut held = None;
        while applied < committed.len() && !self.yielded && !self.must_wait(&committed[applied..], effects) {
            if self.apply(&committed[applied], later, effects) {
                held = if self.broken.is_none() { Some(&committed[applied]) } else { held };
                self.proposals.applied(self.handle.slow_us());
                applied += 1;
                self.yielded = effects.wants_turn();
            }
        }
        if let Some(last) = held {
            let served = self.replica.serves();
            self.replica.applied(last);
            if self.replica.serves() && !served && self.broken.is_none() {
                self.begin_to_serve(now);
            }
        }
        committed.len() - applied
    }

    /// Whether the first of `committed` waits for rows or for a fork. A shard that no longer applies waits for nothing.
    fn must_wait(&mut self, committed: &[Entry], effects: &mut dyn Effects) -> bool {
        if self.broken.is_some() {
            return false;
        }
        if self.aside.is_lacking() && !self.can_write() {
            return true;
        }
        if !self.aside.is_busy() && self.is_for_aside(&committed[0], effects) {
            self.begin_aside(&committed[0], effects);
        }
        if self.aside.is_busy() {
            return self.aside.is_awaited();
        }
        if self.queue.waits_for_rows(&self.handle, committed, effects) {
            return true;
        }
        match self.splitting.fork_state(&committed[0], &self.handle, &mut self.replica) {
            ForkState::Ready => false,
            ForkState::Awaited => true,
            ForkState::Wanted(task) => {
                self.seal();
                effects.split(*task);
                true
            }
        }
    }

    /// Whether an entry is better evaluated by another thread: it is large, or would put much in order first.
    fn is_for_aside(&self, committed: &Entry, effects: &dyn Effects) -> bool {
        let scans_for_long = || entry::collects(&committed.data) && !self.handle.engine().scans_at_once();
        replica::has_commands(committed)
            && !self.is_meta()
            && (effects.applies_aside(committed) || scans_for_long())
            && !self.handle.skips(committed.index)
            && (entry::clears(&committed.data)
                || entry::decode(&committed.data).is_ok_and(|(_, items)| !items.is_sole()))
    }

    /// Whether an entry that could not be applied, or a snapshot that could not be installed, for want of room, descriptors or
    /// memory can be tried again.
    pub(crate) fn wants_retry(&self) -> bool {
        (self.aside.is_lacking() || self.intake.is_lacking()) && self.can_write()
    }

    /// What is known of a committed entry if this replica has proposed it; and its outcome, if that is known.
    fn take_own(&mut self, committed: &Entry, effects: &mut dyn Effects) -> (Option<Box<AppliedAside>>, OwnEntry) {
        let (index, term) = (committed.index, committed.term);
        let known = self.aside.take(index);
        known.unwrap_or_else(|| (None, self.proposals.take(index, term, &self.handle, effects)))
    }

    fn begin_aside(&mut self, committed: &Entry, effects: &mut dyn Effects) {
        let (_, own) = self.take_own(committed, effects);
        let log = self.replica.log().clone();
        self.aside.begin((&self.handle, log), committed, (own, false), effects);
    }

    /// Whether another thread is writing to the tree: then the replica must not be closed, nor its tree sealed.
    #[must_use]
    pub fn is_applied_aside(&self) -> bool {
        self.aside.is_awaited()
    }

    /// An entry has been evaluated by another thread; true if there is something to apply now.
    pub fn applied_aside(&mut self, applied: AppliedAside) -> bool {
        self.aside.ended(applied)
    }

    /// Applies an entry, and answers those that wait for it. False if it is not applied yet: it is too much for this thread,
    /// and another one evaluates it; or room, descriptors or memory are lacking.
    fn apply(&mut self, committed: &Entry, later: &mut LogWrite, effects: &mut dyn Effects) -> bool {
        let (index, shard) = (committed.index, self.handle.id());
        let (aside, own) = self.take_own(committed, effects);
        if let Some(detail) = &self.broken {
            refuse_all(detail, &own.tickets, effects);
            return true;
        }
        if self.handle.skips(index) {
            let detail =
                format!("entry {index} of shard {shard} is skipped, as --skip-entry says: nothing of it is written");
            log::error!("{detail}");
            refuse_all(&detail, &own.tickets, effects);
            apply_nothing(&self.handle, index);
            return true;
        }
        let may_give_away = aside.is_none();
        let clock = effects.steady_clock().filter(|_| may_give_away && EntryFill::can_be_less(own.tickets.len()));
        let begun_us = clock.map(|clock| clock());
        let mut parts = Parts {
            handle: &self.handle,
            replica: &mut self.replica,
            proposals: &mut self.proposals,
            splitting: &mut self.splitting,
            later,
            effects,
        };
        let applied = match aside {
            Some(aside) => self.applier.take_over(committed, *aside, &own.tickets, &mut parts),
            None => self.applier.apply(committed, &own, &mut parts),
        };
        let is_given_up = may_give_away && matches!(applied, Err(ApplyError::Fault(Fault::WouldBlock)));
        if may_give_away {
            let took_us = clock.zip(begun_us).map_or(0, |(clock, begun_us)| clock().saturating_sub(begun_us));
            let is_too_much = is_given_up || took_us > APPLY_INLINE_US_MAX;
            // Of one that is about long values it is not the number of requests that took so long.
            if !is_too_much || !own.has_long_value() {
                self.proposals.note_apply(own.tickets.len(), is_too_much);
            }
        }
        if is_given_up {
            let log = self.replica.log().clone();
            self.aside.begin((&self.handle, log), committed, (own, true), effects);
            return false;
        }
        if let Err(error) = applied {
            if error.storage().is_some_and(|error| self.is_tried_again(error)) {
                self.aside.lacks(index, own);
                return false;
            }
            // The replica must not go on past an entry that it could not apply, nor answer from what it has.
            let advice = error.advice(shard, index);
            let detail = format!("entry {index} of shard {shard} cannot be applied: {error}{advice}");
            refuse_all(&detail, &own.tickets, effects);
            self.breaks(detail);
        }
        true
    }

    /// Whether an entry that could not be applied for that reason is evaluated again. A node that starts or stops waits for nothing that may
    /// lack for long; what was interrupted is only to be done again.
    fn is_tried_again(&self, error: &storage::Error) -> bool {
        if self.health.gives_up() { error.is_interrupted() } else { note_lack(&self.health, error) }
    }

    /// The rows that its entries waited for are in memory; true if there is something to apply now.
    pub fn prefetched(&mut self) -> bool {
        self.queue.prefetched()
    }

    /// Whether so much waits to be applied that no more should come.
    pub(crate) fn is_behind(&self) -> bool {
        self.queue.is_behind()
            || ((self.aside.is_awaited() || self.aside.is_lacking())
                && self.queue.bytes() > APPLY_ASIDE_BACKLOG_BYTES_MAX)
    }

    /// The committed entries that can be applied as soon as the processor gets to them.
    pub(crate) fn entries_to_apply(&self) -> impl Iterator<Item = &Entry> {
        self.queue.entries()
    }

    /// The fork that an entry waits for is made, or cannot be; true if there is something to apply now.
    pub fn forked(&mut self, outcome: Result<(), String>) -> bool {
        let Some(index) = self.splitting.forked(outcome.is_ok()) else { return false };
        if let Err(detail) = outcome {
            self.breaks(format!("entry {index} of shard {} cannot be applied: {detail}", self.handle.id()));
        }
        true
    }

    /// The log holds everything of the turns up to `number`.
    pub fn persisted(&mut self, number: u64, effects: &mut dyn Effects) {
        let messages = self.replica.persisted(number);
        self.post(messages, effects);
    }

    /// A message of another replica.
    pub fn step(&mut self, message: Message) {
        let news = CommitNews::by(&message);
        match self.replica.step(message) {
            Ok(()) => news.iter().for_each(|news| self.freshness.heard(news, &self.replica, &self.handle)),
            Err(e @ replica::Error::Malformed(_)) => {
                log::warn!("shard {}: a message is dropped: {e}", self.handle.id())
            }
            Err(e) => self.breaks(format!("shard {}: {e}", self.handle.id())),
        }
    }

    /// The replica cannot go on: it serves nothing any more.
    pub(crate) fn breaks(&mut self, detail: String) {
        if self.broken.is_none() {
            log::error!("{detail}");
            self.lease.end(&self.handle);
            self.handle.lease().set_leading(false);
            self.handle.set_broken(&detail);
            self.broken = Some(detail);
        }
    }

    /// A read waits for this leader to be confirmed.
    pub fn ask_lease(&mut self, now: Moment) {
        if self.replica.serves() {
            self.lease.ask(&mut self.replica, now);
        }
    }

    /// Renews the lease if it is in use and near its end. A leader that is not confirmed (a change of members ends that) is
    /// confirmed in any case, since the director needs one. True if a round was sent.
    pub(crate) fn renew_lease(&mut self, now: Moment) -> bool {
        let ends = || self.handle.lease().take_use() && Lease::wants_renewal(&self.handle, now.mono_us);
        let due = self.replica.serves() && (!self.handle.serving() || ends());
        if due {
            self.lease.ask(&mut self.replica, now);
        }
        due
    }

    /// Sends a round for the followers, which are to know how old they are, as often as that is useful.
    pub(crate) fn confirm(&mut self, now: Moment) -> bool {
        let due = self.replica.serves() && self.lease.is_old(&self.handle, now.mono_us);
        if due {
            self.lease.ask(&mut self.replica, now);
        }
        due
    }

    /// A follower wants to know how old it is: this leader sends a round, and tells it after the round.
    pub(crate) fn vouch(&mut self, now: Moment) {
        self.freshness.wants_to_know();
        self.lease.look_at(now);
        if self.lease.holds(&self.handle) {
            self.freshness.tell(&mut self.replica);
        } else {
            self.ask_lease(now);
        }
    }

    /// The nodes of its other replicas.
    pub fn other_nodes(&self, me: NodeId) -> impl Iterator<Item = NodeId> {
        self.group.nodes().filter(move |node| *node != me)
    }

    /// Tells clients that have waited too long for a majority, or for what this node lacks to apply their writes.
    pub fn expire(&mut self, now: Moment, effects: &mut dyn Effects) {
        let confirmed = if self.aside.is_lacking() { 0 } else { self.replica.status().committed };
        self.proposals.expire(now, confirmed, effects);
    }

    /// This node gives the replica up: waiting clients are sent to its leader, or told that the outcome is unknown.
    pub fn dismiss(&mut self, effects: &mut dyn Effects) {
        self.lease.end(&self.handle);
        self.handle.lease().set_leading(false);
        self.aside.take_tickets().iter().for_each(|ticket| refuse(REPLICA_GONE, ticket, effects));
        self.proposals.dismiss(self.handle.id(), effects);
    }

    /// Nothing more can be written: waiting clients are told that the outcome is unknown.
    pub fn fail_pending(&mut self, reason: &str, answers: &mut dyn Answers) {
        self.proposals.fail(reason, answers);
    }

    /// Whether writes have been submitted that are not proposed yet.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        self.proposals.has_waiting()
    }

    /// Whether no client waits for anything here.
    pub(crate) fn is_idle(&self) -> bool {
        self.proposals.is_idle() && self.queue.is_empty() && self.intake.is_empty() && self.broken.is_none()
    }

    /// Whether nothing is under way here.
    #[must_use]
    pub fn can_hibernate(&self) -> bool {
        self.is_idle() && self.replica.can_hibernate()
    }

    /// Whether the tree's memory is large, or the log behind it.
    fn wants_seal(&self) -> bool {
        let engine = self.handle.engine();
        engine.wants_flush() || (self.applier.log_is_long(&self.handle) && engine.flush_is_partial())
    }

    /// Seals the tree's memory for a background flush, with the shard's own facts in it. It does nothing after an entry
    /// could not be applied as a whole: the files hold whole entries only. Nor while another thread writes to the tree:
    /// whether it is to be sealed is looked at again when that is done.
    pub fn seal(&self) {
        if self.broken.is_none() && !self.aside.is_awaited() {
            self.applier.seal(&self.handle);
        }
    }

    /// Drops log entries that the tree's files hold; true if something was added to `write`.
    pub fn truncate(&mut self, write: &mut LogWrite) -> replica::Result<bool> {
        if self.splitting.keeps_log() {
            return Ok(false);
        }
        let engine = self.handle.engine();
        let rows_bytes = if self.replica.has_sent_rows() { engine.stats().disk_bytes } else { 0 };
        self.replica.truncate(engine.flushed_index(), rows_bytes, write)
    }

    /// Why the shard has stopped applying entries, if it has.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Checks what must always hold; called after every step in tests and simulation.
    pub fn validate(&self) {
        self.replica.validate();
        assert!(self.handle.engine().applied_index() <= self.replica.status().committed);
        assert!(self.handle.lease().until_us() == 0 || self.replica.is_leader(), "a lease without leading");
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

    fn is_meta(&self) -> bool {
        self.handle.id() == ShardId::META
    }

    /// Hands leadership over to another replica; false if that cannot be begun.
    pub fn transfer(&mut self, to: ReplicaId) -> bool {
        if !self.replica.serves() || self.replica.is_transferring() {
            return false;
        }
        self.lease.spend(&self.replica, &self.handle);
        self.replica.transfer_leader(to)
    }

    /// Proposes another set of members; false if this replica cannot.
    pub fn change_members(&mut self, changes: &[MemberChange]) -> bool {
        if !self.replica.serves() {
            return false;
        }
        // A group of one had a lease without end.
        self.lease.end(&self.handle);
        match self.replica.propose_members(changes, Vec::new()) {
            Ok(_) => true,
            Err(e) => {
                log::warn!("shard {}: its members cannot be changed now: {e}", self.handle.id());
                false
            }
        }
    }

    /// Tells what followers hold, for WAIT and for the director. Done about once a second even if unasked.
    pub(crate) fn tell_followers(&self) {
        group::tell_followers(&self.replica, &self.handle);
    }

    /// All rows of a snapshot are here: the replica may accept them in its next turn.
    pub fn step_snapshot(&mut self, arrived: ArrivedSnapshot) {
        if self.replica.has_snapshot() || self.replica.is_installing() {
            // The replica has accepted an earlier one, whose rows wait for the log: it would not accept this one, and these rows
            // must not take their place. The leader sends what is lacking afterwards.
            return;
        }
        if !self.can_write() {
            // An accepted snapshot must be installed. The leader finds that this one was not accepted, and sends it again.
            log::warn!("shard {}: a snapshot cannot be taken now: {}", self.handle.id(), self.health.reason());
            return;
        }
        let message = self.intake.arrive(arrived);
        self.step(message);
    }

    /// From now on no write is proposed, for `for_us`: new writes wait. False if this replica does not lead.
    pub fn begin_barrier(&mut self, now: Moment, for_us: u64) -> bool {
        let serves = self.replica.serves() && self.broken.is_none();
        if serves {
            self.proposals.begin_barrier(now, for_us);
        }
        serves
    }

    /// Writes go on.
    pub fn end_barrier(&mut self) {
        self.proposals.end_barrier();
    }

    /// While a write barrier stands: whether everything that was proposed before is applied. `None`: none stands any more.
    #[must_use]
    pub fn is_drained(&self, now: Moment) -> Option<bool> {
        let stands = self.proposals.has_barrier(now) && self.replica.serves();
        stands.then(|| !self.proposals.has_proposed() && self.queue.is_empty())
    }

    /// Begins to give `slots` to a new shard; false if that cannot be, or is under way.
    pub fn split(&mut self, child: ShardId, slots: &[(u16, u16)]) -> bool {
        let slots = Slots::from(slots.to_vec());
        self.can_split() && self.splitting.begin(child, slots, &self.handle, &mut self.proposals)
    }

    /// What the map says of the shard's splits.
    pub fn note_splits(&mut self, map: &cluster::Map) {
        self.splitting.note_map(self.handle.id(), map);
    }

    /// Proposes the split that was begun, once the tree is flushed; true if there is something to do now.
    pub fn go_on_splitting(&mut self, now: Moment) -> bool {
        let ready = self.can_split() && !self.proposals.has_barrier(now) && !self.handle.engine().needs_flush();
        self.splitting.go_on(ready, &self.replica, &self.handle, &mut self.proposals)
    }

    fn can_split(&self) -> bool {
        let members = self.replica.members();
        self.replica.serves()
            && !self.is_meta()
            && self.refusal().is_none()
            && !self.replica.is_transferring()
            && !self.replica.is_changing_members()
            && members.voters_outgoing.is_empty()
            && members.learners.is_empty()
    }

    /// Everything that was committed before is applied: reads may be answered once this leader is confirmed.
    fn begin_to_serve(&mut self, now: Moment) {
        self.lease.ask(&mut self.replica, now);
        if self.is_meta() && self.applier.map().is_none() {
            self.proposals.begin_map();
        }
    }

    fn post(&mut self, messages: Vec<Message>, effects: &mut dyn Effects) {
        let shard = self.handle.id();
        for mut message in messages {
            freshness::stamp(&mut message, &self.lease, &self.replica, &self.handle);
            let to = ReplicaId(message.to);
            let Some(node) = self.group.node_of(to) else { continue };
            if message.has_snapshot() && !message.get_snapshot().is_empty() {
                if self.aside.is_busy() {
                    // The tree may have an entry already of which the replica does not know. raft asks again.
                    self.replica.report_snapshot(to, false);
                    continue;
                }
                snapshot::send(&self.handle, &mut self.replica, to, node, message, effects);
            } else {
                effects.send(node, PeerMessage::Raft { shard, message });
            }
        }
    }

    fn tell_leader(&mut self, effects: &mut dyn Effects) {
        if let Some(news) = self.group.leader_news(&self.replica) {
            effects.led(self.handle.id(), news.node, news.term);
        }
    }

    /// The first map, which the metadata group's first leader proposes. Other groups do not keep it: there may be thousands
    /// of them, and a map is as large as all of them.
    pub fn set_first_map(&mut self, map: &cluster::Map) {
        if self.is_meta() {
            self.proposals.set_first_map(cluster::Change::Begin(map.clone()).encode());
        }
    }
}

/// Answers all that wait for an entry that is not applied.
fn refuse_all(detail: &str, tickets: &[Ticket], effects: &mut dyn Effects) {
    let text = format!("ERR {detail}");
    tickets.iter().for_each(|ticket| refuse(&text, ticket, effects));
}

//! What a worker's replicas ask for: answers for clients, messages for other nodes, and work that follows from applying
//! entries.

use super::apply_thread::apply_beside;
use super::peers::Peers;
use super::telling::Telling;
use crate::api::digest_marked;
use crate::clients::{
    Clients, evict, push, show_call, show_calls_of_entry, show_here, tell_denied, tell_instead, tell_own,
};
use crate::disk_reads::{Applying, DeferredRead, DiskReads, rows_of_entries};
use crate::mailbox::{BlockingMessage, EMBEDDED, SubscriberNews, WorkerMessage};
use crate::os::steady_us;
use crate::replicas::{fork_behind, send_snapshot};
use crate::shared::NodeShared;
use cluster::{Change, MapUpdate};
use node::blocking::{Answered, Blocked};
use node::control::report_members;
use node::peer_protocol::PeerMessage;
use node::tracking::ChangedKeys;
use node::{
    Answers, ApplyTask, Bounding, DeniedCall, Effects, KeyspaceEvent, MonitoredCalls, Pops, PrefetchItem, ReadyKey,
    Rules, ScriptMessage, ShardHandle, SnapshotTask, SplitTask, Ticket, is_large_entry,
};
use replica::{Entry, LogRead, Members};
use resp::Reply;
use std::sync::Arc;
use vocab::{Moment, NodeId, ShardId, SteadyClock};

/// What follows from applying entries, once the replicas have had their turn.
#[derive(Default)]
pub(super) struct FollowUp {
    /// Snapshots that are to be sent.
    snapshots: Vec<SnapshotTask>,
    /// Members that have changed, for the map.
    changes: Vec<Change>,
    /// The newest map that the metadata group has applied.
    applied_map: Option<MapUpdate>,
}

impl FollowUp {
    /// Does what is to be done.
    fn run(&mut self, store: &Arc<NodeShared>, peers: &mut Peers, now: Moment) {
        for task in self.snapshots.drain(..) {
            send_snapshot(store, task);
        }
        for change in self.changes.drain(..) {
            peers.propose(&change);
        }
        if let Some(update) = self.applied_map.take() {
            peers.map_applied(update, now);
        }
    }
}

/// The owners that the effects of the core reach.
pub(super) struct Shell {
    pub(super) worker: usize,
    pub(super) store: Arc<NodeShared>,
    pub(super) clients: Clients,
    pub(super) peers: Peers,
    pub(super) disk_reads: DiskReads,
    pub(super) applying: Applying,
    pub(super) follow_up: FollowUp,
    pub(super) blocked: Blocked,
    pub(super) telling: Telling,
}

impl Shell {
    /// Does what applying entries has asked for.
    pub(super) fn after_apply(&mut self, now: Moment) {
        self.follow_up.run(&self.store, &mut self.peers, now);
    }

    /// There is news for subscribers, monitors, or those who cache keys.
    pub(super) fn hear_of_subscribers(&mut self, news: SubscriberNews) {
        match news {
            SubscriberNews::Push(delivery) => {
                push(&mut self.clients, std::slice::from_ref(&*delivery));
                // Publishers that waited for that go on.
                if self.store.mailboxes.delivered(&self.store.broker, &delivery, self.worker as u32) {
                    self.store.mailboxes.tell_all(|| WorkerMessage::Led);
                }
            }
            SubscriberNews::Invalidated(told) => tell_own(&self.store, &mut self.clients, &told),
            SubscriberNews::Redirected(told) => tell_instead(&mut self.clients, &told),
            SubscriberNews::ScriptCalls(client, lines) => {
                lines.into_iter().for_each(|line| show_call(&self.store, &mut self.clients, client, line));
            }
            SubscriberNews::Monitored(line) => {
                show_here(&self.store, &mut self.clients, &line);
                if self.store.broker.arrived(line.len() as u64) {
                    self.store.mailboxes.tell_all(|| WorkerMessage::Led);
                }
            }
            SubscriberNews::Evicted(evicted) => evict(&mut self.clients, &evicted),
            SubscriberNews::Announce => self.peers.announce(),
        }
    }

    /// Tells clients some of what entries tell them.
    pub(super) fn tell(&mut self) {
        if !self.telling.is_empty() && !self.clients.is_crowded() {
            self.telling.step(&self.store, &mut self.clients);
        }
    }

    /// A client of a blocking command has an answer: whether it waits on instead, or gets another.
    fn waits_on(&mut self, ticket: &Ticket, reply: &[u8]) -> bool {
        let known = self.store.known();
        match self.blocked.answered(ticket, reply, self.store.moment(), |shard| known.handle(shard)) {
            Answered::Deliver => return false,
            Answered::DeliverInstead(reply) => self.deliver(ticket, &reply),
            Answered::Waits(true) => self.begins_to_wait(ticket),
            Answered::Waits(false) => {}
        }
        true
    }

    /// Another worker, or a thread of the pool, tells of clients in blocking commands.
    pub(super) fn read_blocking(&mut self, message: BlockingMessage) {
        match message {
            BlockingMessage::Waits(ticket) => self.clients.waits(&ticket),
            BlockingMessage::EndWait(ticket, end) => self.blocked.end(&ticket, end),
            BlockingMessage::Looked(look) => self.blocked.looked(*look, self.store.moment()),
            BlockingMessage::Unblock { place, client, end, tried } => self.clients.unblock(place, client, end, tried),
        }
    }

    /// Ends waits whose time is over, and has a thread look at what is pending in groups, if that is due: it may have to wait for the disk.
    pub(super) fn go_on_with_waits(&mut self, now: Moment) {
        self.blocked.expire(now.mono_us);
        let Some(look) = self.blocked.take_look(now) else { return };
        let (store, worker) = (self.store.clone(), self.worker);
        self.store.pool.run(Box::new(move || {
            let looked = BlockingMessage::Looked(Box::new(look.step()));
            store.mailboxes.tell(worker, WorkerMessage::Blocking(looked));
        }));
    }

    /// A client waits from now on: its worker is to know.
    pub(super) fn begins_to_wait(&mut self, ticket: &Ticket) {
        if ticket.worker as usize == self.worker {
            self.clients.waits(ticket);
        } else {
            let message = WorkerMessage::Blocking(BlockingMessage::Waits(*ticket));
            self.store.mailboxes.tell(ticket.worker as usize, message);
        }
    }

    /// Answers a client that its request is refused.
    pub(super) fn refuse(&mut self, ticket: &Ticket, text: &str) {
        let mut reply = Reply::new(ticket.proto);
        reply.error(text);
        self.deliver(ticket, &reply.buf);
    }

    /// Gives an answer to the client that waits for it.
    pub(super) fn deliver(&mut self, ticket: &Ticket, reply: &[u8]) {
        if ticket.worker as usize == self.worker {
            self.clients.deliver(ticket, reply);
        } else if let Some(mailbox) = self.store.mailboxes.of_worker(ticket.worker as usize) {
            mailbox.send(WorkerMessage::Answer { ticket: *ticket, reply: reply.to_vec() });
        }
    }

    /// Sends messages to other nodes. Where leaders have changed, requests that wait for them go on.
    pub(super) fn flush_peers(&mut self) {
        if self.peers.flush() {
            self.clients.unstall_all();
        }
    }
}

impl Answers for Shell {
    fn answer(&mut self, ticket: &Ticket, reply: &[u8]) {
        if *ticket == Ticket::NONE || (ticket.may_wait && self.waits_on(ticket, reply)) {
        } else if ticket.worker == EMBEDDED {
            self.store.embedded.deliver(ticket, reply);
        } else {
            self.deliver(ticket, reply);
        }
    }

    fn answer_long(&mut self, ticket: &Ticket, reply: Vec<u8>) {
        if ticket.may_wait && self.waits_on(ticket, &reply) {
        } else if ticket.worker as usize == self.worker {
            self.clients.deliver_owned(ticket, reply);
        } else if ticket.worker == EMBEDDED {
            self.store.embedded.deliver_owned(ticket, reply);
        } else if let Some(mailbox) = self.store.mailboxes.of_worker(ticket.worker as usize) {
            mailbox.send(WorkerMessage::Answer { ticket: *ticket, reply });
        } else {
            self.answer(ticket, &reply);
        }
    }
}

impl Effects for Shell {
    fn send(&mut self, to: NodeId, message: PeerMessage) {
        self.peers.post(to, message);
    }

    fn not_leader(&mut self, shard: ShardId, ticket: &Ticket) {
        if ticket.may_wait && self.blocked.withdraw(ticket, self.store.moment().mono_us) {
            return;
        }
        let mut reply = Reply::new(ticket.proto);
        match self.store.known().redirection(self.store.node(), shard, ticket.slot) {
            Some(text) => reply.error(&text),
            None => reply.error("CLUSTERDOWN The cluster is down: the shard has no leader now; nothing was written"),
        }
        self.answer(ticket, &reply.buf);
    }

    fn led(&mut self, shard: ShardId, leader: Option<NodeId>, term: u64) {
        let known = self.store.known();
        if leader == Some(self.store.node()) {
            self.store.tracking.leads();
        } else if let Some(handle) = known.handle(shard) {
            handle.lose_trackers();
        }
        if known.place(shard).is_some_and(|place| place.leader.learn(leader, term)) {
            self.peers.note_leader(shard);
        }
    }

    fn readable(&mut self, _shard: ShardId) {
        self.clients.unstall_all();
    }

    fn keys_ready(&mut self, keys: Vec<ReadyKey>) {
        self.blocked.keys_ready(keys);
    }

    fn keys_changed(&mut self, handle: &Arc<ShardHandle>, changed: ChangedKeys) {
        self.telling.changes(handle, changed);
    }

    fn keyspace_events(&mut self, events: Vec<KeyspaceEvent>) {
        self.telling.events(events);
    }

    fn messages(&mut self, messages: Vec<ScriptMessage>) {
        self.telling.messages(messages);
    }

    fn monitored(&mut self, calls: MonitoredCalls, tickets: &[Ticket]) {
        self.store.stats.worker(self.worker).ran_in_script(calls.all_ended());
        show_calls_of_entry(&self.store, &mut self.clients, calls.into_lines(), tickets);
    }

    fn denied(&mut self, ticket: &Ticket, denied: DeniedCall) {
        if ticket.worker as usize == self.worker {
            self.clients.denied_in_script(ticket, vec![denied]);
        } else {
            tell_denied(&self.store, ticket, vec![denied]);
        }
    }

    fn cleared(&mut self, shard: ShardId) {
        self.blocked.cleared(shard);
    }

    fn disk_is_slow(&mut self) -> bool {
        !self.store.reads_are_fast(|| self.store.now_ms())
    }

    fn prefetch(&mut self, handle: &Arc<ShardHandle>, items: Vec<PrefetchItem>) {
        let rows = rows_of_entries(&self.store, self.worker, handle, items);
        self.disk_reads.queue().extend(rows.map(DeferredRead::Prefetch));
    }

    fn wants_turn(&mut self) -> bool {
        self.applying.look(&self.store)
    }

    fn steady_clock(&self) -> Option<SteadyClock> {
        Some(steady_us)
    }

    fn applies_aside(&self, entry: &Entry) -> bool {
        is_large_entry(entry)
    }

    fn apply_aside(&mut self, task: ApplyTask) -> Option<ApplyTask> {
        apply_beside(&self.store, task)
    }

    fn read_log(&mut self, read: LogRead) -> Option<LogRead> {
        let store = self.store.clone();
        self.store.pool.run(Box::new(move || {
            let shard = read.shard();
            store.mailboxes.tell_owner(shard, WorkerMessage::LogRead(Box::new(read.run())));
        }));
        None
    }

    fn sealed(&mut self, _shard: ShardId) {
        self.store.background.wake();
    }

    fn may_send(&mut self, shard: ShardId, node: NodeId) -> bool {
        let is_other = |task: &&SnapshotTask| task.shard != shard || task.node != node;
        let waiting = self.follow_up.snapshots.iter().filter(is_other).count();
        self.store.snapshots.get().is_some_and(|snapshots| snapshots.may_send(shard, node, waiting))
    }

    fn snapshot_wanted(&mut self, task: SnapshotTask) {
        self.follow_up.snapshots.push(task);
    }

    fn split(&mut self, task: SplitTask) {
        fork_behind(&self.store, task);
    }

    fn split_ended(&mut self, child: ShardId) {
        self.follow_up.changes.push(Change::EndSplit { child });
    }

    fn members(&mut self, shard: ShardId, index: u64, members: Members) {
        self.follow_up.changes.push(report_members(shard, index, &members));
    }

    fn marked(&mut self, _shard: ShardId, comparison: u64, at_ms: u64, rows: Box<dyn storage::Snapshot>) {
        digest_marked(&self.store, comparison, at_ms, rows);
    }

    fn reads_second_format(&self, node: NodeId) -> bool {
        self.store.entry_formats.reads_second(node)
    }

    fn keeps_map_changes(&self, node: NodeId) -> bool {
        self.store.entry_formats.knows_map_changes(node)
    }

    fn pops(&self, node: NodeId) -> Pops {
        if node == self.store.node() { Pops::GoingOn } else { self.store.entry_formats.pops(node) }
    }

    fn rules(&self) -> Rules {
        self.store.entry_formats.rules()
    }

    fn bounding(&self, node: NodeId) -> Bounding {
        if node == self.store.node() { Bounding::OfAll } else { self.store.entry_formats.bounding(node) }
    }

    fn map(&mut self, update: MapUpdate) {
        let before = self.follow_up.applied_map.take();
        self.follow_up.applied_map = Some(before.map_or(update.clone(), |before| before.then(update)));
    }
}

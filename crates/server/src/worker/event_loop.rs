//! A worker: one thread, one event loop, some connections, some shards.
//!
//! One turn of the loop: sockets and the mailbox are read and requests run; all writes of the turn become one entry a
//! shard and one log write for all shards; what is committed is applied; answers are sent. With `sync` the kernel or a
//! log thread makes the fsync while the loop goes on, and what arrives meanwhile is the next entry. If every client waits
//! for the log, the loop makes the fsync itself (`log_pipeline`).

use super::acceptor::{Accepted, Acceptor, Listener};
use super::blocked::submission_of;
use super::effects::{FollowUp, Shell};
use super::fenced_writes::FencedWrites;
use super::log_pipeline::{LogPipeline, Logged};
use super::peers::{PeerEvent, Peers};
use super::telling::Telling;
use super::write_barriers::WriteBarriers;
use crate::clients::{
    Clients, Dispatcher, FIRST_CONNECTION, FIRST_HANDSHAKE, FIRST_UPSTREAM, Forwarder, Handshakes, LargeThread,
    ReplySender, Secured, Unread, Waits, bring_some, databases_exchanged, give_back, go_round, hand_over, learned,
    look_at_all, push, tend, tick, users_changed, watched,
};
use crate::disk_reads::{Applying, DiskReads};
use crate::links::Links;
use crate::mailbox::{Forked, Mailbox, Submission, WorkerMessage};
use crate::net::Stream;
use crate::os::{BusyPoll, RunQueue, TICK};
use crate::shared::NodeShared;
use cluster::Map;
use mio::event::Event;
use mio::{Events, Poll, Token};
use node::blocking::{Begin, Blocked, BlockingCommand};
use node::control::Control;
use node::multi_raft::{Logging, MultiRaft};
use node::read::is_slot_moving;
use node::session::Keyspace;
use node::{Answers, AppliedAside, Ticket};
use replica::LogWrite;
use resp::Reply;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use vocab::{Moment, NodeId, ShardId};

const MAIL: Token = Token(0);
/// The token of the first listener's events; the others follow.
const FIRST_LISTENER: usize = 1;
/// Most listeners: for clients of Redis Cluster and of databases, without and with TLS.
const LISTENERS_MAX: usize = 4;
const LAST_LISTENER: usize = FIRST_LISTENER + LISTENERS_MAX - 1;
const _: () = assert!(FIRST_CONNECTION > LAST_LISTENER);

/// Within one turn, so often connections are looked at again whose requests waited for writes of the turn.
const LOOKS_MAX: usize = 4;
/// Rounds of proposing and applying within one turn: what is left has its turn after the sockets.
const PUMPS_MAX: usize = 16;

/// After so long the others have their turn.
const PUMP_SPAN: Duration = Duration::from_micros(500);
/// For how long connections are accepted in a turn.
const ACCEPT_SPAN: Duration = Duration::from_micros(300);

/// How long writers wait in each turn for background work that is just behind.
const DEBT_PAUSE: Duration = Duration::from_millis(2);
/// The debt at which they wait longest.
const DEBT_MAX: f64 = 25.0;

/// What a worker begins with.
pub(crate) struct WorkerSetup {
    pub(crate) index: usize,
    pub(crate) store: Arc<NodeShared>,
    pub(crate) poll: Poll,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Where clients connect: the first worker's.
    pub(crate) listeners: Vec<Listener>,
    pub(crate) multi_raft: MultiRaft,
    /// The links to other nodes: the first worker's, unless the node is a store by itself.
    pub(crate) links: Option<Links>,
    /// This node's part in the control of the store: the first worker's.
    pub(crate) control: Option<Control>,
}

/// A replica that is to be closed.
struct Release {
    shard: ShardId,
    /// Is told when it is closed.
    back: SyncSender<()>,
}

/// A worker.
pub(crate) struct Worker {
    index: usize,
    store: Arc<NodeShared>,
    poll: Poll,
    acceptor: Acceptor,
    handshakes: Handshakes,
    mailbox: Arc<Mailbox>,
    /// The owners that the effects of the core reach.
    shell: Shell,
    dispatcher: Dispatcher,
    /// What runs large requests.
    large: Option<LargeThread>,
    replies: ReplySender,
    waits: Waits,
    log: LogPipeline,
    /// The replicas that this worker owns.
    multi_raft: MultiRaft,
    fenced: FencedWrites,
    barriers: WriteBarriers,
    releases: Vec<Release>,
    /// What the disk reads of a turn tell: the buffer is used again.
    finished: Vec<WorkerMessage>,
    /// Bytes of writes that its shards have taken and not yet proposed.
    queued_bytes: usize,
    /// No writes are proposed before this.
    paused_until: Instant,
    next_tick: Instant,
    now: Moment,
    stopping: bool,
}

impl Worker {
    /// The token of the events of its mailbox.
    pub(crate) const MAIL: Token = MAIL;

    pub(crate) fn new(setup: WorkerSetup) -> io::Result<Self> {
        let WorkerSetup { index, store, poll, mailbox, listeners, multi_raft, links, control } = setup;
        assert!(listeners.len() <= LISTENERS_MAX, "{} listeners", listeners.len());
        let acceptor = Acceptor::open(listeners, poll.registry(), FIRST_LISTENER, index)?;
        let now = Instant::now();
        Ok(Self {
            index,
            poll,
            acceptor,
            handshakes: Handshakes::new(store.clone()),
            shell: Shell {
                worker: index,
                store: store.clone(),
                clients: Clients::new(index, store.clone()),
                peers: Peers::new(index, store.clone(), links, control),
                disk_reads: DiskReads::new(index, store.clone(), mailbox.clone()),
                applying: Applying::default(),
                follow_up: FollowUp::default(),
                blocked: Blocked::default(),
                telling: Telling::default(),
            },
            dispatcher: Dispatcher::new(index, store.clone(), mailbox.clone()),
            large: None,
            replies: ReplySender::new(index, mailbox.clone()),
            waits: Waits::default(),
            log: LogPipeline::new(store.clone(), mailbox.clone()),
            multi_raft,
            fenced: FencedWrites::default(),
            barriers: WriteBarriers::default(),
            releases: Vec::new(),
            finished: Vec::new(),
            queued_bytes: 0,
            paused_until: now,
            next_tick: now + TICK,
            now: store.moment(),
            stopping: false,
            store,
            mailbox,
        })
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self) {
        node::keep_script_state();
        self.large = LargeThread::of(&mut self.shell.clients, &self.mailbox);
        self.shell.disk_reads.open_reader(self.poll.registry(), MAIL);
        self.log.open_ring(self.poll.registry(), MAIL);
        let mut events = Events::with_capacity(1024);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let (mut busy_poll, mut run_queue) = (BusyPoll::default(), RunQueue::new());
        let mut mail = Vec::new();
        while !self.stopping {
            let wait = self.time_to_wait();
            let reads = if processors > 1 { self.shell.disk_reads.with_disk() } else { 0 };
            let span = busy_poll.span(run_queue.has_own_processor(), self.log.synced_here(), reads);
            let (unfinished, deadline) = (self.shell.peers.is_unfinished(), self.shell.peers.deadline());
            if let Err(e) = busy_poll.poll(&mut self.poll, &mut events, wait, span)
                && e.kind() != io::ErrorKind::Interrupted
            {
                log::error!("the event loop fails: {e}");
                return;
            }
            self.now = self.store.moment();
            for event in &events {
                match event.token() {
                    MAIL => {}
                    Token(FIRST_LISTENER..=LAST_LISTENER) => self.acceptor.note(event.token().0 - FIRST_LISTENER),
                    token if self.shell.peers.owns(token) => {
                        self.shell.peers.notice(token, event, self.now);
                        self.pass_on();
                    }
                    token if token.0 >= FIRST_UPSTREAM => self.forwarder().notice(event),
                    token if token.0 >= FIRST_HANDSHAKE => self.notice_handshake(event),
                    _ => self.shell.clients.notice(event),
                }
            }
            self.accept_some();
            self.note_ring(false);
            self.mailbox.take(&mut mail);
            for message in mail.drain(..) {
                self.take_message(message);
            }
            if unfinished || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.shell.peers.resume(self.now);
                self.pass_on();
            }
            if Instant::now() >= self.next_tick {
                self.next_tick = Instant::now() + TICK;
                run_queue.tick();
                self.tick();
            }
            self.serve();
        }
        self.finish();
    }

    /// For how long the loop may wait for events.
    fn time_to_wait(&mut self) -> Duration {
        let mut next = self.next_tick;
        if let Some(at) = self.dispatcher.send_delayed(&mut self.shell.clients) {
            next = next.min(at);
        }
        if self.multi_raft.is_busy() && (self.may_log() || self.multi_raft.has_yielded()) {
            next = next.min(self.paused_until);
        }
        if let Some(deadline) = self.shell.peers.deadline() {
            next = next.min(deadline);
        }
        if let Some(until_us) = self.shell.blocked.deadline_us() {
            let left_us = until_us.saturating_sub(self.store.moment().mono_us);
            next = next.min(Instant::now() + Duration::from_micros(left_us));
        }
        let is_behind = self.shell.blocked.has_work()
            || self.shell.peers.is_unfinished()
            || self.shell.disk_reads.is_behind()
            || !self.shell.telling.is_empty()
            || self.store.tracking.has_lost()
            || self.shell.clients.is_behind()
            || self.replies.has_to_close()
            || self.acceptor.has_more()
            || Forwarder::can_resume(&self.shell.clients)
            || Forwarder::is_dirty(&self.shell.clients);
        if is_behind || self.shell.clients.has_ready() || self.shell.clients.has_dirty() {
            return Duration::ZERO;
        }
        next.saturating_duration_since(Instant::now())
    }

    /// Runs requests, commits writes, sends answers.
    fn serve(&mut self) {
        self.log.begin_turn();
        self.dispatcher.begin_turn();
        self.dispatcher.take_served_others();
        self.dispatcher.clear_again(&mut self.shell.clients, self.now);
        if Forwarder::can_resume(&self.shell.clients) {
            self.forwarder().resume();
        }
        self.end_waits();
        self.release_fenced_writes();
        self.take_wanted();
        go_round(&mut self.shell.clients);
        for _ in 0..LOOKS_MAX {
            let mut ready = self.shell.clients.take_ready();
            while let Some(id) = self.shell.clients.next_ready(&mut ready) {
                self.dispatcher.receive(&mut self.shell.clients, id, self.now);
                self.take_wanted();
                if self.dispatcher.is_turn_over() {
                    break;
                }
            }
            // What was not looked at comes first the next time.
            self.shell.clients.put_off(ready);
            self.read_from_disk();
            self.pump();
            self.shell.tell();
            self.shell.flush_peers();
            // What was written and applied meanwhile counts as well: it may be as long as the requests were.
            if !self.shell.clients.has_ready() || self.dispatcher.is_late() {
                break;
            }
        }
        if Forwarder::is_dirty(&self.shell.clients) {
            self.forwarder().flush();
        }
        self.waits.check(&self.store, &mut self.shell.clients);
        tend(&self.store, &mut self.shell.clients);
        bring_some(&mut self.shell.clients);
        self.barriers.check(&self.multi_raft, &self.store.backups, self.now);
        self.sync_staged();
        let prefer_thread = self.log.synced_here() && self.store.spare_processors.for_helpers();
        let sent = self.replies.flush(&mut self.shell.clients, self.poll.registry(), prefer_thread);
        self.store.stats.worker(self.index).sent(sent);
    }

    /// Accepts connections for a while: very many may be waiting.
    fn accept_some(&mut self) {
        if !self.acceptor.has_more() {
            return;
        }
        let until = Instant::now() + ACCEPT_SPAN;
        while let Some(accepted) = self.acceptor.next(self.store.mailboxes.workers()) {
            self.give_out(accepted);
            if Instant::now() > until {
                return self.acceptor.rotate();
            }
        }
    }

    fn give_out(&mut self, Accepted { worker, message }: Accepted) {
        if worker == self.index {
            self.take_message(message);
        } else {
            self.store.mailboxes.tell(worker, message);
        }
    }

    fn take_message(&mut self, message: WorkerMessage) {
        let now = self.now;
        hand_over(&mut self.shell.clients, message).into_iter().for_each(|message| self.read_message(message, now));
    }

    fn read_message(&mut self, message: WorkerMessage, now: Moment) {
        match message {
            WorkerMessage::Called(called) => self.forwarder().called(*called),
            WorkerMessage::Connection(stream, keyspace) => self.connect(stream, keyspace),
            WorkerMessage::Handshake(stream, keyspace) => self.handshakes.begin(stream, keyspace, self.poll.registry()),
            WorkerMessage::Write(submission) => self.submit(submission),
            WorkerMessage::Answer { ticket, reply } => self.shell.clients.deliver_owned(&ticket, reply),
            WorkerMessage::Part(part) => self.shell.clients.deliver_part(*part),
            WorkerMessage::StoreAnswers(answers) => self.shell.clients.deliver_store_answers(&answers),
            WorkerMessage::Watched(keys) => watched(&mut self.shell.clients, *keys),
            WorkerMessage::LearnedScript(script) => learned(&mut self.shell.clients, *script),
            WorkerMessage::WritePrefetched(ticket) => {
                self.dispatcher.write_prefetched(&mut self.shell.clients, &ticket);
                self.take_wanted();
            }
            WorkerMessage::EntriesPrefetched(shard) => self.multi_raft.prefetched(shard),
            WorkerMessage::Logged(outcome) => {
                // The ring's was before it.
                self.note_ring(true);
                if let Some(logged) = self.log.logged(outcome) {
                    self.note_logged(&logged);
                }
            }
            WorkerMessage::Flushed(shard) => self.cut_log(shard),
            WorkerMessage::Seal(shard) => self.seal(shard),
            WorkerMessage::AskLease(shard) => self.multi_raft.ask_lease(shard, now),
            WorkerMessage::Peer(from, message) => self.multi_raft.receive(from, message, now, &mut self.shell),
            WorkerMessage::Post(to, message) => self.shell.peers.post(to, message),
            WorkerMessage::Release(shard, back) => {
                self.releases.push(Release { shard, back });
                self.release();
            }
            WorkerMessage::Report(report) => {
                self.shell.peers.report(*report, now);
                self.pass_on();
            }
            WorkerMessage::AppliedAside(applied) => self.applied_aside(*applied),
            WorkerMessage::LogRead(read) => self.multi_raft.log_was_read(*read),
            WorkerMessage::Forked(forked) => self.forked(*forked),
            WorkerMessage::AdoptChild { opened, leads } => {
                self.multi_raft.adopt_child(opened.shard, leads, now);
                self.shell.clients.unstall_all();
            }
            WorkerMessage::Adopt(opened) => self.multi_raft.adopt(opened.shard, opened.fresh, now),
            WorkerMessage::Map(map) => self.map_changed(map),
            WorkerMessage::MapApplied(update) => {
                self.shell.peers.map_applied(update, now);
                self.pass_on();
            }
            WorkerMessage::LinkDown(node) => self.link_down(node),
            WorkerMessage::Bulk(bytes) => self.multi_raft.note_bulk(bytes, now),
            WorkerMessage::Subscribers(news) => self.shell.hear_of_subscribers(news),
            WorkerMessage::Led => self.heard_of_leader(),
            WorkerMessage::SnapshotArrived(it) => self.multi_raft.snapshot_arrived(it.shard, it.arrived),
            WorkerMessage::SnapshotSent { shard, replica, whole } => {
                self.multi_raft.snapshot_sent(shard, replica, whole)
            }
            WorkerMessage::Blocking(message) => self.shell.read_blocking(message),
            WorkerMessage::Wait(waiting) => self.waits.begin(*waiting),
            WorkerMessage::BeginBarrier(it) => self.barriers.begin(it, &mut self.multi_raft, &self.store.backups, now),
            WorkerMessage::EndBarrier { backup, shard } => self.barriers.end(backup, shard, &mut self.multi_raft, now),
            // The caller may have given up.
            WorkerMessage::StoreStatus(asked) => _ = asked.try_send(self.shell.peers.status()),
            WorkerMessage::Look => look_at_all(&mut self.shell.clients),
            WorkerMessage::UsersChanged(done) => users_changed(&mut self.shell.clients, done),
            WorkerMessage::DatabasesExchanged(done) => databases_exchanged(&mut self.shell.clients, done),
            // It is taken back at the end of the turn.
            WorkerMessage::Unsent => {}
            WorkerMessage::Probe(held) => drop(held),
            WorkerMessage::DeniedInScript(ticket, denied) => self.shell.clients.denied_in_script(&ticket, denied),
            WorkerMessage::GivenBack => self.given_back(),
            WorkerMessage::Taken(share) => self.store.give_back(Some(share)),
            WorkerMessage::Stop => self.stopping = true,
        }
    }

    /// The thread for large requests gives a connection back.
    fn given_back(&mut self) {
        let Some(thread) = &self.large else { return };
        let given_back = give_back(thread, &mut self.shell.clients, &mut self.dispatcher);
        self.take_wanted();
        let Some(mut arrivals) = given_back else { return };
        while let Some(unread) = arrivals.read(&self.store, &mut self.shell.clients) {
            match unread {
                Unread::Message(message) => self.take_message(message),
                Unread::NodeLost(client, node) => self.forwarder().node_lost_of(client, node),
            }
        }
        self.forwarder().tick();
    }

    fn map_changed(&mut self, map: Arc<Map>) {
        self.multi_raft.map_changed(map);
        self.shell.clients.unstall_all();
    }

    /// Sets a shard's memory apart, and has it written to files.
    fn seal(&self, shard: ShardId) {
        // What a follower needs that was sent the rows is kept, however often the tree is flushed.
        if let Some(owned) = self.multi_raft.shard(shard).filter(|owned| !owned.replica().has_sent_rows()) {
            owned.seal();
            self.store.background.wake();
        }
    }

    /// Hands what requests want to the owners that have it.
    fn take_wanted(&mut self) {
        let wanted = self.dispatcher.wanted();
        self.shell.disk_reads.queue().append(&mut wanted.reads);
        for waiting in wanted.waits.drain(..) {
            self.waits.begin(waiting);
        }
        for shard in wanted.leases.drain(..) {
            if self.store.mailboxes.owner_of(shard) == self.index {
                self.multi_raft.ask_lease(shard, self.now);
            } else {
                self.store.mailboxes.tell_owner(shard, WorkerMessage::AskLease(shard));
            }
        }
        if !wanted.writes.is_empty() {
            let mut writes = std::mem::take(&mut wanted.writes);
            // Where they are, as a rule: what is moved is what goes elsewhere. The buffer is used again.
            writes.retain_mut(|submission| !self.submit_here(submission));
            writes.drain(..).for_each(|submission| self.submit_elsewhere(submission));
            self.dispatcher.wanted().writes = writes;
        }
    }

    /// Hands a write to its shard. False if another worker owns that, or the write's slot moves.
    fn submit_here(&mut self, submission: &mut Submission) -> bool {
        let Submission { shard, write, ticket, waits_in, .. } = submission;
        let is_moving = |shard: &node::Shard| is_slot_moving(shard.handle(), ticket.slot);
        if self.store.mailboxes.owner_of(*shard) != self.index
            || write.is_of_slot() && self.multi_raft.shard(*shard).is_some_and(is_moving)
        {
            return false;
        }
        if let Some(command) = waits_in.take()
            && self.is_not_proposed(*shard, ticket, *command)
        {
            self.store.write_left(write.bytes());
        } else if self.propose(submission) && self.shell.blocked.proposed(&submission.write) {
            self.serve_blocked();
        }
        true
    }

    /// Proposes a write; false if its shard takes none here, which its client is told.
    fn propose(&mut self, submission: &Submission) -> bool {
        let Submission { shard, write, keys, ticket, .. } = submission;
        let is_taken = self.multi_raft.submit(*shard, write, keys, *ticket, &mut self.shell);
        if is_taken {
            self.queued_bytes += write.bytes();
        } else {
            self.store.write_left(write.bytes());
        }
        is_taken
    }

    /// Hands a write to the worker that owns its shard, or keeps it until its slot has moved.
    fn submit_elsewhere(&mut self, submission: Submission) {
        if self.store.mailboxes.owner_of(submission.shard) == self.index {
            self.fenced.push(submission, self.now.mono_us);
        } else {
            self.store.mailboxes.tell_owner(submission.shard, WorkerMessage::Write(submission));
        }
    }

    /// Takes a write for a shard of this worker.
    fn submit(&mut self, mut submission: Submission) {
        if !self.submit_here(&mut submission) {
            self.submit_elsewhere(submission);
        }
    }

    /// Whether the client of a blocking command waits at once, behind others, is tried later, or is refused.
    fn is_not_proposed(&mut self, shard: ShardId, ticket: &Ticket, command: BlockingCommand) -> bool {
        let Some(shard) = self.multi_raft.shard(shard) else { return false };
        match self.shell.blocked.begin(shard.handle(), *ticket, command, self.now.mono_us) {
            Begin::Propose => return false,
            Begin::Wait => self.shell.begins_to_wait(ticket),
            Begin::Later => {}
            Begin::Refuse(text) => self.shell.refuse(ticket, text),
        }
        true
    }

    /// Proposes what clients that wait can have now.
    fn serve_blocked(&mut self) {
        for submission in self.shell.blocked.take_attempts().into_iter().map(submission_of) {
            let Submission { shard, write, ticket, .. } = &submission;
            let is_moving = |shard: &node::Shard| is_slot_moving(shard.handle(), ticket.slot);
            if self.multi_raft.shard(*shard).is_none_or(is_moving) {
                self.shell.blocked.withdraw(ticket, self.now.mono_us);
                continue;
            }
            self.store.write_queued(write.bytes());
            self.propose(&submission);
        }
    }

    /// Ends waits whose time is over, and has those routed anew whose shard is led elsewhere or is another one.
    fn end_waits(&mut self) {
        if self.shell.blocked.is_idle() {
            return;
        }
        self.shell.go_on_with_waits(self.now);
        let known = self.store.known();
        let leads = |shard: ShardId| known.handle(shard).is_some_and(|handle| handle.leading());
        self.shell.blocked.withdraw_lost(self.now.mono_us, leads);
        for submission in self.shell.blocked.take_lost().into_iter().map(submission_of) {
            self.store.write_queued(submission.write.bytes());
            self.fenced.push(submission, self.now.mono_us);
        }
        for ended in self.shell.blocked.take_ended() {
            self.shell.deliver(&ended.ticket, &ended.reply);
        }
        // Those that were not looked at yet, where no entry is applied now.
        self.serve_blocked();
    }

    /// Makes the writes whose slot has its new shard by now.
    fn release_fenced_writes(&mut self) {
        let mut refused = Vec::new();
        let writes = &mut self.dispatcher.wanted().writes;
        self.fenced.release(&self.store, self.now.mono_us, writes, &mut refused);
        for refusal in refused {
            let mut reply = Reply::new(refusal.ticket.proto);
            reply.error(Blocked::refusal(&refusal.ticket, &refusal.text));
            self.shell.answer(&refusal.ticket, &reply.buf);
        }
    }

    /// Begins what waits for the disk, and has that go on which need not wait any longer.
    fn read_from_disk(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        self.shell.disk_reads.go(&mut finished);
        finished.drain(..).for_each(|message| self.take_message(message));
        self.finished = finished;
    }

    /// Proposes what was submitted, sends what there is to send, and applies what is committed, until nothing is left
    /// or the log has to be waited for.
    fn pump(&mut self) {
        let mut begun = None;
        for _ in 0..PUMPS_MAX {
            if !self.multi_raft.is_busy() {
                return;
            }
            let now = Instant::now();
            if self.paused_until > now || now.duration_since(*begun.get_or_insert(now)) > PUMP_SPAN {
                return;
            }
            if !self.may_log() {
                self.pump_messages();
                return;
            }
            self.slow_down();
            let mut write = LogWrite::default();
            let logging = self.multi_raft.pump(self.now, &mut write, &mut self.shell);
            self.store.write_left(std::mem::take(&mut self.queued_bytes));
            if !write.is_empty() {
                self.write_log(write, logging);
            }
            self.shell.applying.begin();
            self.multi_raft.apply(self.now, &mut self.shell);
            let is_long = self.shell.applying.look(&self.store);
            self.after_apply();
            if is_long {
                // What is left has its turn after the sockets.
                return;
            }
        }
    }

    /// While no log write may begin, what needs none goes out and what is committed is applied: neither answers nor heartbeats
    /// wait for this node's disk.
    fn pump_messages(&mut self) {
        self.multi_raft.pump_messages(&mut self.shell);
        self.shell.applying.begin();
        self.multi_raft.apply(self.now, &mut self.shell);
        self.shell.applying.look(&self.store);
        self.after_apply();
    }

    /// Whether a log write may begin. Not if another is to end first: a replica is closed only where none is under way.
    fn may_log(&self) -> bool {
        !self.log.is_logging() || (self.log.may_begin(self.is_bulk()) && self.releases.is_empty())
    }

    fn write_log(&mut self, write: LogWrite, logging: Logging) {
        if self.log.will_sync(&write) {
            // The others write while this node waits for its disk.
            self.shell.flush_peers();
        }
        let is_bulk = self.is_bulk();
        if let Some(logged) = self.log.write(write, logging, self.now.mono_us, is_bulk) {
            for logging in &logged.what {
                self.note_one_logged(logging, logged.outcome.clone());
            }
        }
    }

    /// At the end of a turn: has what it wrote fsynced.
    fn sync_staged(&mut self) {
        if self.note_ring(false) {
            self.pump();
        }
        let served_others = self.dispatcher.take_served_others();
        if let Some(logged) = self.log.sync_staged(served_others, self.is_bulk()) {
            self.note_logged(&logged);
            // What followed from that does not wait for the next turn.
            self.pump();
            self.shell.flush_peers();
            self.log.hand_over();
        }
    }

    /// If the ring's fsync is over, what waited for it goes on. Answers whether it is. `waits`: see `LogPipeline::ring_done`.
    fn note_ring(&mut self, waits: bool) -> bool {
        let Some(logged) = self.log.ring_done(waits) else { return false };
        self.note_logged(&logged);
        true
    }

    /// Log writes are over: what waited for them goes on.
    fn note_logged(&mut self, logged: &Logged) {
        for logging in &logged.what {
            self.note_one_logged(logging, logged.outcome.clone());
        }
        self.release();
    }

    fn note_one_logged(&mut self, logging: &Logging, outcome: replica::Result<()>) {
        match outcome {
            Ok(()) => self.multi_raft.logged(logging, &mut self.shell),
            Err(e) => self.multi_raft.fail_pending(&e.to_string(), &mut self.shell),
        }
    }

    /// Background work that is behind slows writers down, a little for every turn, rather than stop them later.
    fn slow_down(&mut self) {
        let debts = self
            .multi_raft
            .busy_shards()
            .filter(|shard| shard.has_queued())
            .map(|shard| shard.handle().engine().debt());
        let debt = debts.fold(0.0, f64::max);
        if debt >= 1.0 {
            self.paused_until = Instant::now() + DEBT_PAUSE.mul_f64(debt.min(DEBT_MAX)).min(TICK);
        }
    }

    /// A shard's memory was written to files: its log can be cut.
    fn cut_log(&mut self, shard: ShardId) {
        let mut write = LogWrite::default();
        let Some(owned) = self.multi_raft.shard_mut(shard) else { return };
        match owned.truncate(&mut write) {
            Ok(true) => self.write_log(write, Logging::default()),
            Ok(false) => {}
            Err(e) => log::error!("{e}"),
        }
    }

    /// Whether large requests are under way.
    fn is_bulk(&self) -> bool {
        self.multi_raft.bulk_left_us(self.now) > 0
    }

    /// Closes replicas that are to be closed, unless a log write is under way, which may be about them, or another thread
    /// writes to their tree.
    fn release(&mut self) {
        if self.log.is_logging() {
            return;
        }
        for Release { shard, back } in std::mem::take(&mut self.releases) {
            if self.multi_raft.shard(shard).is_some_and(node::Shard::is_applied_aside) {
                self.releases.push(Release { shard, back });
                continue;
            }
            if let Some(mut released) = self.multi_raft.release(shard) {
                released.dismiss(&mut self.shell);
            }
            // The other side waits, unless the node is being stopped.
            let _ = back.try_send(());
        }
    }

    /// A thread has evaluated an entry: its shard goes on, or is closed if that waited for the thread.
    fn applied_aside(&mut self, applied: AppliedAside) {
        self.multi_raft.applied_aside(applied);
        self.release();
    }

    /// The fork that one of its shards waits for is made, or cannot be.
    fn forked(&mut self, forked: Forked) {
        let Forked { parent, child: id, outcome, leads } = forked;
        let (child, outcome) = match outcome {
            Ok(child) => (child, Ok(())),
            Err(detail) => (None, Err(detail)),
        };
        // Requests look for the child from now on; it answers when it has been adopted and elected.
        let parent_handle = self.multi_raft.shard(parent).map(|shard| shard.handle().clone());
        let child = child.filter(|_| parent_handle.is_some());
        if let (Some(parent_handle), Some(child)) = (parent_handle, &child) {
            let handle = child.shard.handle().clone();
            handle.begin_after(&parent_handle);
            self.store.routing.set_replica(handle.id(), Some((child.shard.replica().me(), handle)));
        }
        self.multi_raft.forked(parent, outcome);
        // The parent gives the slots away before the child answers for them.
        self.multi_raft.apply(self.now, &mut self.shell);
        if let Some(parent) = self.multi_raft.shard(parent) {
            self.shell.blocked.withdraw_moved(parent.handle(), self.now.mono_us);
        }
        self.after_apply();
        if let Some(child) = child {
            self.store.mailboxes.tell_owner(id, WorkerMessage::AdoptChild { opened: Box::new(child), leads });
        }
        self.store.forks.end(id);
        // If the map gives it to this node and it was not made here, it is begun with nothing now.
        self.store.reconcile.wake();
        self.store.mailboxes.tell_all(|| WorkerMessage::Led);
    }

    /// Does what applying entries has asked for.
    fn after_apply(&mut self) {
        self.shell.after_apply(self.now);
        self.serve_blocked();
        self.pass_on();
    }

    /// Passes on to the replicas what other nodes have told.
    fn pass_on(&mut self) {
        for event in self.shell.peers.take_events() {
            match event {
                PeerEvent::Message(from, message) => self.multi_raft.receive(from, message, self.now, &mut self.shell),
                PeerEvent::Heard(node) => self.multi_raft.heard(node, self.now),
                PeerEvent::LinkDown(node) => self.link_down(node),
                PeerEvent::Bulk(bytes) => self.multi_raft.note_bulk(bytes, self.now),
            }
        }
        let deliveries = self.shell.peers.take_deliveries();
        push(&mut self.shell.clients, &deliveries);
    }

    /// Serves a new connection.
    fn connect(&mut self, stream: Stream, keyspace: Keyspace) {
        self.shell.clients.connect(stream, keyspace, self.poll.registry(), self.now.wall_ms);
    }

    /// The event loop has noticed something of a TLS handshake.
    fn notice_handshake(&mut self, event: &Event) {
        if let Some(Secured { stream, keyspace }) = self.handshakes.notice(event, self.poll.registry()) {
            self.connect(stream, keyspace);
        }
    }

    /// What sends requests of clients to other nodes.
    fn forwarder(&mut self) -> Forwarder<'_> {
        Forwarder::new(&mut self.shell.clients, self.poll.registry())
    }

    /// A shard may have another leader.
    fn heard_of_leader(&mut self) {
        self.shell.clients.unstall_all();
        self.forwarder().tick();
    }

    /// A node cannot be talked to.
    fn link_down(&mut self, node: NodeId) {
        self.multi_raft.link_down(node);
        self.forwarder().node_lost(node);
    }

    fn tick(&mut self) {
        node::keep_script_state();
        self.forwarder().tick();
        // Connections that could not be accepted for want of descriptors are not announced again.
        let accepted = self.acceptor.look_again(self.store.mailboxes.workers());
        accepted.into_iter().for_each(|accepted| self.give_out(accepted));
        self.handshakes.tick(self.poll.registry());
        if let Some(reason) = self.log.starved_of_room() {
            self.multi_raft.fail_pending(&reason, &mut self.shell);
        }
        let bulk = Duration::from_micros(self.multi_raft.bulk_left_us(self.now));
        self.multi_raft.log_is_stuck(self.log.is_stuck(bulk));
        self.shell.peers.be_patient(!bulk.is_zero());
        self.multi_raft.tick(self.now, &mut self.shell);
        self.shell.peers.tick(self.now);
        self.pass_on();
        self.store.stats.tick(self.now.wall_ms);
        if self.index == 0 {
            self.store.log_threads.tick();
            self.store.spare_processors.tick(self.store.config.helper_threads());
            self.store.backups.sweep();
        }
        tick(&mut self.shell.clients, self.now.wall_ms);
    }

    fn finish(&mut self) {
        // What is under way is finished: the log threads outlive the workers.
        self.replies.finish(&mut self.shell.clients, self.poll.registry());
        // Connections that came back too late hold the node, which holds the mailbox.
        self.mailbox.take(&mut Vec::new());
        // Set apart for the last flush, so that the next start has nothing to replay.
        for shard in self.multi_raft.shards() {
            shard.seal();
        }
        self.store.stopping.store(true, Ordering::Release);
    }
}

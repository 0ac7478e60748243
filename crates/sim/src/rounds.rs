//! What happens on a node: an event comes to its core, what that asks for is done, and what must hold is checked.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::effects::Outbox;
use crate::event::{Event, NodeEvent, Place};
use crate::history::Answer;
use crate::schedule::MILLISECOND;
use crate::world::{Outcome, World, node_id, place_of};
use node::ArrivedSnapshot;
use node::control::report_members;
use node::core::TICK_MS;
use node::peer::{Order, PeerMessage};
use replica::{DiskState, LogStore, LogWrite};
use vocab::NodeId;

impl World {
    /// An event comes to a node that runs.
    pub(crate) fn deliver(&mut self, place: Place, event: NodeEvent) -> Outcome {
        let now = self.moment(place);
        let mut out = self.outbox(place);
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        match event {
            NodeEvent::Tick => return self.tick(place),
            NodeEvent::Message(from, bytes) => {
                let message = PeerMessage::decode(&bytes).map_err(|e| format!("a message cannot be read: {e}"))?;
                if is_for_shards(&message) {
                    self.bring(place, from, &message, &mut out)?;
                }
                if matches!(message, PeerMessage::Beat { .. }) || !is_for_shards(&message) {
                    self.receive_control(place, from, &message)?;
                }
            }
            NodeEvent::LinkUp(node) => self.linked(place, node)?,
            NodeEvent::LinkDown(node) => self.unlinked(place, node),
            NodeEvent::Written => self.written(place, &mut out)?,
            NodeEvent::Flush => self.flush(place),
            NodeEvent::Restart => {
                self.restart(place);
                return Ok(());
            }
            NodeEvent::Rows(task) => self.rows(place, *task)?,
            NodeEvent::RowsSent(shard, to, whole) => process.core.snapshot_sent(shard, to, whole),
            NodeEvent::Request(operation, request, since_us) => {
                self.request(place, operation, request, since_us.unwrap_or(now.mono_us), &mut out)?;
            }
            NodeEvent::RunRead(running) => self.run_read(place, *running),
            NodeEvent::ReadMade(running, reply) => self.read_made(place, *running, &reply)?,
            NodeEvent::Prefetch(prefetch) => self.prefetch(place, *prefetch),
            NodeEvent::Fork(fork) => self.fork(place, *fork),
            NodeEvent::Order(shard, order) => {
                self.bring(place, node_id(place), &PeerMessage::Order { shard, order }, &mut out)?;
            }
        }
        self.carry_out(place, out)?;
        self.round(place)
    }

    /// A message is for the core of a node.
    fn bring(&mut self, place: Place, from: NodeId, message: &PeerMessage, out: &mut Outbox) -> Outcome {
        let now = self.moment(place);
        let recovers = match message {
            PeerMessage::Order { shard, order: Order::Recover { .. } } => Some(*shard),
            _ => None,
        };
        let before = recovers.and_then(|shard| Some((shard, self.standing_at(place, shard)?)));
        if let Some(process) = &mut self.hosts[place].process {
            process.core.receive(from, message.clone(), now, out);
        }
        before.map_or(Ok(()), |(shard, before)| self.ordered_alone(place, shard, &before))
    }

    fn tick(&mut self, place: Place) -> Outcome {
        self.evict(place);
        let now = self.moment(place);
        let mut out = self.outbox(place);
        let interval = self.hosts[place].clock.until(TICK_MS * MILLISECOND);
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        process.core.tick(now, &mut out);
        // What was written without fsync is on the disk within 100 ms.
        let sync = !self.plan.sync && process.ticks.is_multiple_of(2) && process.health.state() == DiskState::Healthy;
        if sync && self.hosts[place].disk.log.sync().is_err() {
            self.poisoned(place);
        }
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        out.readable.extend(process.reads.keys().copied());
        self.later(interval, place, NodeEvent::Tick);
        self.carry_out(place, out)?;
        self.tick_control(place)?;
        self.round(place)
    }

    /// Runs the core until it has nothing to do but to wait.
    pub(crate) fn round(&mut self, place: Place) -> Outcome {
        let now = self.moment(place);
        let mut begun = false;
        loop {
            let mut out = self.outbox(place);
            let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
            // With a newer map, what is under way is let out first.
            let may_pump =
                process.writing.is_none() || (self.plan.overlap && process.next.is_none() && !process.behind);
            if may_pump && process.core.is_busy() {
                let mut write = LogWrite::default();
                let logging = process.core.pump(now, &mut write, &mut out);
                if write.is_empty() {
                    process.core.logged(&logging, &mut out);
                } else {
                    let idle = process.writing.is_none();
                    let slot = if idle { &mut process.writing } else { &mut process.next };
                    *slot = Some((write, logging));
                    begun |= idle;
                }
            }
            process.core.apply(now, &mut out);
            let waits = process.writing.is_some() && (!self.plan.overlap || process.next.is_some() || process.behind);
            let done = !process.core.is_busy() || waits;
            self.check(place)?;
            self.carry_out(place, out)?;
            if done {
                break;
            }
        }
        if begun {
            self.begin_write(place);
        }
        Ok(())
    }

    fn begin_write(&mut self, place: Place) {
        let usual = if self.plan.sync { self.prng.between(100, 3 * MILLISECOND) } else { self.prng.between(5, 200) };
        let delay = usual * (10 + self.hosts[place].disk.slowness) / 10;
        self.later(delay, place, NodeEvent::Written);
    }

    /// The log write under way is done, unless there is no room or the fsync fails.
    fn written(&mut self, place: Place, out: &mut Outbox) -> Outcome {
        let host = &mut self.hosts[place];
        let Some(process) = &mut host.process else { return Ok(()) };
        if host.disk.log.inner().is_full() {
            process.health.set_full("a simulated disk");
            process.core.fail_pending("disk full (a simulated disk)", out);
            self.later(100 * MILLISECOND, place, NodeEvent::Written);
            return Ok(());
        }
        process.health.set_room();
        let Some((write, logging)) = process.writing.take() else { return Ok(()) };
        let sync = write.wants_sync();
        let ops = write.ops().to_vec();
        match host.disk.log.write(write, sync) {
            Ok(()) => {
                // Only now: what a crash or a failed fsync takes was not acknowledged.
                for (shard, op) in &ops {
                    if let Some(replica) = process.core.shard(*shard).map(|shard| shard.replica().me()) {
                        self.groups.entry(*shard).or_default().wrote(replica, op)?;
                    }
                }
                process.core.logged(&logging, out);
                process.writing = process.next.take();
                if process.writing.is_some() {
                    self.begin_write(place);
                } else {
                    self.follow_map(place);
                }
            }
            Err(e) => {
                process.health.poison(&e.to_string());
                process.core.fail_pending(&e.to_string(), out);
                self.note(format_args!("node {} is poisoned", place + 1));
                self.restart_soon(place);
            }
        }
        Ok(())
    }

    /// Flushes the trees of a node, then drops what the log need not hold any more.
    fn flush(&mut self, place: Place) {
        let next = self.prng.between(1, 2 * self.plan.flush_every_ms) * MILLISECOND;
        self.later(next, place, NodeEvent::Flush);
        let host = &mut self.hosts[place];
        let Some(process) = &mut host.process else { return };
        if process.health.state() != DiskState::Healthy || process.writing.is_some() {
            return;
        }
        // A tree must not be ahead of its log.
        if host.disk.log.sync().is_err() {
            self.poisoned(place);
            return;
        }
        let mut write = LogWrite::default();
        for shard in process.core.shards_mut() {
            shard.seal();
            let engine = shard.view().engine();
            // Rows that a split has left behind go some time.
            let flushed = engine.flush().and_then(|()| if self.prng.happens(200) { engine.purge() } else { Ok(false) });
            match flushed.map(drop) {
                Ok(()) => _ = shard.truncate(&mut write),
                Err(storage::Error::Full { .. }) => process.health.set_full("a simulated disk"),
                Err(e) => process.health.poison(&e.to_string()),
            }
        }
        if process.health.state() == DiskState::Poisoned {
            self.restart_soon(place);
        } else if !write.is_empty() {
            process.writing = Some((write, Vec::new()));
            self.begin_write(place);
        }
    }

    /// An fsync has failed.
    fn poisoned(&mut self, place: Place) {
        if let Some(process) = &self.hosts[place].process {
            process.health.poison("a simulated fsync failed");
            self.restart_soon(place);
        }
    }

    /// All rows of a snapshot have come.
    fn rows(&mut self, place: Place, task: node::SnapshotTask) -> Outcome {
        let shard = task.shard;
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        let here = process.core.shard(shard).filter(|shard| shard.replica().me() == task.replica);
        let whole = here.is_some();
        if let Some(here) = here {
            let text = |e: storage::Error| format!("rows of a snapshot are refused: {e}");
            let mut ingest = here.view().engine().ingest().map_err(text)?;
            let all = storage::Span { start: vec![1], end: Vec::new() };
            for row in task.rows.iter(all, false) {
                let (key, value) = row.map_err(text)?;
                ingest.put(key, value).map_err(text)?;
            }
            let rows = ingest.finish(task.point.index, task.facts).map_err(text)?;
            let arrived = ArrivedSnapshot { rows, message: task.message, point: task.point };
            process.core.snapshot_arrived(shard, arrived);
            self.counts.snapshots += 1;
        }
        if let Some(from) = self.leader_place(shard) {
            let delay = self.prng.between(100, 5 * MILLISECOND);
            self.later(delay, from, NodeEvent::RowsSent(shard, task.replica, whole));
        }
        Ok(())
    }

    /// Does what the core of a node has asked for.
    pub(crate) fn carry_out(&mut self, place: Place, out: Outbox) -> Outcome {
        for (to, message) in out.messages {
            self.post(place, to, message);
        }
        for task in out.snapshots {
            self.send_rows(place, task);
        }
        for (handle, items) in out.prefetches {
            self.begin_prefetch(place, &handle, items);
        }
        for task in out.splits {
            self.begin_fork(place, task)?;
        }
        for (shard, index, members) in &out.members {
            self.removed(*shard, *index, members)?;
        }
        let members = out.members.iter().map(|(shard, index, members)| report_members(*shard, *index, members));
        let ended = out.ended.iter().map(|child| cluster::Change::EndSplit { child: *child });
        let changes = members.chain(ended).collect();
        self.spread(place, out.led, changes, out.map)?;
        for (ticket, reply) in out.answers {
            self.answered(place, &ticket, reply)?;
        }
        for shard in out.readable {
            let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
            for read in process.reads.remove(&shard).unwrap_or_default() {
                self.begin_read(place, read)?;
            }
        }
        Ok(())
    }

    /// The request was not done, and will not be.
    pub(crate) fn refuse(&mut self, operation: usize, leader: Option<NodeId>) {
        self.answer(operation, Answer::Refused, leader);
    }

    /// An answer goes to its client.
    pub(crate) fn answer(&mut self, operation: usize, answer: Answer, leader: Option<NodeId>) {
        if !self.healing && self.plan.faults.network && self.prng.happens(10) {
            return;
        }
        let client = self.history.operations()[operation].client;
        let delay = self.prng.between(50, 1000);
        self.schedule.after(delay, Event::Reply(client, operation, answer, leader));
    }

    /// A message goes out, through its bytes.
    pub(crate) fn post(&mut self, from: Place, to: NodeId, mut message: PeerMessage) {
        if self.bug == Some(Bug::TwistEntry)
            && let PeerMessage::Raft { message, .. } = &mut message
            && let Some(entry) = message.entries.iter_mut().find(|entry| entry.data.len() > 20)
            && self.prng.happens(2)
        {
            let mut data = entry.data.to_vec();
            data[4] ^= 1;
            entry.data = data.into();
        }
        let to = place_of(to);
        for delay in self.network.send(from, to).into_iter().flatten() {
            self.later(delay, to, NodeEvent::message(node_id(from), &message));
        }
    }

    fn send_rows(&mut self, from: Place, task: node::SnapshotTask) {
        let to = place_of(task.node);
        let (shard, replica) = (task.shard, task.replica);
        let takes = self.prng.between(1, if self.healing { 50 } else { 1000 }) * MILLISECOND;
        if self.network.send(from, to)[0].is_some() {
            self.later(takes, to, NodeEvent::Rows(Box::new(task)));
        } else {
            self.later(takes, from, NodeEvent::RowsSent(shard, replica, false));
        }
    }

    /// What must always hold of a node.
    fn check(&mut self, place: Place) -> Outcome {
        let host = &self.hosts[place];
        let Some(process) = &host.process else { return Ok(()) };
        for shard in process.core.shards() {
            // What was received and not yet looked at may contradict what follows from it.
            if !shard.replica().has_ready() {
                shard.validate();
            }
            let id = shard.view().id();
            let group = self.groups.entry(id).or_default();
            let terms = group.terms();
            group.did(id, shard.replica().me(), &shard.replica().status(), &*host.disk.log)?;
            self.counts.elections += group.terms() - terms;
        }
        Ok(())
    }
}

/// Whether replicas are to see it.
fn is_for_shards(message: &PeerMessage) -> bool {
    use PeerMessage::{Beat, Order, Propose, Raft, Rest, Wake};
    matches!(message, Raft { .. } | Order { .. } | Propose { .. } | Rest { .. } | Wake { .. } | Beat { .. })
}

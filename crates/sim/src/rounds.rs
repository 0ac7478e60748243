//! What happens on a node: an event comes to its core, what that asks for is done, and what must hold is checked.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::checkers::Outcome;
use crate::collection_serving::COLLECTIONS;
use crate::collections::CHANNEL;
use crate::effects::Outbox;
use crate::event::NodeEvent;
use crate::places::{Place, node_id, place_of};
use crate::schedule::MILLISECOND;
use crate::store::Store;
use crate::{collection_serving, control, message_serving, prefetch, reading, recovery, serving, splitting};
use node::ArrivedSnapshot;
use node::control::report_members;
use node::multi_raft::TICK_MS;
use node::peer_protocol::{Order, PeerMessage};
use replica::{DiskHealth, LogStore, LogWrite};
use vocab::NodeId;

/// An event comes to a node that runs.
pub fn deliver(store: &mut Store, place: Place, event: NodeEvent) -> Outcome {
    let now = store.moment(place);
    let mut out = prefetch::outbox(store, place);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    match event {
        NodeEvent::Tick => return tick(store, place),
        NodeEvent::Message(from, bytes) => {
            let message = PeerMessage::decode(&bytes).map_err(|e| format!("a message cannot be read: {e}"))?;
            if is_for_shards(&message) {
                bring(store, place, from, &message, &mut out)?;
            }
            if matches!(message, PeerMessage::Beat { .. }) || !is_for_shards(&message) {
                control::receive_control(store, place, from, &message)?;
            }
        }
        NodeEvent::LinkUp(node) => control::linked(store, place, node)?,
        NodeEvent::LinkDown(node) => control::unlinked(store, place, node),
        NodeEvent::Wire(node, number, news) => message_serving::news(store, place, node, number, news)?,
        NodeEvent::Messages(request) => message_serving::ask(store, place, *request)?,
        NodeEvent::Written => written(store, place, &mut out)?,
        NodeEvent::Flush => flush(store, place),
        NodeEvent::Restart => {
            store.restart(place);
            return Ok(());
        }
        NodeEvent::Rows(task) => rows(store, place, *task)?,
        NodeEvent::RowsSent(shard, to, whole) => process.core.snapshot_sent(shard, to, whole),
        NodeEvent::Request(operation, request, since_us) => {
            serving::request(store, place, operation, request, since_us.unwrap_or(now.mono_us), &mut out)?;
        }
        NodeEvent::Bulk(request) => serving::bulk(store, place, *request, &mut out)?,
        NodeEvent::Collection(request) => collection_serving::ask(store, place, *request, &mut out)?,
        NodeEvent::RunRead(running) => reading::run_read(store, place, *running),
        NodeEvent::ReadMade(running, reply) => reading::read_made(store, place, *running, reply)?,
        NodeEvent::Prefetch(prefetch) => prefetch::prefetch(store, place, *prefetch),
        NodeEvent::ApplyAside(task) => prefetch::apply_aside(store, place, *task),
        NodeEvent::AppliedAside(applied) => prefetch::applied_aside(store, place, *applied),
        NodeEvent::LogRead(read) => process.core.log_was_read(*read),
        NodeEvent::Fork(fork) => splitting::fork(store, place, *fork),
        NodeEvent::Order(shard, order) => {
            bring(store, place, node_id(place), &PeerMessage::Order { shard, order }, &mut out)?;
        }
    }
    carry_out(store, place, out)?;
    round(store, place)
}

/// A message is for the core of a node.
fn bring(store: &mut Store, place: Place, from: NodeId, message: &PeerMessage, out: &mut Outbox) -> Outcome {
    let now = store.moment(place);
    let recovers = match message {
        PeerMessage::Order { shard, order: Order::Recover { .. } } => Some(*shard),
        _ => None,
    };
    let before = recovers.and_then(|shard| Some((shard, recovery::standing_at(&store.nodes, place, shard)?)));
    if let Some(process) = &mut store.nodes[place].process {
        process.core.receive(from, message.clone(), now, out);
    }
    before.map_or(Ok(()), |(shard, before)| recovery::ordered_alone(store, place, shard, &before))
}

fn tick(store: &mut Store, place: Place) -> Outcome {
    prefetch::evict(store, place);
    let now = store.moment(place);
    let mut out = prefetch::outbox(store, place);
    let is_lacking = store.nodes[place].disk.lack().is_some();
    let interval = store.nodes[place].clock.until(TICK_MS * MILLISECOND);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    process.core.tick(now, &mut out);
    // What was written without fsync is on the disk within 100 ms.
    if !is_lacking {
        process.log.health().set_room();
        process.log.health().set_supplied();
    }
    let sync = !store.env.plan().sync && process.ticks.is_multiple_of(2) && process.log.is_healthy();
    if sync && store.nodes[place].disk.log.sync().is_err() {
        poisoned(store, place);
    }
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    out.readable.extend(process.reads.shards());
    out.answers.append(&mut process.dismissed.answers);
    store.env.later(interval, place, NodeEvent::Tick);
    carry_out(store, place, out)?;
    control::open_unopened(store, place);
    control::tick_control(store, place)?;
    message_serving::tick(store, place)?;
    round(store, place)
}

/// Runs the core until it has nothing to do but to wait.
pub fn round(store: &mut Store, place: Place) -> Outcome {
    let now = store.moment(place);
    let mut begun = false;
    loop {
        let mut out = prefetch::outbox(store, place);
        collection_serving::serve(store, place, &mut out)?;
        let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
        // With a newer map, what is under way is let out first.
        let overlaps = store.env.plan().overlap && !process.behind;
        if process.log.takes(overlaps) && process.core.is_busy() {
            let mut write = LogWrite::default();
            let logging = process.core.pump(now, &mut write, &mut out);
            if write.is_empty() {
                process.core.logged(&logging, &mut out);
            } else {
                if store.env.plan().has_good_clocks() {
                    store.checks.stamped(&write, store.env.wall_ms())?;
                }
                begun |= process.log.put((write, logging));
            }
        }
        let overlaps = store.env.plan().overlap && !process.behind;
        if !process.log.takes(overlaps) && !store.env.has(Bug::MuteLog) {
            process.core.pump_messages(&mut out);
        }
        process.core.apply(now, &mut out);
        let overlaps = store.env.plan().overlap && !process.behind;
        let goes_on = process.core.has_yielded() && !store.env.has(Bug::MuteLog);
        let done = !process.core.is_busy() || !(process.log.takes(overlaps) || goes_on);
        check(store, place)?;
        carry_out(store, place, out)?;
        if done {
            break;
        }
    }
    if begun {
        begin_write(store, place);
    }
    Ok(())
}

fn begin_write(store: &mut Store, place: Place) {
    let usual = if store.env.plan().sync { store.env.between(100, 3 * MILLISECOND) } else { store.env.between(5, 200) };
    let bytes = store.nodes[place].process.as_ref().map_or(0, |process| process.log.bytes());
    let takes = store.env.plan().bulk.map_or(0, |bulk| bytes as u64 * MILLISECOND / bulk.bytes_per_ms);
    let delay = takes + usual * (10 + store.nodes[place].disk.slowness) / 10;
    store.env.later(delay, place, NodeEvent::Written);
}

/// The log write under way is done, unless there is no room or the fsync fails.
fn written(store: &mut Store, place: Place, out: &mut Outbox) -> Outcome {
    let host = &mut store.nodes[place];
    let Some(process) = &mut host.process else { return Ok(()) };
    if let Some(lack) = host.disk.lack() {
        note_lack(process.log.health(), &lack, store.env.bug());
        let is_poisoned = process.log.is_poisoned();
        process.core.fail_pending(&process.log.health().reason(), out);
        store.env.later(100 * MILLISECOND, place, NodeEvent::Written);
        if is_poisoned {
            store.restart_soon(place);
        }
        return Ok(());
    }
    process.log.health().set_room();
    process.log.health().set_supplied();
    let Some((write, logging)) = process.log.take() else { return Ok(()) };
    let sync = write.wants_sync();
    let ops = write.ops().to_vec();
    match host.disk.log.write(write, sync) {
        Ok(()) => {
            // Only now: what a crash or a failed fsync takes was not acknowledged.
            for (shard, op) in &ops {
                if let Some(replica) = process.core.shard(*shard).map(|shard| shard.replica().me()) {
                    store.checks.group(*shard).wrote(replica, op)?;
                }
            }
            process.core.logged(&logging, out);
            if process.log.advance() {
                begin_write(store, place);
            } else {
                control::follow_map(store, place);
            }
        }
        Err(e) => {
            process.log.health().poison(&e.to_string());
            process.core.fail_pending(&e.to_string(), out);
            store.env.note(format_args!("node {} is poisoned", place + 1));
            store.restart_soon(place);
        }
    }
    Ok(())
}

/// Flushes the trees of a node, then drops what the log need not hold any more.
fn flush(store: &mut Store, place: Place) {
    let next = store.env.between(1, 2 * store.env.plan().flush_every_ms) * MILLISECOND;
    store.env.later(next, place, NodeEvent::Flush);
    let host = &mut store.nodes[place];
    let Some(process) = &mut host.process else { return };
    if !process.log.is_healthy() || !process.log.is_idle() {
        return;
    }
    // A tree must not be ahead of its log.
    if host.disk.log.sync().is_err() {
        poisoned(store, place);
        return;
    }
    let mut write = LogWrite::default();
    for shard in process.core.shards_mut() {
        shard.seal();
        let engine = shard.handle().engine();
        // Rows that a split has left behind go some time.
        let flushed = engine.flush().and_then(|()| if store.env.happens(200) { engine.purge() } else { Ok(false) });
        match flushed.map(drop) {
            Ok(()) => _ = shard.truncate(&mut write),
            Err(e) if e.is_passing() => note_lack(process.log.health(), &e, store.env.bug()),
            Err(e) => node::note_failure(shard.handle(), process.log.health(), &e),
        }
    }
    if process.log.is_poisoned() {
        store.restart_soon(place);
    } else if !write.is_empty() {
        process.log.put((write, Vec::new()));
        begin_write(store, place);
    }
}

/// There is no room, or descriptors or memory are short.
pub fn note_lack(health: &DiskHealth, lack: &storage::Error, bug: Option<Bug>) {
    if bug == Some(Bug::PoisonOnLack) && lack.is_passing() {
        health.poison(&lack.to_string());
    } else {
        node::note_lack(health, lack);
    }
}

/// An fsync has failed.
fn poisoned(store: &mut Store, place: Place) {
    if let Some(process) = &store.nodes[place].process {
        process.log.health().poison("a simulated fsync failed");
        store.restart_soon(place);
    }
}

/// All rows of a snapshot have come.
fn rows(store: &mut Store, place: Place, task: node::SnapshotTask) -> Outcome {
    let shard = task.shard;
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let here = process.core.shard(shard).filter(|shard| shard.replica().me() == task.replica);
    let text = |e: storage::Error| format!("rows of a snapshot are refused: {e}");
    let ingest = match here.map(|here| here.handle().engine().ingest()) {
        Some(Err(e)) if e.is_passing() => None,
        ingest => ingest.transpose().map_err(text)?,
    };
    let whole = ingest.is_some();
    if let Some(mut ingest) = ingest {
        let all = storage::Span { start: vec![1], end: Vec::new() };
        for row in task.rows.iter(all, false) {
            let (key, value) = row.map_err(text)?;
            ingest.put(key, value).map_err(text)?;
        }
        let rows = ingest.finish(task.point.index, task.facts).map_err(text)?;
        let arrived = ArrivedSnapshot { rows, message: task.message, point: task.point };
        process.core.snapshot_arrived(shard, arrived);
        store.env.counts.snapshots += 1;
    }
    if let Some(from) = store.nodes.leader_place(shard) {
        let delay = store.env.between(100, 5 * MILLISECOND);
        store.env.later(delay, from, NodeEvent::RowsSent(shard, task.replica, whole));
    }
    Ok(())
}

/// Does what the core of a node has asked for.
pub fn carry_out(store: &mut Store, place: Place, out: Outbox) -> Outcome {
    for (to, message) in out.messages {
        store.env.post(place, to, message);
    }
    for task in out.snapshots {
        send_rows(store, place, task);
    }
    for (handle, items) in out.prefetches {
        prefetch::begin_prefetch(store, place, &handle, items);
    }
    for task in out.asides {
        prefetch::begin_aside(store, place, task);
    }
    for read in out.log_reads {
        prefetch::begin_log_read(store, place, read);
    }
    for task in out.splits {
        splitting::begin_fork(store, place, task)?;
    }
    for (shard, index, members) in &out.members {
        let (nodes, now) = (&store.nodes, store.env.now());
        store.checks.members_changed(*shard, *index, members, |node| nodes.is_known_down(node, now))?;
    }
    let members = out.members.iter().map(|(shard, index, members)| report_members(*shard, *index, members));
    let ended = out.ended.iter().map(|child| cluster::Change::EndSplit { child: *child });
    let changes = members.chain(ended).collect();
    control::spread(store, place, out.led, changes, out.map)?;
    for published in out.published.iter().filter(|published| published.channel == CHANNEL) {
        store.checks.published(&published.message);
    }
    let mut news = out.wait_news.into_iter().peekable();
    for (at, (ticket, reply)) in out.answers.into_iter().enumerate() {
        while let Some((_, news)) = news.next_if(|(after, _)| *after <= at) {
            collection_serving::hear(store, place, news);
        }
        if ticket.connection >= COLLECTIONS {
            collection_serving::answered(store, place, &ticket, reply)?;
        } else {
            serving::answered(store, place, &ticket, reply)?;
        }
    }
    news.for_each(|(_, news)| collection_serving::hear(store, place, news));
    for shard in out.readable {
        let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
        for read in process.reads.wake(shard) {
            reading::begin_read(store, place, read)?;
        }
    }
    Ok(())
}

fn send_rows(store: &mut Store, from: Place, task: node::SnapshotTask) {
    let to = place_of(task.node);
    let (shard, replica) = (task.shard, task.replica);
    let takes = store.env.between(1, if store.env.is_healing() { 50 } else { 1000 }) * MILLISECOND;
    if store.env.carries(from, to) {
        store.env.later(takes, to, NodeEvent::Rows(Box::new(task)));
    } else {
        store.env.later(takes, from, NodeEvent::RowsSent(shard, replica, false));
    }
}

/// What must always hold of a node.
fn check(store: &mut Store, place: Place) -> Outcome {
    let host = &store.nodes[place];
    let Some(process) = &host.process else { return Ok(()) };
    for shard in process.core.shards() {
        // What was received and not yet looked at may contradict what follows from it.
        if !shard.replica().has_ready() {
            shard.validate();
        }
        let id = shard.handle().id();
        let group = store.checks.group(id);
        let terms = group.terms();
        group.did(id, shard.replica().me(), &shard.replica().status(), &*host.disk.log)?;
        let elections = group.terms() - terms;
        store.env.counts.elections += elections;
        // A part that was split off has its first elections.
        let is_part = store.checks.splits().origin(id).is_some();
        if elections > 0 && store.is_calm() && !is_part && !store.env.was_handed_over(id) {
            return Err(format!("shard {id} has an election, and nothing but bulk is there to cause it"));
        }
    }
    Ok(())
}

/// Whether replicas are to see it.
fn is_for_shards(message: &PeerMessage) -> bool {
    use PeerMessage::{Beat, Hibernate, Order, Propose, Raft, Wake};
    matches!(message, Raft { .. } | Order { .. } | Propose { .. } | Hibernate { .. } | Wake { .. } | Beat { .. })
}

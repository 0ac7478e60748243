//! A node's dealings with the store as a whole: its control, the map that it has, and what it knows of leaders. What a
//! server's worker does with them, done here.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::checkers::Outcome;
use crate::places::{Place, node_id};
use crate::store::Store;
use crate::wall_clocks;
use crate::{message_serving, report};
use cluster::{Change, Map, MapUpdate};
use node::control::Action;
use node::control::reconcile::lacks_replicas;
use node::peer_protocol::{NodeReport, PeerMessage};
use replica::LogStore;
use std::collections::BTreeSet;
use std::sync::Arc;
use vocab::{NodeId, ReplicaId, ShardId};

/// Ticks between two reports.
const REPORT_TICKS: u64 = 10;

/// 50 ms have passed for a node's control.
pub fn tick_control(store: &mut Store, place: Place) -> Outcome {
    let raw = store.raw_moment(place);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let mut actions = Vec::new();
    let led = led(&process.core);
    process.control.tick(raw, &led, &mut actions);
    process.ticks += 1;
    let ticks = process.ticks;
    act(store, place, actions)?;
    store.check_time(place)?;
    if ticks.is_multiple_of(REPORT_TICKS) {
        look_for_lacking(store, place);
        send_report(store, place)?;
    }
    Ok(())
}

/// A node reports to the director.
fn send_report(store: &mut Store, place: Place) -> Outcome {
    let report = report::of(&store.nodes[place], store.moment(place));
    let read = NodeReport::decode(&report.encode());
    if read.as_ref() != Ok(&report) {
        return Err(format!("a report is read as another one: {report:?}, {read:?}"));
    }
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let mut actions = Vec::new();
    process.control.reported(report, process.leaders.of(ShardId::META), &mut actions);
    act(store, place, actions)
}

/// A message that is not for one shard.
pub fn receive_control(store: &mut Store, place: Place, from: NodeId, message: &PeerMessage) -> Outcome {
    let raw = store.raw_moment(place);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let mut actions = Vec::new();
    match message {
        PeerMessage::Leading { shards, .. } => {
            for (shard, term) in shards {
                process.leaders.learn(*shard, Some(from), *term);
            }
            message_serving::evict(store, place);
        }
        other => process.control.receive(from, other, raw, &mut actions),
    }
    act(store, place, actions)
}

/// A node can be talked to.
pub fn linked(store: &mut Store, place: Place, node: NodeId) -> Outcome {
    let now = store.moment(place);
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    process.core.heard(node, now);
    let mut actions = Vec::new();
    process.control.linked(node, true, &mut actions);
    actions.push(Action::Send(Some(node), PeerMessage::Leading { full: true, shards: led(&process.core) }));
    act(store, place, actions)
}

/// A node cannot be talked to.
pub fn unlinked(store: &mut Store, place: Place, node: NodeId) {
    let Some(process) = &mut store.nodes[place].process else { return };
    process.leaders.lost(node);
    process.core.link_down(node);
}

/// What a round has told of leaders, members and the map.
pub fn spread(
    store: &mut Store,
    place: Place,
    leaders: Vec<(ShardId, Option<NodeId>, u64)>,
    changes: Vec<Change>,
    update: Option<MapUpdate>,
) -> Outcome {
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let mut actions = Vec::new();
    let mut mine = Vec::new();
    let has_news = !leaders.is_empty();
    for (shard, leader, term) in leaders {
        if process.leaders.learn(shard, leader, term) && leader == Some(node_id(place)) {
            mine.push((shard, term));
        }
    }
    if !mine.is_empty() {
        actions.push(Action::Send(None, PeerMessage::Leading { full: false, shards: mine }));
    }
    actions.extend(changes.into_iter().map(Action::Propose));
    if let Some(update) = update {
        let map = update.map.clone();
        process.control.map_applied(update, &mut actions);
        made(store, &map)?;
    }
    if has_news {
        message_serving::evict(store, place);
    }
    act(store, place, actions)
}

/// The metadata group has made a map, or a first one was drawn.
fn made(store: &mut Store, map: &Arc<Map>) -> Outcome {
    if store.checks.made(map, store.env.now())? {
        store.env.counts.changes += 1;
        store.env.note(format_args!("map {} is made", map.epoch));
        wall_clocks::keep_most_right(store, map);
    }
    Ok(())
}

/// Does what a node's control asks for.
pub fn act(store: &mut Store, place: Place, actions: Vec<Action>) -> Outcome {
    for action in actions {
        match action {
            Action::Send(Some(to), message) => store.env.post(place, to, message),
            Action::Send(None, message) => {
                for to in (0..store.env.plan().nodes).filter(|to| *to != place) {
                    store.env.post(place, node_id(to), message.clone());
                }
            }
            Action::Order { .. } if store.env.has(Bug::DropOrders) => {}
            Action::Order { node, shard, order } => store.env.tell(place, node, PeerMessage::Order { shard, order }),
            // Every node can find every other.
            Action::Know(_) | Action::Forget(_) => {}
            Action::Propose(change) => propose(store, place, &change)?,
            Action::Adopt(update) => {
                let map = update.map.clone();
                if !store.nodes[place].keep(&update) {
                    store.env.note(format_args!("node {} cannot keep map {}", place + 1, map.epoch));
                    return Ok(());
                }
                made(store, &map)?;
                store.env.note(format_args!("node {} has map {}", place + 1, map.epoch));
                message_serving::evict(store, place);
                follow_map(store, place);
            }
        }
    }
    Ok(())
}

/// Brings a change of the map to the metadata group's leader, as far as the node knows it.
pub fn propose(store: &mut Store, place: Place, change: &Change) -> Outcome {
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let Some(leader) = process.leaders.of(ShardId::META) else { return Ok(()) };
    store.env.tell(place, leader, PeerMessage::Propose { change: change.encode() });
    Ok(())
}

/// A node does what its newest map says, unless a log write is under way.
pub fn follow_map(store: &mut Store, place: Place) {
    let (now, seed) = (store.moment(place), store.env.seed());
    if store.nodes[place].process.as_ref().is_none_or(|process| !process.log.is_idle()) {
        return;
    }
    let before = open_replicas(store, place);
    store.nodes[place].follow_map(now, seed, store.env.plan().keep_bytes);
    replicas_opened(store, place, &before);
}

/// The replicas that a node has open.
fn open_replicas(store: &Store, place: Place) -> BTreeSet<(ShardId, ReplicaId)> {
    let shards = store.nodes[place].process.iter().flat_map(|process| process.core.shards());
    shards.map(|shard| (shard.handle().id(), shard.replica().me())).collect()
}

/// Replicas of a node that are open, and were not `before`, are new to the checkers.
pub fn replicas_opened(store: &mut Store, place: Place, before: &BTreeSet<(ShardId, ReplicaId)>) {
    let open = open_replicas(store, place);
    if open == *before {
        return;
    }
    for replica in open.difference(before) {
        replica_opened(store, place, *replica);
    }
    let Some(process) = &store.nodes[place].process else { return };
    for ((shard, _), why) in &process.refused {
        store.env.note(format_args!("node {} shard {shard} is refused: {why}", place + 1));
    }
}

/// A replica is new to the checkers. To be called as it is opened: later it knows of entries that it need not show yet.
pub fn replica_opened(store: &mut Store, place: Place, (shard, replica): (ShardId, ReplicaId)) {
    let state = store.nodes[place].disk.log.state(shard).ok().flatten();
    let committed = state.map_or(0, |state| state.hard_state.commit);
    store.checks.opened(place, store.env.life(place), shard, replica, committed);
}

/// Replicas that could not be opened for want of descriptors or memory are opened once there are some.
pub fn open_unopened(store: &mut Store, place: Place) {
    let host = &mut store.nodes[place];
    let Some(process) = &mut host.process else { return };
    if process.unopened && host.disk.lack().is_none() {
        process.unopened = false;
        follow_map(store, place);
    }
}

/// A node looks whether the map gives it a replica that is to come by itself and cannot any more.
fn look_for_lacking(store: &mut Store, place: Place) {
    let Some(process) = &mut store.nodes[place].process else { return };
    let Some(map) = process.map.clone() else { return };
    let has = |shard: ShardId, replica: ReplicaId| {
        process.core.shard(shard).is_some()
            || process.refused.contains_key(&(shard, replica))
            || process.forks.contains(&shard)
    };
    let lacks = lacks_replicas(&map, node_id(place), has);
    if lacks {
        process.behind = true;
        follow_map(store, place);
    }
}

fn led(core: &node::multi_raft::MultiRaft) -> Vec<(ShardId, u64)> {
    let led = core.shards().filter(|shard| shard.handle().serving());
    led.map(|shard| (shard.handle().id(), shard.handle().status().term)).collect()
}

//! A node's dealings with the store as a whole: its control, the map that it has, and what it knows of leaders. What a
//! server's worker does with them, done here.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::event::{NodeEvent, Place};
use crate::schedule::MILLISECOND;
use crate::world::{Outcome, World, node_id, place_of};
use cluster::{Change, Map, Routes};
use node::control::Action;
use node::director::NodeReport;
use node::peer::PeerMessage;
use std::sync::Arc;
use vocab::{NodeId, ReplicaId, ShardId};

/// Ticks between two reports.
const REPORT_TICKS: u64 = 10;

impl World {
    /// 50 ms have passed for a node's control.
    pub(crate) fn tick_control(&mut self, place: Place) -> Outcome {
        let raw = self.raw_moment(place);
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        let mut actions = Vec::new();
        let led = led(&process.core);
        process.control.tick(raw, &led, &mut actions);
        process.ticks += 1;
        let ticks = process.ticks;
        self.act(place, actions)?;
        self.check_time(place)?;
        if ticks.is_multiple_of(REPORT_TICKS) {
            self.look_for_lacking(place);
            self.report(place)?;
        }
        Ok(())
    }

    /// A node reports to the director.
    fn report(&mut self, place: Place) -> Outcome {
        let report = self.hosts[place].report(self.moment(place));
        let read = NodeReport::decode(&report.encode());
        if read.as_ref() != Ok(&report) {
            return Err(format!("a report is read as another one: {report:?}, {read:?}"));
        }
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        let mut actions = Vec::new();
        process.control.reported(report, process.leaders.of(ShardId::META), &mut actions);
        self.act(place, actions)
    }

    /// Sends a message to a node, which may be this one.
    fn tell(&mut self, place: Place, to: NodeId, message: PeerMessage) {
        if place_of(to) == place {
            self.later(0, place, NodeEvent::message(to, &message));
        } else {
            self.post(place, to, message);
        }
    }

    /// A message that is not for one shard.
    pub(crate) fn receive_control(&mut self, place: Place, from: NodeId, message: &PeerMessage) -> Outcome {
        let raw = self.raw_moment(place);
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        let mut actions = Vec::new();
        match message {
            PeerMessage::Leading { shards, .. } => {
                for (shard, term) in shards {
                    process.leaders.learn(*shard, Some(from), *term);
                }
            }
            other => process.control.receive(from, other, raw, &mut actions),
        }
        self.act(place, actions)
    }

    /// A node has been started: it and the others find each other.
    pub(crate) fn link_up(&mut self, place: Place) {
        for other in (0..self.plan.nodes).filter(|other| *other != place) {
            let delay = self.prng.between(1, 50) * MILLISECOND;
            if self.hosts[other].process.is_some() {
                self.later(delay, other, NodeEvent::LinkUp(node_id(place)));
                self.later(delay, place, NodeEvent::LinkUp(node_id(other)));
            }
        }
    }

    /// A node is gone: the others notice.
    pub(crate) fn link_down(&mut self, place: Place) {
        let id = node_id(place);
        for other in (0..self.plan.nodes).filter(|other| *other != place) {
            let delay = self.prng.between(1, 100) * MILLISECOND;
            self.later(delay, other, NodeEvent::LinkDown(id));
        }
    }

    /// A node can be talked to.
    pub(crate) fn linked(&mut self, place: Place, node: NodeId) -> Outcome {
        let now = self.moment(place);
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        process.core.heard(node, now);
        let mut actions = Vec::new();
        process.control.linked(node, None, &mut actions);
        actions.push(Action::Send(Some(node), PeerMessage::Leading { full: true, shards: led(&process.core) }));
        self.act(place, actions)
    }

    /// A node cannot be talked to.
    pub(crate) fn unlinked(&mut self, place: Place, node: NodeId) {
        let Some(process) = &mut self.hosts[place].process else { return };
        process.leaders.lost(node);
        process.core.link_down(node);
    }

    /// What a round has told of leaders, members and the map.
    pub(crate) fn spread(
        &mut self,
        place: Place,
        leaders: Vec<(ShardId, Option<NodeId>, u64)>,
        changes: Vec<Change>,
        map: Option<Arc<Map>>,
    ) -> Outcome {
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        let mut actions = Vec::new();
        let mut mine = Vec::new();
        for (shard, leader, term) in leaders {
            if process.leaders.learn(shard, leader, term) && leader == Some(node_id(place)) {
                mine.push((shard, term));
            }
        }
        if !mine.is_empty() {
            actions.push(Action::Send(None, PeerMessage::Leading { full: false, shards: mine }));
        }
        actions.extend(changes.into_iter().map(Action::Propose));
        if let Some(map) = map {
            process.control.map_applied(&map, &mut actions);
            self.made(&map)?;
        }
        self.act(place, actions)
    }

    /// The metadata group has made a map, or a first one was drawn.
    fn made(&mut self, map: &Arc<Map>) -> Outcome {
        self.maps.saw(map)?;
        if self.map.as_ref().is_none_or(|known| known.epoch < map.epoch) {
            self.counts.changes += 1;
            self.routes = Some(Routes::from(&**map));
            self.map = Some(map.clone());
            self.note(format_args!("map {} is made", map.epoch));
        }
        Ok(())
    }

    pub(crate) fn act(&mut self, place: Place, actions: Vec<Action>) -> Outcome {
        for action in actions {
            match action {
                Action::Send(Some(to), message) => self.post(place, to, message),
                Action::Send(None, message) => {
                    for to in (0..self.plan.nodes).filter(|to| *to != place) {
                        self.post(place, node_id(to), message.clone());
                    }
                }
                Action::Order { .. } if self.bug == Some(Bug::DropOrders) => {}
                Action::Order { node, shard, order } => self.tell(place, node, PeerMessage::Order { shard, order }),
                // Everybody can find everybody.
                Action::Know(_) => {}
                Action::Propose(change) => self.propose(place, &change)?,
                Action::Adopt(map) => {
                    if !self.hosts[place].keep(&map) {
                        self.note(format_args!("node {} cannot keep map {}", place + 1, map.epoch));
                        return Ok(());
                    }
                    self.made(&map)?;
                    self.note(format_args!("node {} has map {}", place + 1, map.epoch));
                    self.follow_map(place);
                }
            }
        }
        Ok(())
    }

    /// Brings a change of the map to the metadata group's leader, as far as the node knows it.
    pub(crate) fn propose(&mut self, place: Place, change: &Change) -> Outcome {
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        let Some(leader) = process.leaders.of(ShardId::META) else { return Ok(()) };
        self.tell(place, leader, PeerMessage::Propose { change: change.encode() });
        Ok(())
    }

    /// A node does what its newest map says, unless a log write is under way.
    pub(crate) fn follow_map(&mut self, place: Place) {
        let (now, seed) = (self.moment(place), self.prng.next_u64());
        let host = &mut self.hosts[place];
        let Some(process) = &host.process else { return };
        if process.writing.is_some() {
            return;
        }
        let before: Vec<ReplicaId> = process.core.shards().map(|shard| shard.replica().me()).collect();
        host.follow_map(now, seed, self.plan.keep_bytes);
        let Some(process) = &host.process else { return };
        if process.core.shards().map(|shard| shard.replica().me()).ne(before) {
            self.began(place);
        }
    }
}

fn led(core: &node::core::Core) -> Vec<(ShardId, u64)> {
    let led = core.shards().filter(|shard| shard.view().serving());
    led.map(|shard| (shard.view().id(), shard.view().status().term)).collect()
}

//! How a node comes to belong to a store, learns the map, and makes itself known: what one worker of each node does.
//!
//! A node without a store tells every node that it can reach that it wants to join. The one that was told to make the
//! store (`init`) waits until enough have joined, draws the first map and gives it to each of them until all have kept
//! it. Afterwards a node that joins is entered into the map by the metadata group. Maps spread by being asked for.

pub mod reconcile;
#[cfg(test)]
mod tests;

use crate::clock_keeper::ClockKeeper;
use crate::director::{Director, DirectorAction, NodeReport, StorePicture};
use crate::peer::{Order, PeerMessage};
use crate::store_clock::StoreClock;
use cluster::{Change, Map, NodeInfo};
use replica::Members;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vocab::{Moment, NodeId, Prng, ShardId, StoreId};

/// Ticks between two beats.
const BEAT_TICKS: u64 = 4;
/// Ticks between two looks of the director.
const DIRECT_TICKS: u64 = 4;
/// Ticks between two tries of what may have been lost.
const RETRY_TICKS: u64 = 20;

/// What the shell is to do.
#[derive(Debug)]
pub enum Action {
    /// Send a message; to every node that can be reached if none is named.
    Send(Option<NodeId>, PeerMessage),
    /// Keep this map, and open the replicas that it gives this node. If it cannot be kept, [`Control::not_kept`] is to be
    /// told, and none of the actions that come after this one may be done: they may tell others of the map.
    Adopt(Arc<Map>),
    /// Bring a change to the metadata group's leader.
    Propose(Change),
    /// Tell a shard's replica on that node, which may be this one, what to do.
    Order {
        /// The node.
        node: NodeId,
        /// The shard.
        shard: ShardId,
        /// What.
        order: Order,
    },
    /// Keep a link to that node.
    Know(NodeInfo),
}

/// What the store is to be like when this node makes it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Data shards.
    pub shards: u32,
    /// Replicas of each.
    pub replication_factor: u32,
}

/// What the map is told of a shard's members, as of an entry of its log. Of a joint configuration, either half's voters are
/// members: the one that goes is needed until the group has left it.
#[must_use]
pub fn report_members(shard: ShardId, index: u64, members: &Members) -> Change {
    let mut voters = members.voters.clone();
    voters.extend(members.voters_outgoing.iter().filter(|id| !members.voters.contains(id)));
    Change::SetReplicas { shard, members_index: index, voters, learners: members.learners.clone() }
}

/// One node's part in the control of the store. Pure: told of time and messages, it answers actions.
pub struct Control {
    me: NodeInfo,
    shape: Shape,
    map: Option<Arc<Map>>,
    /// A map that could not be kept, and is tried again.
    unkept: Option<Arc<Map>>,
    /// Nodes that want to join, as they say of themselves.
    joiners: BTreeMap<NodeId, NodeInfo>,
    init: bool,
    /// Nodes that have not yet kept the first map.
    unsure: BTreeSet<NodeId>,
    prng: Prng,
    ticks: u64,
    /// The time of the last tick.
    now: Moment,
    /// While this node leads the metadata group: what makes plans happen.
    director: Option<Director>,
    clock: ClockKeeper,
}

impl Control {
    /// The control of a node that has this map, if any. It keeps `clock` by what other nodes' clocks show.
    #[must_use]
    pub fn new(me: NodeInfo, shape: Shape, map: Option<Arc<Map>>, clock: Arc<StoreClock>, seed: u64) -> Self {
        let init = false;
        let (joiners, unsure, prng) = (BTreeMap::new(), BTreeSet::new(), Prng::new(seed));
        let (now, director, unkept) = (Moment::default(), None, None);
        let clock = ClockKeeper::new(clock);
        let mut control = Self { me, shape, map, unkept, joiners, init, unsure, prng, ticks: 0, now, director, clock };
        // It may have ended before all the others had kept the first map.
        control.unsure = control.others();
        control
    }

    /// The newest map.
    #[must_use]
    pub fn map(&self) -> Option<&Arc<Map>> {
        self.map.as_ref()
    }

    /// This node is to make the store. `Err` if it belongs to one already.
    pub fn init(&mut self) -> Result<(), String> {
        if let Some(map) = &self.map {
            return Err(format!("this node belongs to the store {} already", map.store));
        }
        self.init = true;
        Ok(())
    }

    /// Nodes that have said that they want to join this one, and how many are needed.
    #[must_use]
    pub fn waits_for(&self) -> (usize, usize) {
        (self.joiners.len() + 1, self.shape.replication_factor as usize)
    }

    /// A link to a node is up.
    pub fn linked(&mut self, node: NodeId, info: Option<NodeInfo>, actions: &mut Vec<Action>) {
        let _ = info;
        match &self.map {
            Some(map) => actions.push(Action::Send(Some(node), PeerMessage::MapAsked { epoch: map.epoch.0 })),
            None => actions.push(Action::Send(Some(node), self.join())),
        }
    }

    /// 50 ms have passed. `raw`: what the machine's own clocks show. `led`: the terms of the shards that this node leads.
    pub fn tick(&mut self, raw: Moment, led: &[(ShardId, u64)], actions: &mut Vec<Action>) {
        self.ticks += 1;
        self.now = self.clock.tick(raw, self.map.as_ref().map_or(1, |map| map.nodes.len()));
        self.direct(led, actions);
        if self.ticks.is_multiple_of(BEAT_TICKS) {
            let beat = PeerMessage::Beat { sent_us: raw.mono_us, wall_ms: raw.wall_ms };
            actions.push(Action::Send(None, beat));
        }
        if self.init && self.map.is_none() && self.unkept.is_none() {
            self.try_init(actions);
        }
        if self.ticks % RETRY_TICKS == RETRY_TICKS / 2
            && let Some(map) = self.unkept.take()
            && self.is_newer(&map)
        {
            self.adopt(map, actions);
        }
        if !self.ticks.is_multiple_of(RETRY_TICKS) {
            return;
        }
        let Some(map) = self.map.clone() else {
            actions.push(Action::Send(None, self.join()));
            return;
        };
        actions.push(Action::Send(None, PeerMessage::MapAsked { epoch: map.epoch.0 }));
        actions.push(Action::Send(None, PeerMessage::Leading { full: true, shards: led.to_vec() }));
        if map.epoch.0 == 1 {
            for node in &self.unsure {
                actions.push(Action::Send(Some(*node), PeerMessage::Bootstrap { map: map.encode() }));
            }
        }
        self.enter_joiners(&map, actions);
        if let Some(known) = map.nodes.get(&self.me.id) {
            // Its zone and its capacity are the operators' from the moment it joins: they change them by plans.
            let now = NodeInfo { zone: known.zone.clone(), capacity: known.capacity, ..self.me.clone() };
            if *known != now {
                actions.push(Action::Propose(Change::UpdateNode { was: known.clone(), now }));
            }
        }
    }

    /// The store as a whole, if this node directs it.
    #[must_use]
    pub fn picture(&self) -> Option<StorePicture> {
        Some(self.director.as_ref()?.picture(self.map.as_deref()?, self.now))
    }

    /// This node's report to the leader of the metadata group, sent about twice a second.
    pub fn reported(&mut self, report: NodeReport, meta: Option<NodeId>, actions: &mut Vec<Action>) {
        let (me, now) = (self.me.id, self.now);
        match (&mut self.director, meta) {
            (Some(director), _) => director.report(me, report, now),
            (None, Some(node)) if node != me => {
                actions.push(Action::Send(Some(node), PeerMessage::Report(report.encode())));
            }
            _ => {}
        }
    }

    /// The director's part, while this node leads the metadata group. It begins anew with every term.
    fn direct(&mut self, led: &[(ShardId, u64)], actions: &mut Vec<Action>) {
        if !led.iter().any(|(shard, _)| *shard == ShardId::META) {
            self.director = None;
            return;
        }
        let director = self.director.get_or_insert_default();
        director.heard(self.me.id, self.now);
        if self.ticks.is_multiple_of(DIRECT_TICKS) {
            self.look(actions);
        }
    }

    fn look(&mut self, actions: &mut Vec<Action>) {
        let (Some(director), Some(map)) = (&mut self.director, &self.map) else { return };
        actions.extend(director.tick(self.now, map).into_iter().map(|action| match action {
            DirectorAction::Propose(change) => Action::Propose(change),
            DirectorAction::Order { node, shard, order } => Action::Order { node, shard, order },
        }));
    }

    /// A message of another node that is about the store as a whole. `raw`: what the machine's own clocks show.
    pub fn receive(&mut self, from: NodeId, message: &PeerMessage, raw: Moment, actions: &mut Vec<Action>) {
        if let Some(director) = &mut self.director {
            director.heard(from, self.now);
        }
        match message {
            PeerMessage::Report(bytes) => match (NodeReport::decode(bytes), &mut self.director) {
                (Ok(report), Some(director)) => director.report(from, report, self.now),
                (Err(e), _) => log::warn!("node {from} sent a report that cannot be read: {e}"),
                _ => {}
            },
            PeerMessage::Join { node } => self.joins(from, node, actions),
            PeerMessage::Bootstrap { map } => self.bootstrap(from, map, actions),
            PeerMessage::BootstrapDone { store } => {
                let mine = self.map.as_ref().is_some_and(|map| map.store.0 == *store);
                if mine {
                    self.unsure.remove(&from);
                }
            }
            PeerMessage::MapAsked { epoch } => {
                // Also to one that the map has forgotten: so it learns that it holds nothing any more.
                if let Some(map) = &self.map
                    && map.epoch.0 > *epoch
                    && (map.nodes.contains_key(&from) || *epoch > 0)
                {
                    actions.push(Action::Send(Some(from), PeerMessage::Map(map.encode())));
                }
            }
            PeerMessage::Map(bytes) => match Map::decode(bytes) {
                Ok(map) => self.offered(from, map, actions),
                Err(e) => log::warn!("node {from} sent a map that cannot be read: {e}"),
            },
            PeerMessage::Beat { sent_us, .. } => {
                let answer = PeerMessage::BeatAnswer { sent_us: *sent_us, wall_ms: raw.wall_ms };
                actions.push(Action::Send(Some(from), answer));
            }
            PeerMessage::BeatAnswer { sent_us, wall_ms } => self.clock.answered(from, *sent_us, *wall_ms, raw),
            _ => {}
        }
    }

    /// The metadata group's replica on this node has applied a newer map.
    pub fn map_applied(&mut self, map: &Arc<Map>, actions: &mut Vec<Action>) {
        if self.is_newer(map) {
            self.adopt(map.clone(), actions);
            // Others need not wait until they ask.
            actions.push(Action::Send(None, PeerMessage::Map(map.encode())));
            self.look(actions);
        }
    }

    fn join(&self) -> PeerMessage {
        let mut node = Vec::new();
        self.me.encode(&mut node);
        PeerMessage::Join { node }
    }

    fn others(&self) -> BTreeSet<NodeId> {
        let nodes = self.map.iter().flat_map(|map| map.nodes.keys().copied());
        nodes.filter(|node| *node != self.me.id).collect()
    }

    fn joins(&mut self, from: NodeId, node: &[u8], actions: &mut Vec<Action>) {
        let info = match NodeInfo::decode(node) {
            Ok(info) if info.id == from => info,
            Ok(_) => return log::warn!("node {from} wants to join in another's name"),
            Err(e) => return log::warn!("node {from} wants to join and says who it is wrongly: {e}"),
        };
        actions.push(Action::Know(info.clone()));
        if let Some(map) = &self.map
            && map.nodes.contains_key(&from)
        {
            actions.push(Action::Send(Some(from), PeerMessage::Map(map.encode())));
            return;
        }
        if self.joiners.len() < vocab::limits::NODES_MAX || self.joiners.contains_key(&from) {
            self.joiners.insert(from, info);
        }
    }

    fn try_init(&mut self, actions: &mut Vec<Action>) {
        let (have, need) = self.waits_for();
        if have < need {
            return;
        }
        let mut nodes: Vec<NodeInfo> = self.joiners.values().cloned().collect();
        nodes.push(self.me.clone());
        let store = StoreId(self.prng.next_u64() >> 1 | 1);
        match Map::initial(store, &nodes, self.shape.shards, self.shape.replication_factor) {
            Ok(map) => {
                log::info!("making the store {store} of {have} nodes, {} shards", self.shape.shards);
                self.adopt(Arc::new(map), actions);
                self.joiners.clear();
                self.unsure = self.others();
                let map = self.map.iter().map(|map| map.encode()).next().unwrap_or_default();
                for node in &self.unsure {
                    actions.push(Action::Send(Some(*node), PeerMessage::Bootstrap { map: map.clone() }));
                }
            }
            Err(e) => {
                log::error!("the store cannot be made: {e}");
                self.init = false;
            }
        }
    }

    fn bootstrap(&mut self, from: NodeId, bytes: &[u8], actions: &mut Vec<Action>) {
        let map = match Map::decode(bytes) {
            Ok(map) => map,
            Err(e) => return log::warn!("node {from} sent a first map that cannot be read: {e}"),
        };
        let store = map.store;
        match &self.map {
            Some(mine) if mine.store != store => {
                log::debug!("node {from} makes a store {store}, but this node belongs to {}", mine.store);
                return;
            }
            Some(_) => {}
            None if map.nodes.contains_key(&self.me.id) => self.adopt(Arc::new(map), actions),
            None => return,
        }
        actions.push(Action::Send(Some(from), PeerMessage::BootstrapDone { store: store.0 }));
    }

    fn offered(&mut self, from: NodeId, map: Map, actions: &mut Vec<Action>) {
        let was_in = self.map.as_ref().is_some_and(|mine| mine.nodes.contains_key(&self.me.id));
        let is_in = map.nodes.contains_key(&self.me.id);
        if !self.is_newer(&map) || (self.map.is_none() && !is_in) {
            return;
        }
        if let Err(e) = map.validate() {
            return log::error!("node {from} sent a map that is wrong: {e}");
        }
        if was_in && !is_in {
            log::warn!("the store {} has removed this node: it holds nothing any more, and can be stopped", map.store);
        }
        self.adopt(Arc::new(map), actions);
    }

    fn is_newer(&self, map: &Map) -> bool {
        self.map.as_ref().is_none_or(|mine| mine.store == map.store && mine.epoch < map.epoch)
    }

    /// The shell could not keep a map that it was to adopt: the node goes on with the one that it has kept, if any, as if
    /// it had never heard of the other, and tries again in a while. So what a node tells others of, a crash leaves with it.
    pub fn not_kept(&mut self, map: Arc<Map>, kept: Option<Arc<Map>>) {
        self.map = kept;
        self.unkept = Some(map);
    }

    fn adopt(&mut self, map: Arc<Map>, actions: &mut Vec<Action>) {
        self.unkept = None;
        self.joiners.retain(|node, _| !map.nodes.contains_key(node));
        self.map = Some(map.clone());
        for info in map.nodes.values().filter(|info| info.id != self.me.id) {
            actions.push(Action::Know(info.clone()));
        }
        actions.push(Action::Adopt(map));
    }

    fn enter_joiners(&self, map: &Map, actions: &mut Vec<Action>) {
        for info in self.joiners.values().filter(|info| !map.nodes.contains_key(&info.id)) {
            actions.push(Action::Propose(Change::RegisterNode(info.clone())));
        }
    }
}

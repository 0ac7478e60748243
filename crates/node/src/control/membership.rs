//! How a node comes to belong to a store, learns the map, and makes itself known: what one worker of each node does.
//!
//! A node without a store tells every node that it can reach that it wants to join. The one that was told to make the
//! store (`init`) waits until enough have joined, draws the first map and gives it to each of them until all have kept
//! it. Afterwards a node that joins is entered into the map by the metadata group.
//!
//! The map spreads by its changes: the leader of the metadata group sends each to all nodes, and every node asks a few others
//! now and then for what it has missed. The whole map goes only to a node that has none, or whose map is older than what the
//! node that it asks remembers of changes.

use super::director::{Director, DirectorAction, StoreStatus};
use crate::clock_keeper::ClockKeeper;
use crate::peer_protocol::{NodeReport, Order, PeerMessage};
use crate::store_clock::StoreClock;
use cluster::{Change, History, MadeChange, Map, MapUpdate, NodeInfo, NotFollowed};
use replica::Members;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vocab::limits::{MAP_ASKS_MAX, NODES_MAX};
use vocab::{Epoch, Moment, NodeId, Prng, ShardId, StoreId};

/// Ticks between two beats.
const BEAT_TICKS: u64 = 4;
/// Ticks between two looks of the director; in a large store so many more for each so many shards.
const DIRECT_TICKS: u64 = 4;
const DIRECT_SHARDS: usize = 20_000;
/// Ticks between two tries of what may have been lost.
const RETRY_TICKS: u64 = 20;

/// What the shell is to do.
#[derive(Debug)]
pub enum Action {
    /// Send a message; to every node that can be reached if none is named.
    Send(Option<NodeId>, PeerMessage),
    /// Keep this map, and open the replicas that it gives this node. If it cannot be kept, [`Control::not_kept`] is to be
    /// told, and none of the actions that come after this one may be done: they may tell others of the map.
    Adopt(MapUpdate),
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
    /// Call that node no more: it belongs to the store no more.
    Forget(NodeId),
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
    /// The newest changes of the map, for nodes that have an older one.
    history: History,
    /// Nodes of a release that knows no changes of the map.
    whole_only: BTreeSet<NodeId>,
    /// How many more nodes may be asked for the newest map before the next retry.
    asks_left: usize,
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
    /// The map has changed since the director's last look.
    look_is_due: bool,
    clock: ClockKeeper,
}

impl Control {
    /// The control of a node that has this map, if any. It keeps `clock` by what other nodes' clocks show.
    #[must_use]
    pub fn new(me: NodeInfo, shape: Shape, map: Option<Arc<Map>>, clock: Arc<StoreClock>, seed: u64) -> Self {
        let mut control = Self {
            me,
            shape,
            map,
            history: History::default(),
            whole_only: BTreeSet::new(),
            asks_left: MAP_ASKS_MAX,
            unkept: None,
            joiners: BTreeMap::new(),
            init: false,
            unsure: BTreeSet::new(),
            prng: Prng::new(seed),
            ticks: 0,
            now: Moment::default(),
            director: None,
            look_is_due: false,
            clock: ClockKeeper::new(clock),
        };
        // It may have ended before all the others had kept the first map.
        control.unsure = control.others();
        control
    }

    /// The same control, which knows the changes that have led to its map, as its files have them.
    #[must_use]
    pub fn remembering(mut self, changes: Vec<MadeChange>) -> Self {
        let newest = self.map.as_ref().map(|map| map.epoch);
        if changes.last().map(|change| change.epoch) == newest {
            changes.into_iter().for_each(|change| self.history.push(change));
        }
        self
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

    /// A link to a node is up. `knows_changes`: it reads messages with changes of the map.
    pub fn linked(&mut self, node: NodeId, knows_changes: bool, actions: &mut Vec<Action>) {
        if knows_changes {
            self.whole_only.remove(&node);
        } else {
            self.whole_only.insert(node);
        }
        match &self.map {
            Some(map) => self.ask(node, map.epoch, actions),
            None => actions.push(Action::Send(Some(node), self.join())),
        }
    }

    /// 50 ms have passed. `raw`: what the machine's own clocks show. `led`: the terms of the shards that this node leads.
    pub fn tick(&mut self, raw: Moment, led: &[(ShardId, u64)], actions: &mut Vec<Action>) {
        self.ticks += 1;
        self.now = self.clock.tick(raw, self.map.as_ref().map_or(1, |map| map.nodes.len()));
        self.direct(led, actions);
        if self.ticks.is_multiple_of(BEAT_TICKS) {
            let beat = PeerMessage::Beat { sent_us: raw.mono_us, wall_ms: self.clock.wall_to_tell(raw) };
            actions.push(Action::Send(None, beat));
        }
        if self.init && self.map.is_none() && self.unkept.is_none() {
            self.try_init(actions);
        }
        if self.ticks % RETRY_TICKS == RETRY_TICKS / 2
            && let Some(map) = self.unkept.take()
            && self.is_newer(&map)
        {
            self.adopt(MapUpdate::whole(map), actions);
        }
        if !self.ticks.is_multiple_of(RETRY_TICKS) {
            return;
        }
        let Some(map) = self.map.clone() else {
            actions.push(Action::Send(None, self.join()));
            return;
        };
        self.ask_some(&map, actions);
        actions.push(Action::Send(None, PeerMessage::Leading { full: true, shards: led.to_vec() }));
        if map.epoch.0 == 1 {
            self.bootstrap_others(&map, actions);
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
    pub fn status(&self) -> Option<StoreStatus> {
        Some(self.director.as_ref()?.status(self.map.as_deref()?, self.now))
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
        let shards = self.map.as_ref().map_or(0, |map| map.shards.len());
        let is_small = shards < DIRECT_SHARDS;
        let every = DIRECT_TICKS * (1 + (shards / DIRECT_SHARDS) as u64);
        if (self.look_is_due && is_small) || self.ticks.is_multiple_of(every) {
            self.look(actions);
        }
    }

    fn look(&mut self, actions: &mut Vec<Action>) {
        self.look_is_due = false;
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
                    actions.push(Action::Send(Some(from), self.newer_than(map, Epoch(*epoch), from)));
                }
            }
            PeerMessage::Map(bytes) => match Map::decode(bytes) {
                Ok(map) => self.offered(from, MapUpdate::whole(Arc::new(map)), actions),
                Err(e) => log::warn!("node {from} sent a map that cannot be read: {e}"),
            },
            PeerMessage::MapChanges { store, first, changes } => {
                self.changes_offered(from, StoreId(*store), *first, changes, actions);
            }
            PeerMessage::Beat { sent_us, .. } => {
                let answer = PeerMessage::BeatAnswer { sent_us: *sent_us, wall_ms: self.clock.wall_to_tell(raw) };
                actions.push(Action::Send(Some(from), answer));
            }
            PeerMessage::BeatAnswer { sent_us, wall_ms } => self.clock.answered(from, *sent_us, *wall_ms, raw),
            _ => {}
        }
    }

    /// The metadata group's replica on this node has applied a newer map.
    pub fn map_applied(&mut self, update: MapUpdate, actions: &mut Vec<Action>) {
        if !self.is_newer(&update.map) {
            return;
        }
        let update = update.since(self.map.as_ref().map_or(Epoch(0), |map| map.epoch));
        self.adopt(update.clone(), actions);
        // Others need not wait until they ask.
        if self.director.is_some() {
            self.look_is_due = true;
            self.tell_others(&update, actions);
        }
    }

    fn tell_others(&self, update: &MapUpdate, actions: &mut Vec<Action>) {
        let Some(changes) = as_message(update.map.store, &update.changes) else { return };
        if self.whole_only.is_empty() {
            actions.push(Action::Send(None, changes));
            return;
        }
        let whole = PeerMessage::Map(update.map.encode());
        for node in update.map.nodes.keys().filter(|node| **node != self.me.id) {
            let message = if self.whole_only.contains(node) { &whole } else { &changes };
            actions.push(Action::Send(Some(*node), message.clone()));
        }
    }

    /// What leads a node from the map of `epoch` to this one, or towards it.
    fn newer_than(&self, map: &Map, epoch: Epoch, node: NodeId) -> PeerMessage {
        let changes = self.history.since(epoch).filter(|_| epoch.0 > 0 && !self.whole_only.contains(&node));
        changes.and_then(|changes| as_message(map.store, &changes)).unwrap_or_else(|| PeerMessage::Map(map.encode()))
    }

    /// Asks a node for the newest map, unless enough were asked just now: each of them may answer with a whole one.
    fn ask(&mut self, node: NodeId, epoch: Epoch, actions: &mut Vec<Action>) {
        if let Some(left) = self.asks_left.checked_sub(1) {
            self.asks_left = left;
            actions.push(Action::Send(Some(node), PeerMessage::MapAsked { epoch: epoch.0 }));
        }
    }

    /// Asks for the newest map: all other nodes where they are few, else one of those that make it and one of the others.
    fn ask_some(&mut self, map: &Map, actions: &mut Vec<Action>) {
        self.asks_left = MAP_ASKS_MAX;
        let others = self.others();
        let asked: Vec<NodeId> = if others.len() <= MAP_ASKS_MAX {
            others.into_iter().collect()
        } else {
            let meta = map.shards.get(&ShardId::META).into_iter().flat_map(|info| &info.replicas);
            let meta: Vec<NodeId> = meta.map(|replica| replica.node).filter(|node| *node != self.me.id).collect();
            let one = self.prng.below(others.len() as u64) as usize;
            let made_by = meta.get(self.prng.below(meta.len().max(1) as u64) as usize).copied();
            others.into_iter().nth(one).into_iter().chain(made_by).collect()
        };
        asked.into_iter().for_each(|node| self.ask(node, map.epoch, actions));
    }

    fn bootstrap_others(&self, map: &Map, actions: &mut Vec<Action>) {
        if self.unsure.is_empty() {
            return;
        }
        let message = PeerMessage::Bootstrap { map: map.encode() };
        actions.extend(self.unsure.iter().map(|node| Action::Send(Some(*node), message.clone())));
    }

    /// Another node has sent what it has newer.
    fn changes_offered(
        &mut self,
        from: NodeId,
        store: StoreId,
        first: u64,
        changes: &[Arc<[u8]>],
        actions: &mut Vec<Action>,
    ) {
        let Some(map) = self.map.clone().filter(|map| map.store == store) else { return };
        let made = |(epoch, bytes): (u64, &Arc<[u8]>)| MadeChange { epoch: Epoch(epoch), bytes: bytes.clone() };
        let changes: Vec<MadeChange> = (first..).zip(changes).map(made).collect();
        match MapUpdate::following(&map, &changes) {
            Ok(None) => {}
            Ok(Some(update)) => self.offered(from, update, actions),
            Err(NotFollowed::Gap(_)) => self.ask(from, map.epoch, actions),
            Err(NotFollowed::Refused(why)) => {
                log::warn!(
                    "node {from} sent changes that do not lead on from map {}: {why}; it is asked for the whole",
                    map.epoch
                );
                self.ask(from, Epoch(0), actions);
            }
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
        if let Some(map) = self.map.clone()
            && map.nodes.contains_key(&from)
        {
            // It asks all nodes, and a few answers are enough.
            let makes_it = map.shards.get(&ShardId::META).is_some_and(|info| info.replica_on(self.me.id).is_some());
            if makes_it || self.prng.below(map.nodes.len() as u64) < MAP_ASKS_MAX as u64 {
                actions.push(Action::Send(Some(from), PeerMessage::Map(map.encode())));
            }
            return;
        }
        if self.joiners.len() < NODES_MAX || self.joiners.contains_key(&from) {
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
        match cluster::initial_map(store, &nodes, self.shape.shards, self.shape.replication_factor) {
            Ok(map) => {
                log::info!("making the store {store} of {have} nodes, {} shards", self.shape.shards);
                let map = Arc::new(map);
                self.adopt(MapUpdate::whole(map.clone()), actions);
                self.joiners.clear();
                self.unsure = self.others();
                self.bootstrap_others(&map, actions);
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
            None if map.nodes.contains_key(&self.me.id) => self.adopt(MapUpdate::whole(Arc::new(map)), actions),
            None => return,
        }
        actions.push(Action::Send(Some(from), PeerMessage::BootstrapDone { store: store.0 }));
    }

    /// Another node has a map, which [`Map::decode`] or the changes from this node's own have found to keep the rules.
    fn offered(&mut self, from: NodeId, update: MapUpdate, actions: &mut Vec<Action>) {
        let map = &update.map;
        let was_in = self.map.as_ref().is_some_and(|mine| mine.nodes.contains_key(&self.me.id));
        let is_in = map.nodes.contains_key(&self.me.id);
        if !self.is_newer(map) || (self.map.is_none() && !is_in) {
            return;
        }
        if was_in && !is_in {
            log::warn!("the store {} has removed this node: it holds nothing any more, and can be stopped", map.store);
        }
        log::trace!("node {from} has map {}", map.epoch);
        self.adopt(update, actions);
    }

    fn is_newer(&self, map: &Map) -> bool {
        self.map.as_ref().is_none_or(|mine| mine.store == map.store && mine.epoch < map.epoch)
    }

    /// The shell could not keep a map that it was to adopt: the node goes on with the one that it has kept, if any, as if
    /// it had never heard of the other, and tries again in a while. So what a node tells others of, a crash leaves with it.
    pub fn not_kept(&mut self, map: Arc<Map>, kept: Option<Arc<Map>>) {
        self.map = kept;
        self.unkept = Some(map);
        self.history.clear();
    }

    fn adopt(&mut self, update: MapUpdate, actions: &mut Vec<Action>) {
        self.unkept = None;
        let map = &update.map;
        self.joiners.retain(|node, _| !map.nodes.contains_key(node));
        if update.changes.is_empty() {
            self.history.clear();
        }
        update.changes.iter().for_each(|change| self.history.push(change.clone()));
        let before = self.map.replace(map.clone());
        if before.as_ref().is_none_or(|before| !before.nodes.is_same(&map.nodes)) {
            let is_known = |info: &NodeInfo| before.as_ref().and_then(|map| map.nodes.get(&info.id)) == Some(info);
            let others = map.nodes.values().filter(|info| info.id != self.me.id && !is_known(info));
            actions.extend(others.map(|info| Action::Know(info.clone())));
            let gone = before.iter().flat_map(|map| map.nodes.keys()).filter(|node| !map.nodes.contains_key(node));
            actions.extend(gone.map(|node| Action::Forget(*node)));
        }
        actions.push(Action::Adopt(update));
    }

    fn enter_joiners(&self, map: &Map, actions: &mut Vec<Action>) {
        for info in self.joiners.values().filter(|info| !map.nodes.contains_key(&info.id)) {
            actions.push(Action::Propose(Change::RegisterNode(info.clone())));
        }
    }
}

/// The changes as a message; none if there are none.
fn as_message(store: StoreId, changes: &[MadeChange]) -> Option<PeerMessage> {
    let first = changes.first()?.epoch.0;
    let changes = changes.iter().map(|change| change.bytes.clone()).collect();
    Some(PeerMessage::MapChanges { store: store.0, first, changes })
}

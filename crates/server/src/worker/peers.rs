//! A worker's dealings with other nodes: the links, this node's part in the control of the store, and their messages.
//!
//! The first worker has links and control. The others send their messages through it, and get theirs from it.

use super::subscribers::{Note, Subscribers};
use super::switch_master::{learn_listeners, tell_lost};
use crate::api::{engine_since, renew_engine};
use crate::links::{CLUSTER_DATABASES_SINCE, LinkEvent, Links, ONE_STORE, SharedIdentity};
use crate::mailbox::WorkerMessage;
use crate::os::raw_moment;
use crate::peers::serve_call;
use crate::replicas::receive_snapshot;
use crate::shared::{LINKS_WORKER, NodeShared, has_cluster_databases, script_engine};
use cluster::{Change, Map, MapUpdate, NodeInfo};
use mio::Token;
use mio::event::Event;
use node::control::director::StoreStatus;
use node::control::{Action, Control};
use node::peer_protocol::{NodeReport, PeerMessage};
use node::pubsub::Delivery;
use node::session::Keyspace;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use vocab::{Moment, NodeId, ShardId};

/// A message for another node.
pub(super) struct Post {
    pub(super) to: NodeId,
    pub(super) message: PeerMessage,
}

/// What the replicas of this worker are to be told.
pub(super) enum PeerEvent {
    /// A message of another node.
    Message(NodeId, PeerMessage),
    /// There is a link to a node.
    Heard(NodeId),
    /// The link to a node has broken.
    LinkDown(NodeId),
    /// A message of so many bytes is coming in.
    Bulk(usize),
}

/// The links, the control, and messages on their way.
pub(super) struct Peers {
    /// The worker's number.
    index: usize,
    store: Arc<NodeShared>,
    /// None for all but the first worker, and where the node is a store by itself.
    links: Option<Links>,
    /// None for all but the first worker.
    control: Option<Control>,
    /// Messages that go out next.
    posts: Vec<Post>,
    events: Vec<PeerEvent>,
    subscribers: Subscribers,
    /// Shards whose leader has changed.
    led: Vec<ShardId>,
    /// The worker that serves the next client of another node.
    next_client: usize,
    /// Whether nodes have proven that they know the secret.
    has_secret: bool,
}

/// Refuses nodes whose release cannot read the data of a store with that map.
pub(crate) fn require_versions(identity: &SharedIdentity, map: &Map) {
    if let Some(engine) = script_engine(map) {
        identity.require_version(engine_since(engine));
    }
    if has_cluster_databases(map) {
        identity.require_version(CLUSTER_DATABASES_SINCE);
    }
}

impl Peers {
    pub(super) fn new(index: usize, store: Arc<NodeShared>, links: Option<Links>, control: Option<Control>) -> Self {
        let subscribers = Subscribers::new(store.clone());
        let (posts, events, led) = (Vec::new(), Vec::new(), Vec::new());
        let has_secret = store.config.number("peer-secret").is_some_and(|length| length > 0);
        Self { index, store, links, control, posts, events, subscribers, led, next_client: 0, has_secret }
    }

    /// Whether an event belongs to a link.
    pub(super) fn owns(&self, token: Token) -> bool {
        self.links.as_ref().is_some_and(|links| links.owns(token))
    }

    /// When the links next need to run.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.links.as_ref().and_then(Links::deadline)
    }

    /// Whether there is work left.
    pub(super) fn is_unfinished(&self) -> bool {
        self.links.as_ref().is_some_and(Links::is_unfinished) || self.subscribers.is_unsettled()
    }

    /// What the replicas of this worker are to be told.
    pub(super) fn take_events(&mut self) -> Vec<PeerEvent> {
        std::mem::take(&mut self.events)
    }

    /// Messages of other nodes for subscribers of this worker.
    pub(super) fn take_deliveries(&mut self) -> Vec<Delivery> {
        self.subscribers.take_deliveries()
    }

    /// Tells other nodes of subscriptions of this node's clients that they do not know yet.
    pub(super) fn announce(&mut self) {
        for Note { to, message } in self.subscribers.announcements() {
            self.post(to, message);
        }
    }

    /// The event loop has noticed something of a link.
    pub(super) fn notice(&mut self, token: Token, event: &Event, now: Moment) {
        let mut heard = Vec::new();
        if let Some(links) = &mut self.links {
            links.notice(token, event, Instant::now(), &mut |event| heard.push(event));
        }
        self.hear(heard, now);
    }

    /// Continues the work that was left.
    pub(super) fn resume(&mut self, now: Moment) {
        self.subscribers.settle_some();
        let mut heard = Vec::new();
        if let Some(links) = &mut self.links {
            links.resume(Instant::now(), &mut |event| heard.push(event));
        }
        self.hear(heard, now);
    }

    /// Time passes for links and control.
    pub(super) fn tick(&mut self, now: Moment) {
        let mut heard = Vec::new();
        if let Some(links) = &mut self.links {
            links.tick(Instant::now(), &mut |event| heard.push(event));
            self.subscribers.tick();
            self.announce();
            learn_listeners(&self.store, now.wall_ms);
        }
        self.hear(heard, now);
        let mut actions = Vec::new();
        if let Some(control) = &mut self.control {
            if self.store.init_asked.swap(false, Ordering::AcqRel)
                && let Err(e) = control.init()
            {
                log::warn!("{e}");
            }
            let led = self.store.led();
            control.tick(raw_moment(), &led, &mut actions);
        }
        self.act(actions, now);
    }

    fn hear(&mut self, heard: Vec<LinkEvent>, now: Moment) {
        for event in heard {
            match event {
                LinkEvent::Message(from, message) => self.receive(from, message, now),
                LinkEvent::Piece(bytes) => {
                    self.events.push(PeerEvent::Bulk(bytes));
                    self.tell_other_workers(|| WorkerMessage::Bulk(bytes));
                }
                LinkEvent::Up { node, version, hello, tls_port, encrypted, .. } => {
                    log::info!("node {node} can be talked to{}", if encrypted { ", with TLS" } else { "" });
                    self.store.peers.up(node, encrypted);
                    if let Ok(info) = NodeInfo::decode(&hello) {
                        self.store.tls.ports.learn(&info, tls_port);
                    }
                    self.store.entry_formats.heard(node, version);
                    renew_engine(&self.store);
                    self.events.push(PeerEvent::Heard(node));
                    let mut actions = Vec::new();
                    if let Some(control) = &mut self.control {
                        let knows_changes = self.store.entry_formats.knows_map_changes(node);
                        control.linked(node, knows_changes, &mut actions);
                    }
                    self.act(actions, now);
                    let shards = self.store.led();
                    self.post(node, PeerMessage::Leading { full: true, shards });
                    self.subscribers.up(node, version);
                    self.announce();
                }
                LinkEvent::Down(node) => {
                    log::warn!("node {node} cannot be talked to");
                    self.store.lost(node);
                    tell_lost(&self.store, node);
                    self.subscribers.down(node);
                    self.events.push(PeerEvent::LinkDown(node));
                    self.tell_other_workers(|| WorkerMessage::LinkDown(node));
                }
                LinkEvent::Stranger { about, why } => _ = self.store.peers.stranger(about, why),
                LinkEvent::Snapshot { node, stream } => receive_snapshot(&self.store, node, stream),
                LinkEvent::Client(stream) => {
                    self.next_client = (self.next_client + 1) % self.store.mailboxes.workers();
                    let connection = WorkerMessage::Connection(stream, Keyspace::Stored);
                    self.store.mailboxes.tell(self.next_client, connection);
                }
            }
        }
    }

    fn tell_other_workers(&self, message: impl Fn() -> WorkerMessage) {
        for worker in (0..self.store.mailboxes.workers()).filter(|worker| *worker != self.index) {
            if let Some(mailbox) = self.store.mailboxes.of_worker(worker) {
                mailbox.send(message());
            }
        }
    }

    fn receive(&mut self, from: NodeId, message: PeerMessage, now: Moment) {
        if !self.may_say(from, &message) {
            return;
        }
        match message {
            PeerMessage::Raft { shard, .. } | PeerMessage::Order { shard, .. } => self.for_shard(shard, from, message),
            PeerMessage::Propose { .. } => self.for_shard(ShardId::META, from, message),
            PeerMessage::Hibernate { shards } => {
                for worker in 0..self.store.mailboxes.workers() {
                    let of_worker =
                        |(shard, _, _): &&(ShardId, u64, u64)| self.store.mailboxes.owner_of(*shard) == worker;
                    let shards: Vec<_> = shards.iter().filter(of_worker).copied().collect();
                    if let Some((first, _, _)) = shards.first() {
                        self.for_shard(*first, from, PeerMessage::Hibernate { shards });
                    }
                }
            }
            PeerMessage::Wake { shards } => {
                for shard in shards {
                    self.for_shard(shard, from, PeerMessage::Wake { shards: vec![shard] });
                }
            }
            PeerMessage::Leading { shards, .. } => {
                let known = self.store.known();
                for (shard, term) in shards {
                    if let Some(place) = known.place(shard)
                        && place.leader.learn(Some(from), term)
                    {
                        self.led.push(shard);
                    }
                }
            }
            PeerMessage::Call { id, shard, command } => serve_call(&self.store, from, id, shard, command),
            PeerMessage::Answer { id, reply } => self.store.calls.answered(id, reply),
            PeerMessage::Interest(_)
            | PeerMessage::InterestKnown { .. }
            | PeerMessage::Publish { .. }
            | PeerMessage::Published { .. } => self.hear_of_subscribers(from, message),
            other => {
                if let PeerMessage::Beat { .. } = &other {
                    self.events.push(PeerEvent::Message(from, other.clone()));
                    self.tell_other_workers(|| WorkerMessage::Peer(from, other.clone()));
                }
                if let PeerMessage::Bootstrap { map } = &other {
                    self.note_other_store(from, map);
                }
                let mut actions = Vec::new();
                if let Some(control) = &mut self.control {
                    control.receive(from, &other, raw_moment(), &mut actions);
                }
                self.act(actions, now);
            }
        }
    }

    /// Whether a node may send this message. A node that is not in the map may only join.
    fn may_say(&self, from: NodeId, message: &PeerMessage) -> bool {
        let known = self.store.known();
        let Some(map) = &known.map else { return message.is_for_newcomers() };
        if map.nodes.contains_key(&from) || message.is_from_newcomers() {
            return true;
        }
        // Only nodes know the secret, and a node that has missed changes may hear from nodes that its map lacks.
        let offers_map = matches!(message, PeerMessage::Map(_) | PeerMessage::MapChanges { .. });
        offers_map && (!self.store.peers.is_encrypted(from) || self.has_secret)
    }

    fn hear_of_subscribers(&mut self, from: NodeId, message: PeerMessage) {
        let is_confirmation = matches!(message, PeerMessage::InterestKnown { .. });
        if let Some(answer) = self.subscribers.hear(from, message) {
            self.post(from, answer);
        }
        if is_confirmation {
            self.announce();
        }
    }

    /// Two nodes may make a store at the same moment: both say so.
    fn note_other_store(&self, from: NodeId, map: &[u8]) {
        let known = self.store.known();
        if let (Some(mine), Ok(theirs)) = (&known.map, Map::decode(map))
            && mine.store != theirs.store
        {
            let why = format!("it has made store {}, this node belongs to {}; {ONE_STORE}", theirs.store, mine.store);
            if self.store.peers.stranger(format!("node {from}"), why.clone()) {
                log::error!("node {from}: {why}");
            }
        }
    }

    fn for_shard(&mut self, shard: ShardId, from: NodeId, message: PeerMessage) {
        let owner = self.store.mailboxes.owner_of(shard);
        if owner == self.index {
            self.events.push(PeerEvent::Message(from, message));
        } else if let Some(mailbox) = self.store.mailboxes.of_worker(owner) {
            mailbox.send(WorkerMessage::Peer(from, message));
        }
    }

    /// Adds a message to those that go out next.
    pub(super) fn post(&mut self, to: NodeId, message: PeerMessage) {
        self.posts.push(Post { to, message });
    }

    /// A shard has another leader.
    pub(super) fn note_leader(&mut self, shard: ShardId) {
        self.led.push(shard);
    }

    /// Spreads changes of leaders and sends queued messages; answers whether there were changes.
    pub(super) fn flush(&mut self) -> bool {
        let has_news = !self.led.is_empty();
        if has_news {
            self.spread_news();
        }
        if self.posts.is_empty() {
            return has_news;
        }
        match &mut self.links {
            Some(links) => {
                for Post { to, message } in self.posts.drain(..) {
                    links.send(to, &message);
                }
                links.flush(Instant::now());
            }
            None if self.index == LINKS_WORKER => {}
            None => {
                if let Some(mailbox) = self.store.mailboxes.of_worker(LINKS_WORKER) {
                    let posts = self.posts.drain(..);
                    mailbox.send_all(posts.map(|Post { to, message }| WorkerMessage::Post(to, message)));
                }
            }
        }
        self.posts.clear();
        has_news
    }

    /// Leaders of some shards have changed: requests that wait for them go on, and other nodes are told of those that lead here.
    fn spread_news(&mut self) {
        let mut led = std::mem::take(&mut self.led);
        led.sort_unstable();
        led.dedup();
        self.tell_other_workers(|| WorkerMessage::Led);
        self.subscribers.slots_moved();
        let known = self.store.known();
        let mine = |shard: &ShardId| {
            let leader = &known.place(*shard)?.leader;
            (leader.node() == Some(self.store.node())).then(|| (*shard, leader.term()))
        };
        let shards: Vec<_> = led.iter().filter_map(mine).collect();
        if !shards.is_empty() {
            for to in self.store.peers.nodes() {
                self.posts.push(Post { to, message: PeerMessage::Leading { full: false, shards: shards.clone() } });
            }
        }
    }

    /// The metadata group's replica on this node has applied a newer map.
    pub(super) fn map_applied(&mut self, update: MapUpdate, now: Moment) {
        let Some(control) = &mut self.control else {
            return self.store.mailboxes.tell_links_worker(WorkerMessage::MapApplied(update));
        };
        let mut actions = Vec::new();
        control.map_applied(update, &mut actions);
        self.act(actions, now);
    }

    fn act(&mut self, actions: Vec<Action>, now: Moment) {
        for action in actions {
            match action {
                Action::Send(Some(to), message) => self.post(to, message),
                Action::Send(None, message) => {
                    for node in self.store.peers.nodes() {
                        self.post(node, message.clone());
                    }
                }
                Action::Know(info) => {
                    if let Some(links) = &mut self.links {
                        links.know(info.id, &info.peer_address, Instant::now());
                    }
                }
                Action::Forget(node) => {
                    if let Some(links) = &mut self.links {
                        links.call_no_more(node);
                    }
                }
                Action::Propose(change) => self.propose(&change),
                Action::Order { node, shard, order } => {
                    let message = PeerMessage::Order { shard, order };
                    if node == self.store.node() {
                        self.for_shard(shard, node, message);
                    } else {
                        self.post(node, message);
                    }
                }
                Action::Adopt(update) => {
                    if self.adopt_map(&update, now) {
                        continue;
                    }
                    let kept = self.store.known().map.clone();
                    if let Some(control) = &mut self.control {
                        control.not_kept(update.map, kept);
                    }
                    // The other actions may rely on the map.
                    return;
                }
            }
        }
    }

    /// Sends a change of the map to the metadata group's leader. If it is lost, it is proposed again.
    pub(super) fn propose(&mut self, change: &Change) {
        let message = PeerMessage::Propose { change: change.encode() };
        match self.store.leader_of(ShardId::META) {
            Some(node) if node == self.store.node() => self.for_shard(ShardId::META, node, message),
            Some(node) => self.post(node, message),
            None => {}
        }
    }

    /// Stores a map and uses it; false if it cannot be stored.
    fn adopt_map(&mut self, update: &MapUpdate, now: Moment) -> bool {
        let map = &update.map;
        if let Err(e) = self.store.dir.keep_map(update) {
            log::error!("map {} cannot be kept, and the node goes on with the one before: {e}", map.epoch);
            return false;
        }
        let mut heard = Vec::new();
        if let Some(links) = &mut self.links {
            links.set_store(map.store, Instant::now(), &mut |event| heard.push(event));
            require_versions(links.identity(), map);
        }
        self.hear(heard, now);
        self.store.set_map(map.clone());
        self.store.apply_settings(map);
        self.store.apply_users(map);
        self.subscribers.slots_moved();
        self.store.mailboxes.tell_all(|| WorkerMessage::Map(map.clone()));
        self.store.reconcile.wake();
        true
    }

    /// While large requests are under way, links wait longer for a sign of life.
    pub(super) fn be_patient(&mut self, is_bulk: bool) {
        if let Some(links) = &mut self.links {
            links.be_patient(is_bulk);
        }
    }

    /// Hands over this node's report to the director.
    pub(super) fn report(&mut self, mut report: NodeReport, now: Moment) {
        let meta = self.store.leader_of(ShardId::META);
        if let Some(meta) = meta.filter(|meta| *meta != self.store.node()) {
            let formats = &self.store.entry_formats;
            if !formats.reads_problems(meta) {
                report.figures.problems.clear();
            }
            if !formats.reads_last_terms(meta) {
                report.replicas.iter_mut().for_each(|replica| replica.last_term = 0);
            }
        }
        let mut actions = Vec::new();
        if let Some(control) = &mut self.control {
            control.reported(report, meta, &mut actions);
        }
        self.act(actions, now);
    }

    /// The director's status of the store, if the director is on this node.
    pub(super) fn status(&self) -> Option<Box<StoreStatus>> {
        self.control.as_ref().and_then(Control::status).map(Box::new)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::IdleNode;
    use vocab::StoreId;

    const THERE: NodeId = NodeId(99);
    const DATA: ShardId = ShardId(1);

    /// A node of a store of two, the other of which can be talked to.
    fn node() -> IdleNode {
        let node = IdleNode::open();
        let other = NodeInfo { id: THERE, ..node.store.node_info() };
        let map = cluster::initial_map(StoreId(1), &[node.store.node_info(), other], 2, 2).unwrap();
        node.store.routing.set_map(Arc::new(map));
        node.store.peers.up(THERE, false);
        node
    }

    /// What is in the mailbox of the worker that has the links, in words.
    fn mail(node: &IdleNode) -> Vec<String> {
        let word = |message| match message {
            WorkerMessage::Post(to, message) => format!("post to {to}: {message:?}"),
            WorkerMessage::Led => "led".to_owned(),
            _ => "?".to_owned(),
        };
        node.mail().into_iter().map(word).collect()
    }

    #[test]
    fn a_worker_without_links_sends_by_the_one_that_has_them() {
        let node = node();
        let mut peers = Peers::new(LINKS_WORKER + 1, node.store.clone(), None, None);
        assert!(!peers.flush() && mail(&node).is_empty(), "nothing to send");
        peers.post(THERE, PeerMessage::Wake { shards: vec![DATA] });
        assert!(mail(&node).is_empty(), "it goes out with the turn");
        assert!(!peers.flush(), "no news of leaders");
        assert_eq!(mail(&node), [format!("post to {THERE}: Wake {{ shards: [{DATA:?}] }}")]);
        assert!(!peers.flush() && mail(&node).is_empty(), "once");
    }

    #[test]
    fn news_of_leaders_go_to_all_workers_and_of_those_here_to_all_nodes() {
        let node = node();
        let mut peers = Peers::new(LINKS_WORKER + 1, node.store.clone(), None, None);
        let known = node.store.known();
        let leader = &known.place(DATA).unwrap().leader;
        assert!(leader.learn(Some(THERE), 3));
        peers.note_leader(DATA);
        assert!(peers.flush());
        assert_eq!(mail(&node), ["led"], "who leads there has told it");
        assert!(leader.learn(Some(node.store.node()), 4));
        peers.note_leader(DATA);
        peers.note_leader(DATA);
        assert!(peers.flush());
        let told = PeerMessage::Leading { full: false, shards: vec![(DATA, 4)] };
        assert_eq!(mail(&node), ["led".to_owned(), format!("post to {THERE}: {told:?}")]);
        assert!(!peers.flush());
    }

    /// A message to a replica here, which the mailbox's worker owns, or to the metadata group's leader.
    #[test]
    fn a_change_of_the_map_goes_to_the_leader_of_the_metadata_group() {
        let node = node();
        let mut peers = Peers::new(LINKS_WORKER, node.store.clone(), None, None);
        let mut propose = || {
            peers.propose(&Change::ForgetNode(THERE));
            let here = peers.take_events().len();
            let there = peers.posts.drain(..).filter(|post| post.to == THERE).count();
            (here, there)
        };
        let known = node.store.known();
        let leader = &known.place(ShardId::META).unwrap().leader;
        assert_eq!(propose(), (0, 0), "none is known: it is proposed again later");
        assert!(leader.learn(Some(THERE), 1));
        assert_eq!(propose(), (0, 1));
        assert!(leader.learn(Some(node.store.node()), 2));
        assert_eq!(propose(), (1, 0));
    }

    #[test]
    fn a_node_that_is_not_in_the_map_can_do_nothing_but_join() {
        const STRANGER: NodeId = NodeId(5);
        let node = node();
        let peers = Peers::new(LINKS_WORKER, node.store.clone(), None, None);
        let wake = PeerMessage::Wake { shards: vec![DATA] };
        let map = PeerMessage::Map(Vec::new());
        assert!(peers.may_say(THERE, &wake) && !peers.may_say(STRANGER, &wake));
        assert!(peers.may_say(STRANGER, &map), "it may know of changes that this node has missed");
        node.store.peers.up(STRANGER, true);
        assert!(!peers.may_say(STRANGER, &map), "unless nodes have to prove who they are");
    }
}

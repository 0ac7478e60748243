//! A worker's dealings with other nodes: what the links bring is given to whoever it is for, what is to be said goes out.

use super::event_loop::Worker;
use crate::links::{LinkEvent, ONE_STORE};
use crate::mailbox::WorkerMessage;
use crate::peers::serve_call;
use crate::replicas::{receive_snapshot, send_snapshot};
use crate::shared::LINKS_WORKER;
use cluster::{Change, Map, NodeInfo};
use mio::Token;
use mio::event::Event;
use node::control::Action;
use node::peer::PeerMessage;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use vocab::{NodeId, ShardId};

impl Worker {
    /// The event loop has noticed something of a link.
    pub(crate) fn notice_link(&mut self, token: Token, event: &Event) {
        let mut heard = Vec::new();
        if let Some(links) = &mut self.links {
            links.notice(token, event, Instant::now(), &mut |event| heard.push(event));
        }
        self.hear(heard);
    }

    /// What a link had left to do.
    pub(crate) fn resume_links(&mut self) {
        let mut heard = Vec::new();
        if let Some(links) = &mut self.links {
            links.resume(Instant::now(), &mut |event| heard.push(event));
        }
        self.hear(heard);
    }

    /// Time passes for links and control.
    pub(crate) fn tick_links(&mut self) {
        let mut heard = Vec::new();
        if let Some(links) = &mut self.links {
            links.tick(Instant::now(), &mut |event| heard.push(event));
        }
        self.hear(heard);
        let mut actions = Vec::new();
        if let Some(control) = &mut self.control {
            if self.store.init_asked.swap(false, Ordering::AcqRel)
                && let Err(e) = control.init()
            {
                log::warn!("{e}");
            }
            let led = self.store.led();
            control.tick(self.now, &led, &mut actions);
        }
        self.act(actions);
    }

    fn hear(&mut self, heard: Vec<LinkEvent>) {
        for event in heard {
            match event {
                LinkEvent::Message(from, message) => self.receive_from(from, message),
                LinkEvent::Up { node, hello, .. } => {
                    log::info!("node {node} can be talked to");
                    self.store.peers.up(node);
                    self.core.heard(node, self.now);
                    let info = NodeInfo::decode(&hello).ok();
                    let mut actions = Vec::new();
                    if let Some(control) = &mut self.control {
                        control.linked(node, info, &mut actions);
                    }
                    self.act(actions);
                    let shards = self.store.led();
                    self.outbox.post(node, PeerMessage::Leading { full: true, shards });
                }
                LinkEvent::Down(node) => {
                    log::warn!("node {node} cannot be talked to");
                    self.store.lost(node);
                    self.core.link_down(node);
                    for worker in (0..self.store.workers()).filter(|worker| *worker != self.index) {
                        if let Some(mailbox) = self.store.mailbox(worker) {
                            mailbox.send(WorkerMessage::LinkDown(node));
                        }
                    }
                }
                LinkEvent::Stranger { about, why } => _ = self.store.peers.stranger(about, why),
                LinkEvent::Snapshot { node, stream } => receive_snapshot(&self.store, node, stream),
            }
        }
    }

    fn receive_from(&mut self, from: NodeId, message: PeerMessage) {
        match message {
            PeerMessage::Raft { shard, .. } | PeerMessage::Order { shard, .. } => self.for_shard(shard, from, message),
            PeerMessage::Propose { .. } => self.for_shard(ShardId::META, from, message),
            PeerMessage::Rest { shards } => {
                for worker in 0..self.store.workers() {
                    let of_worker =
                        |(shard, _, _): &&(ShardId, u64, u64)| self.store.owner_of(shard.0 as usize) == worker;
                    let shards: Vec<_> = shards.iter().filter(of_worker).copied().collect();
                    if let Some((first, _, _)) = shards.first() {
                        self.for_shard(*first, from, PeerMessage::Rest { shards });
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
                    if let Some(place) = known.place(shard.0 as usize)
                        && place.leader.learn(Some(from), term)
                    {
                        self.outbox.news.push(shard);
                    }
                }
            }
            PeerMessage::Call { id, shard, command } => serve_call(&self.store, from, id, shard, command),
            PeerMessage::Answer { id, reply } => self.store.calls.answered(id, reply),
            other => {
                if let PeerMessage::Beat { .. } = &other {
                    self.heard_by_all(from, &other);
                }
                if let PeerMessage::Bootstrap { map } = &other {
                    self.note_other_store(from, map);
                }
                let mut actions = Vec::new();
                if let Some(control) = &mut self.control {
                    control.receive(from, &other, &mut actions);
                }
                self.act(actions);
            }
        }
    }

    /// Two nodes may make a store at the same moment: both are to say so.
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

    fn heard_by_all(&mut self, from: NodeId, beat: &PeerMessage) {
        self.core.receive(from, beat.clone(), self.now, &mut self.outbox);
        for worker in (0..self.store.workers()).filter(|worker| *worker != self.index) {
            if let Some(mailbox) = self.store.mailbox(worker) {
                mailbox.send(WorkerMessage::Peer(from, beat.clone()));
            }
        }
    }

    fn for_shard(&mut self, shard: ShardId, from: NodeId, message: PeerMessage) {
        let owner = self.store.owner_of(shard.0 as usize);
        if owner == self.index {
            self.core.receive(from, message, self.now, &mut self.outbox);
        } else if let Some(mailbox) = self.store.mailbox(owner) {
            mailbox.send(WorkerMessage::Peer(from, message));
        }
    }

    /// Sends what is to be sent, and spreads the news.
    pub(crate) fn post(&mut self) {
        if !self.outbox.news.is_empty() {
            self.spread_news();
        }
        if self.outbox.posts.is_empty() {
            return;
        }
        let mut posts = std::mem::take(&mut self.outbox.posts);
        match &mut self.links {
            Some(links) => {
                for (to, message) in posts.drain(..) {
                    links.send(to, &message);
                }
                links.flush(Instant::now());
            }
            None => {
                let Some(mailbox) = self.store.mailbox(LINKS_WORKER).filter(|_| self.index != LINKS_WORKER) else {
                    return;
                };
                posts.drain(..).for_each(|(to, message)| mailbox.send(WorkerMessage::Post(to, message)));
            }
        }
        // The buffer is used again; what was posted meanwhile is not lost.
        posts.append(&mut self.outbox.posts);
        self.outbox.posts = posts;
    }

    /// Some shards have other leaders: requests that wait for them go on, and other nodes hear of those here.
    fn spread_news(&mut self) {
        let mut news = std::mem::take(&mut self.outbox.news);
        news.sort_unstable();
        news.dedup();
        self.outbox.unstall_all();
        for worker in (0..self.store.workers()).filter(|worker| *worker != self.index) {
            if let Some(mailbox) = self.store.mailbox(worker) {
                mailbox.send(WorkerMessage::Led);
            }
        }
        let known = self.store.known();
        let mine = |shard: &ShardId| {
            let leader = &known.place(shard.0 as usize)?.leader;
            (leader.node() == Some(self.store.node())).then(|| (*shard, leader.term()))
        };
        let shards: Vec<_> = news.iter().filter_map(mine).collect();
        if !shards.is_empty() {
            for node in self.store.peers.nodes() {
                self.outbox.posts.push((node, PeerMessage::Leading { full: false, shards: shards.clone() }));
            }
        }
    }

    /// Does what applying entries has asked for.
    pub(crate) fn after_apply(&mut self) {
        for task in std::mem::take(&mut self.outbox.snapshots) {
            send_snapshot(&self.store, task);
        }
        for change in std::mem::take(&mut self.outbox.changes) {
            self.propose(&change);
        }
        if let Some(map) = self.outbox.applied_map.take() {
            if self.control.is_some() {
                self.map_applied(&map);
            } else if let Some(mailbox) = self.store.mailbox(LINKS_WORKER) {
                mailbox.send(WorkerMessage::MapApplied(map));
            }
        }
    }

    /// The metadata group's replica on this node has applied a newer map.
    pub(crate) fn map_applied(&mut self, map: &Arc<Map>) {
        let mut actions = Vec::new();
        if let Some(control) = &mut self.control {
            control.map_applied(map, &mut actions);
        }
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(Some(to), message) => self.outbox.post(to, message),
                Action::Send(None, message) => {
                    for node in self.store.peers.nodes() {
                        self.outbox.post(node, message.clone());
                    }
                }
                Action::Know(info) => {
                    if let Some(links) = &mut self.links {
                        links.know(info.id, &info.peer_address, Instant::now());
                    }
                }
                Action::Propose(change) => self.propose(&change),
                Action::Order { node, shard, order } => {
                    let message = PeerMessage::Order { shard, order };
                    if node == self.store.node() {
                        self.for_shard(shard, node, message);
                    } else {
                        self.outbox.post(node, message);
                    }
                }
                Action::Adopt(map) => {
                    if self.adopt_map(&map) {
                        continue;
                    }
                    let kept = self.store.known().map.clone();
                    if let Some(control) = &mut self.control {
                        control.not_kept(map, kept);
                    }
                    // The rest may speak of it.
                    return;
                }
            }
        }
    }

    /// Brings a change of the map to the metadata group's leader. It may be lost: whoever wants it asks again.
    fn propose(&mut self, change: &Change) {
        let leader = self.store.leader_of(ShardId::META);
        let message = PeerMessage::Propose { change: change.encode() };
        match leader {
            Some(node) if node == self.store.node() => self.for_shard(ShardId::META, node, message),
            Some(node) => self.outbox.post(node, message),
            None => {}
        }
    }

    /// Keeps a map and goes by it; false if it cannot be kept.
    fn adopt_map(&mut self, map: &Arc<Map>) -> bool {
        if let Err(e) = self.store.dir.keep_map(map) {
            log::error!("map {} cannot be kept, and the node goes on with the one before: {e}", map.epoch);
            return false;
        }
        let mut heard = Vec::new();
        if let Some(links) = &mut self.links {
            links.set_store(map.store, Instant::now(), &mut |event| heard.push(event));
        }
        self.hear(heard);
        self.store.directory.set_map(map.clone());
        self.store.apply_settings(map);
        for worker in 0..self.store.workers() {
            if let Some(mailbox) = self.store.mailbox(worker) {
                mailbox.send(WorkerMessage::Map(map.clone()));
            }
        }
        self.store.holdings.wake();
        true
    }

    /// What this node tells the director.
    pub(crate) fn report(&mut self, report: node::director::NodeReport) {
        let meta = self.store.leader_of(ShardId::META);
        let mut actions = Vec::new();
        if let Some(control) = &mut self.control {
            control.reported(report, meta, &mut actions);
        }
        self.act(actions);
    }

    /// Closes replicas that are to be closed, unless a log write is under way: it may be about them.
    pub(crate) fn release(&mut self) {
        if self.is_logging() {
            return;
        }
        for (shard, back) in std::mem::take(&mut self.releases) {
            if let Some(mut released) = self.core.release(shard) {
                released.dismiss(&mut self.outbox);
            }
            // It waits, unless the node is being stopped.
            let _ = back.try_send(());
        }
    }
}

//! The shell as sessions see it: clock, settings, clients, counters, and the facts behind INFO and CLUSTER.

use super::scripts::script_may_write;
use crate::mailbox::{BlockingMessage, SubscriberNews, WorkerMessage};
use crate::os::{now_ms, random};
use crate::replicas::transfer_facts;
use crate::shared::NodeShared;
use cluster::{Databases, NodeInfo, ReplicaInfo};
use node::Config;
use node::HotKeys;
use node::KeyUsage;
use node::Monitors;
use node::acl::{AccessControl, AuditEvent, LoginCheck};
use node::blocking::End;
use node::config::SettingFiles;
use node::eviction::Room;
use node::pubsub::Broker;
use node::read::Refusal;
use node::session::{
    self, CertificateFigures, ClientEntry, Clients, ClusterDatabases, ClusterFacts, ClusterLink, ClusterNode,
    ClusterReplica, ClusterShard, Host, Keyspace, NodeFacts, Session, ShardFacts, TlsFigures,
};
use node::stats::Stats;
use node::tracking::Tracking;
use resp::table::CommandSpec;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};
use vocab::{Database, NodeId, Slot, SlotSpan};

impl Host for NodeShared {
    fn script_may_write(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> bool {
        script_may_write(self, spec, args)
    }

    fn now_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn reopen(&self, files: SettingFiles) -> Result<(), String> {
        match files {
            SettingFiles::Certificates => self.tls.reload(),
            SettingFiles::AuditLog => self.audit_log.check(),
        }
    }

    fn access_control(&self) -> &AccessControl {
        &self.users.control
    }

    fn find_out(&self, check: LoginCheck) {
        self.users.find_out(check);
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(32) {
            let random: [u8; 32] = random();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }

    fn audit(&self, event: &AuditEvent<'_>) {
        self.audit_log.note(event, now_ms());
    }

    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn usage(&self) -> &KeyUsage {
        &self.usage
    }

    fn room(&self) -> &Room {
        &self.room
    }

    fn hot_keys(&self) -> &HotKeys {
        &self.hot_keys
    }

    fn wake(&self, client: &ClientEntry) {
        if let Some(mailbox) = self.mailboxes.of_worker(client.worker) {
            mailbox.send(WorkerMessage::Look);
        }
    }

    fn unblock(&self, client: &ClientEntry, place: usize, end: End) {
        let message = BlockingMessage::Unblock { place, client: client.id, end, tried: None };
        self.mailboxes.tell(client.worker, WorkerMessage::Blocking(message));
    }

    fn wake_all(&self) {
        self.mailboxes.tell_all(|| WorkerMessage::Look);
    }

    fn abort_shutdown(&self) -> bool {
        // A shutdown here does not wait for anything: there is never one that could still be stopped.
        false
    }

    fn node_facts(&self) -> NodeFacts {
        let caches = self.cache.stats();
        let process = crate::os::process_facts();
        NodeFacts {
            process_id: std::process::id(),
            run_id: self.run_id.clone(),
            os: process.os,
            executable: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
            started_ms: self.started_ms,
            workers: self.mailboxes.workers(),
            rss_bytes: process.rss_bytes,
            rss_bytes_peak: process.rss_bytes_peak,
            system_memory_bytes: process.system_memory_bytes,
            cpu_user_us: process.cpu_user_us,
            cpu_system_us: process.cpu_system_us,
            cache_bytes: caches.bytes + self.resources.block_cache_bytes(),
            cache_hits: caches.hits,
            cache_misses: caches.misses,
            log_bytes: self.log.disk_bytes(),
            loading: false,
            disk: self.health.state(),
            disk_reason: self.health.reason(),
            flushes_running: self.background.flushing.load(Ordering::Relaxed),
            flushes: self.background.flushes.load(Ordering::Relaxed),
            compactions_running: self.background.compacting.load(Ordering::Relaxed),
            compactions: self.background.compactions.load(Ordering::Relaxed),
            expired_keys: Some(self.data_handles().iter().map(|handle| handle.expired_ever()).sum()),
            transfers: self.snapshots.get().map(transfer_facts).unwrap_or_default(),
            programs: self.program_facts(),
            tls: tls_figures(self),
        }
    }

    fn shard_facts(&self) -> Vec<ShardFacts> {
        let handles = self.data_handles();
        let facts = handles.iter().map(|handle| ShardFacts {
            id: handle.id(),
            slots: handle.slots(),
            serving: handle.serving(),
            status: handle.status(),
            engine: handle.engine().stats(),
            debt: handle.engine().debt(),
            keys: handle.key_count(),
            expires: Some(handle.expiring()),
            databases: handle.databases(),
            cluster_databases: handle.cluster_databases(),
        });
        facts.collect()
    }

    fn cluster_facts(&self) -> ClusterFacts {
        let known = self.known();
        let Some(map) = &known.map else {
            let node = cluster_node(self, &self.node_info());
            return ClusterFacts { nodes: vec![node], ..ClusterFacts::default() };
        };
        let nodes = map.nodes.values().map(|info| cluster_node(self, info)).collect();
        let shards = map.data_shards().map(|(id, info)| {
            let place = known.place(id);
            let leader = place.and_then(|place| self.leader_at(place));
            let last = place.and_then(|place| place.leader.last());
            let first = info.replicas.first().map(|replica| replica.node);
            let index = |node: NodeId| {
                let handle = place.and_then(|place| place.handle.as_ref()).filter(|_| node == self.node());
                handle.map_or(0, |handle| handle.engine().applied_index())
            };
            let replica = |replica: &ReplicaInfo| ClusterReplica {
                node: replica.node,
                learner: replica.learner,
                index: index(replica.node),
            };
            ClusterShard {
                id,
                slots: info.slots.clone(),
                leader: leader.or(last).or(first).unwrap_or(self.node()),
                led: leader.is_some(),
                replicas: info.replicas.iter().map(replica).collect(),
            }
        });
        let link = |node: &NodeId| {
            let opened_ms = self.peers.since_ms(*node)?;
            Some(ClusterLink { node: *node, outgoing: true, opened_ms, queued_bytes: 0, buffer_bytes: 0 })
        };
        ClusterFacts {
            epoch: map.epoch.0,
            nodes,
            shards: shards.collect(),
            links: map.nodes.keys().filter_map(link).collect(),
            ..ClusterFacts::default()
        }
    }

    fn broker(&self) -> &Broker {
        &self.broker
    }

    fn monitors(&self) -> &Monitors {
        &self.monitors
    }

    fn tracking(&self) -> &Tracking {
        &self.tracking
    }

    fn announce(&self) {
        if !self.announces.swap(true, Ordering::AcqRel) {
            self.mailboxes.tell_links_worker(WorkerMessage::Subscribers(SubscriberNews::Announce));
        }
    }

    fn refuses_slot(&self, slot: Slot) -> Option<String> {
        let known = self.known();
        let Some(shard) = known.shard_of(slot) else { return Some(Refusal::NoStore.to_string()) };
        let leader = self.leader_of(shard);
        if leader == Some(self.node()) {
            return None;
        }
        let moved = leader.and_then(|leader| known.moved(slot, leader));
        Some(moved.unwrap_or_else(|| Refusal::NoLeader.to_string()))
    }

    fn databases(&self) -> Arc<Databases> {
        self.known().databases.clone()
    }

    fn has_begun_cluster_databases(&self) -> bool {
        self.has_cluster_databases()
    }

    fn cluster_databases(&self) -> ClusterDatabases {
        if self.has_cluster_databases() { ClusterDatabases::Begun } else { self.begins_cluster_databases.want() }
    }

    fn reads_any(&self, database: Database) -> bool {
        self.routing.reads_any(database)
    }

    fn other_listeners(&self) -> Vec<(NodeId, String, String)> {
        let mut listeners = self.masters.listeners();
        listeners.retain(|(node, ..)| self.peers.is_up(*node));
        listeners
    }

    fn asked_for_master(&self, name: &[u8]) {
        self.masters.asked(name);
    }

    fn share_shard(&self, span: SlotSpan, keyspace: Keyspace) -> bool {
        // Where there are several nodes, a client of the cluster is told what it would be told tomorrow.
        (!keyspace.is_of_cluster() || self.is_alone()) && self.known().shares_shard(span)
    }

    fn ask_init(&self) -> Result<String, String> {
        if self.is_alone() {
            return Err("this node is a store by itself: it was started without peer-listen".to_owned());
        }
        if let Some(map) = &self.known().map {
            return Err(format!("this node belongs to the store {} already", map.store));
        }
        self.init_asked.store(true, Ordering::Release);
        let here = self.peers.nodes().len() + 1;
        let needed = self.config.number("replication-factor").unwrap_or_default();
        Ok(format!("the store is made once {needed} nodes are here; this one sees {here}, itself included"))
    }
}

fn tls_figures(store: &NodeShared) -> TlsFigures {
    let facts = store.tls.facts();
    let now_s = (now_ms() / 1000) as i64;
    let figures = |certificate: tls::Certificate| CertificateFigures {
        expires_in_s: certificate.left_s(now_s),
        serial: certificate.serial,
    };
    let (links, links_encrypted) = store.peers.counts();
    TlsFigures {
        certificate: facts.certificate.map(figures),
        authority: facts.authority.map(figures),
        trouble: facts.trouble.unwrap_or_default(),
        links,
        links_encrypted,
    }
}

fn cluster_node(store: &NodeShared, info: &NodeInfo) -> ClusterNode {
    let myself = info.id == store.node();
    // The map may not know yet where this node listens now.
    let mine = myself.then(|| store.node_info());
    let info = mine.as_ref().unwrap_or(info);
    // A node that is a store by itself tells its clients to stay where they are.
    let host = if store.is_alone() {
        store.config.text("announce-host").unwrap_or_default()
    } else {
        info.client_host.clone()
    };
    let linked = myself || store.peers.is_up(info.id);
    let peer_port = info.peer_address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or_default();
    let tls_port = store.tls_port_of(info.id);
    ClusterNode { id: info.id, myself, host, port: info.client_port, tls_port, peer_port, alive: linked, linked }
}

/// Registers a connection whose requests name keys of that keyspace. The error is the text for a client that is turned away.
pub(crate) fn open_session(
    store: &NodeShared,
    from: Option<SocketAddr>,
    to: Option<SocketAddr>,
    worker: usize,
    now_ms: u64,
    (keyspace, encrypted): (Keyspace, bool),
) -> Result<Session, &'static str> {
    let from_ip = from.map(|address| address.ip());
    // Another node has shown who it is.
    if keyspace != Keyspace::Stored
        && let Some(text) = session::turned_away(
            &store.config,
            store.users.asks_password(&store.config),
            from_ip,
            encrypted,
            store.clients.count(),
        )
    {
        store.stats.worker(worker).refused();
        return Err(text);
    }
    store.stats.worker(worker).connected();
    let shown = |address: Option<SocketAddr>| address.map(|address| address.to_string()).unwrap_or_default();
    let entry = store.clients.connect(shown(from), shown(to), worker, now_ms);
    let mut session = Session::new(entry, store);
    session.enter(keyspace);
    Ok(session)
}

/// Removes a connection from the list of clients.
pub(crate) fn close_session(store: &NodeShared, session: &Session) {
    store.clients.disconnect(session.entry().id);
}

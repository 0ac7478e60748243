//! A node that runs: its threads, from start to stop.

use super::background;
use super::peer_guard::guard;
use crate::api::Caller;
use crate::api::admin::import_patiently;
use crate::api::http::{self, HttpListener};
use crate::api::{run_own_command, run_peer_command};
use crate::links::{Identity, Links, LinksOptions, Packing};
use crate::mailbox::{Mailbox, WorkerMessage};
use crate::os::{random, share_out, spawn_critical};
use crate::replicas::{open_shards, start_transfers};
use crate::shared::{LINKS_WORKER, NodeShared, read_map_changes};
use crate::worker::{Listener, Worker, WorkerSetup, require_versions};
use cluster::MapUpdate;
use mio::net::TcpListener;
use mio::{Poll, Token, Waker};
use node::Config;
use node::control::{Control, Shape};
use node::multi_raft::MultiRaft;
use node::session::Keyspace;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;
use vocab::Database;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A running node.
pub struct Server {
    store: Arc<NodeShared>,
    addresses: Addresses,
    workers: Vec<JoinHandle<()>>,
    background: Vec<JoinHandle<()>>,
    http: Vec<HttpListener>,
}

/// Where clients reach a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// Clients of Redis Cluster.
    pub clients: Option<SocketAddr>,
    /// The same, with TLS.
    pub tls_clients: Option<SocketAddr>,
    /// Clients of databases.
    pub databases: Option<SocketAddr>,
    /// The same, with TLS.
    pub tls_databases: Option<SocketAddr>,
    /// Operators.
    pub http: Option<SocketAddr>,
    /// The same, with TLS.
    pub tls_http: Option<SocketAddr>,
}

/// A question to all event loops of a node.
#[derive(Debug)]
pub struct Probe(Weak<()>);

impl Probe {
    /// Whether each loop has come to it.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl Server {
    /// Opens the store that `config` names and serves it on its `listen` address.
    pub fn start(config: Config) -> Result<Self, String> {
        let listen = config.text("listen").unwrap_or_default();
        // Before the store is opened, so that a port in use is told at once.
        let listener = bind(&listen).map_err(|e| format!("cannot listen on {listen}: {e}"))?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        config.listening(&address.ip().to_string(), address.port());
        let mut addresses = Addresses { clients: Some(address), ..Addresses::default() };
        let mut listeners = vec![Listener { socket: listener, keyspace: Keyspace::Cluster, encrypted: false }];
        let of_tls = match config.number("tls-port").unwrap_or_default() {
            0 => String::new(),
            port => SocketAddr::new(address.ip(), u16::try_from(port).unwrap_or_default()).to_string(),
        };
        let text = |name: &str| config.text(name).unwrap_or_default();
        let databases = Keyspace::Database(Database::default());
        for (listen, keyspace, encrypted, found) in [
            (of_tls, Keyspace::Cluster, true, &mut addresses.tls_clients),
            (text("database-listen"), databases, false, &mut addresses.databases),
            (text("tls-database-listen"), databases, true, &mut addresses.tls_databases),
        ] {
            if !listen.is_empty() {
                let socket = bind(&listen).map_err(|e| format!("cannot listen for clients on {listen}: {e}"))?;
                *found = socket.local_addr().ok();
                listeners.push(Listener { socket, keyspace, encrypted });
            }
        }
        let mut of_http = Vec::new();
        for (listen, encrypted, found) in [
            (text("http-listen"), false, &mut addresses.http),
            (text("tls-http-listen"), true, &mut addresses.tls_http),
        ] {
            if !listen.is_empty() {
                let socket = http::bind(&listen).map_err(|e| format!("cannot listen for HTTP on {listen}: {e}"))?;
                *found = socket.local_addr().ok();
                of_http.push((socket, encrypted));
            }
        }
        let mut server = Self::run(config, listeners)?;
        server.addresses = addresses;
        for (socket, encrypted) in of_http {
            let listener = HttpListener::start(&server.store, socket, encrypted);
            server.http.push(listener.map_err(|e| format!("cannot serve HTTP: {e}"))?);
        }
        Ok(server)
    }

    /// Opens the store that `config` names for callers in this process only.
    pub fn embedded(config: Config) -> Result<Self, String> {
        Self::run(config, Vec::new())
    }

    fn run(config: Config, mut listeners: Vec<Listener>) -> Result<Self, String> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = match config.number("workers").unwrap_or_default() {
            // The others are for the log, reads from disk, flushes and compaction.
            0 => (processors / 2).max(1),
            n => n.unsigned_abs() as usize,
        };
        let descriptors = share_out(&config, workers);
        let store =
            NodeShared::open(Arc::new(config), workers, &descriptors, seed(), (run_peer_command, run_own_command))?;
        let opened = open_shards(&store)?;
        store.health.be_patient();
        let polls = (0..workers).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>().map_err(|e| e.to_string())?;
        let mailboxes = polls
            .iter()
            .map(|poll| Waker::new(poll.registry(), Worker::MAIL).map(Mailbox::new))
            .collect::<io::Result<Vec<_>>>()
            .map_err(|e| e.to_string())?;
        if !store.mailboxes.set(mailboxes.clone()) {
            return Err("the store is running already".to_owned());
        }
        // A node alone may have applied a newer map in its metadata group than the file holds.
        let newest = opened.iter().find_map(|opened| opened.shard.map().cloned()).filter(|_| store.is_alone());
        if let Some(newest) = newest.filter(|map| store.known().map.as_ref().is_none_or(|old| old.epoch < map.epoch)) {
            store.dir.keep_map(&MapUpdate::whole(newest.clone()))?;
            store.set_map(newest);
        }
        store.users.load_own(&store.config, &mut random)?;
        let map = store.known().map.clone();
        if let Some(map) = &map {
            store.apply_settings(map);
            store.apply_users(map);
        }
        let multi_raft = |_| MultiRaft::new(store.node(), store.clock.clone());
        let mut multi_rafts: Vec<MultiRaft> = (0..workers).map(multi_raft).collect();
        if let Some(map) = &map {
            multi_rafts.iter_mut().for_each(|multi_raft| multi_raft.map_changed(map.clone()));
        }
        let now = store.moment();
        for opened in opened {
            let owner = store.mailboxes.owner_of(opened.shard.handle().id());
            multi_rafts[owner].adopt(opened.shard, opened.fresh, now);
        }
        let mut threads = Vec::new();
        for (index, ((poll, mailbox), multi_raft)) in polls.into_iter().zip(mailboxes).zip(multi_rafts).enumerate() {
            let control = (index == LINKS_WORKER).then(|| start_control(&store, map.clone()));
            let links = if control.is_some() { start_links(&store, &poll)? } else { None };
            let store = store.clone();
            let setup = WorkerSetup {
                index,
                store,
                poll,
                mailbox,
                listeners: std::mem::take(&mut listeners),
                multi_raft,
                links,
                control,
            };
            let worker = Worker::new(setup).map_err(|e| e.to_string())?;
            let thread = spawn_critical(&format!("worker-{index}"), move || worker.run());
            threads.push(thread.map_err(|e| e.to_string())?);
        }
        if !store.users.own().is_empty() {
            let store = store.clone();
            let import = std::thread::Builder::new().name("users".to_owned());
            // It ends by itself.
            import.spawn(move || import_patiently(&store)).map_err(|e| e.to_string())?;
        }
        let background = background::start(&store).map_err(|e| e.to_string())?;
        let addresses = Addresses::default();
        Ok(Self { store, addresses, workers: threads, background, http: Vec::new() })
    }

    /// Its settings, as they are now.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.store.config
    }

    /// Where clients reach it.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Reads its certificates again, as when their files change. The error says why those before stay in use.
    pub fn reload_certificates(&self) -> Result<(), String> {
        self.store.tls.reload()
    }

    /// Opens the file of the audit log again, as when a program that rotates logs has renamed it.
    pub fn reopen_audit_log(&self) {
        self.store.audit_log.reopen();
    }

    /// Its figures, in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        http::metrics::exposition(&self.store)
    }

    /// What to say when it has started.
    #[must_use]
    pub fn describe(&self) -> String {
        let identity = self.store.dir.identity();
        let handles = self.store.data_handles();
        let keys: u64 = handles.iter().map(|handle| handle.key_count()).sum();
        let shards = match &self.store.known().map {
            Some(_) => format!("{} shards, {keys} keys", handles.len()),
            None => "no store yet".to_owned(),
        };
        format!(
            "{shards}, {} engine, durability {}, data in {}",
            identity.engine.name(),
            self.store.config.text("durability").unwrap_or_default(),
            self.store.dir.root().display()
        )
    }

    /// A caller in this process.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller::new(self.store.clone())
    }

    #[cfg(test)]
    pub(crate) fn store(&self) -> &Arc<NodeShared> {
        &self.store
    }

    /// Bytes of files: trees and log.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        let trees: u64 = self.store.known().handles().map(|handle| handle.engine().stats().disk_bytes).sum();
        trees + self.store.log.disk_bytes()
    }

    /// Asks all event loops whether they turn.
    #[must_use]
    pub fn probe(&self) -> Probe {
        let held = Arc::new(());
        let probe = Probe(Arc::downgrade(&held));
        self.store.mailboxes.tell_all(|| WorkerMessage::Probe(held.clone()));
        probe
    }

    /// Whether a client has asked for the end (SHUTDOWN).
    #[must_use]
    pub fn stop_asked(&self) -> bool {
        self.store.stop_asked.load(Ordering::Acquire)
    }

    /// Whether background work is done for now: nothing to flush, nothing to compact.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.store.known().handles().all(|handle| !handle.engine().needs_flush()) && self.store.background.is_idle()
    }

    /// Stops: no new requests, what is under way is finished, the log is fsynced.
    pub fn stop(self) {
        self.store.mailboxes.tell_all(|| WorkerMessage::Stop);
        for worker in self.workers {
            if worker.join().is_err() {
                log::error!("a worker has panicked");
            }
        }
        // Nothing takes what reads answer from here on: those that have not begun do not begin.
        self.store.stopping.store(true, Ordering::Release);
        self.http.into_iter().for_each(HttpListener::join);
        self.store.resources.stop();
        if let Some(snapshots) = self.store.snapshots.get() {
            snapshots.stop();
        }
        self.store.background.wake();
        self.store.pool.stop();
        self.store.call_pool.stop();
        self.store.script_watch.kill_all();
        self.store.script_pool.stop();
        for thread in self.background {
            if thread.join().is_err() {
                log::error!("a background thread has panicked");
            }
        }
        self.store.health.stop_waiting();
        self.store.log_threads.stop();
        background::flush_rest(&self.store);
    }
}

fn bind(listen: &str) -> io::Result<TcpListener> {
    bind_socket(listen).map(TcpListener::from_std)
}

fn bind_socket(listen: &str) -> io::Result<std::net::TcpListener> {
    let address = listen
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not an address and port"))?;
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The links to other nodes, if this node is to have any.
fn start_links(store: &Arc<NodeShared>, poll: &Poll) -> Result<Option<Links>, String> {
    if store.is_alone() {
        return Ok(None);
    }
    let text = |name: &str| store.config.text(name).unwrap_or_default();
    let listen = text("peer-listen");
    let listener = bind_socket(&listen).map_err(|e| format!("cannot listen for other nodes on {listen}: {e}"))?;
    let mut hello = Vec::new();
    store.node_info().encode(&mut hello);
    let identity = Identity::new(store.node(), hello, text("peer-secret").into_bytes());
    let identity = identity.with_tls(store.tls.clone(), store.tls_port()).shared();
    if let Some(map) = &store.known().map {
        identity.set_store(map.store);
        require_versions(&identity, map);
    }
    let registry = poll.registry().try_clone().map_err(|e| e.to_string())?;
    let options = LinksOptions {
        identity: identity.clone(),
        listener: Some(listener),
        packing: Packing::default(),
        guard: guard(store),
    };
    let mut links = Links::new(registry, Token(usize::MAX - 1), options).map_err(|e| e.to_string())?;
    let now = Instant::now();
    for seed in text("join").split(',').map(str::trim).filter(|seed| !seed.is_empty()) {
        links.dial(seed, now);
    }
    for node in store.known().map.iter().flat_map(|map| map.nodes.values()) {
        if node.id != store.node() {
            links.know(node.id, &node.peer_address, now);
        }
    }
    start_transfers(store, identity)?;
    Ok(Some(links))
}

fn start_control(store: &NodeShared, map: Option<Arc<cluster::Map>>) -> Control {
    let number = |name: &str| u32::try_from(store.config.number(name).unwrap_or_default()).unwrap_or(1);
    let shape = Shape { shards: number("shards"), replication_factor: number("replication-factor") };
    if store.config.text("init").as_deref() == Some("yes") && map.is_none() {
        store.init_asked.store(true, Ordering::Release);
    }
    let (changes, damage) = read_map_changes(store.dir.root());
    if let Some(damage) = damage {
        log::error!("{damage}; other nodes tell the newest one");
    }
    Control::new(store.node_info(), shape, map, store.clock.clone(), seed()).remembering(changes)
}

/// Different in every process: names the node when its directory is made.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

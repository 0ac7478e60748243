//! A node that runs: its threads, from start to stop.

use crate::background;
use crate::embedded::Caller;
use crate::inbox::{Inbox, Message};
use crate::store::Store;
use crate::worker::Worker;
use mio::net::TcpListener;
use mio::{Poll, Waker};
use node::{Config, Shard};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A running node.
pub struct Server {
    store: Arc<Store>,
    address: Option<SocketAddr>,
    workers: Vec<JoinHandle<()>>,
    background: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens the store that `config` names and serves it on its `listen` address.
    pub fn start(config: Config) -> Result<Self, String> {
        let listen = config.text("listen").unwrap_or_default();
        // Before the store is opened, so that a port in use is told at once.
        let listener = bind(&listen).map_err(|e| format!("cannot listen on {listen}: {e}"))?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        config.listening(&address.ip().to_string(), address.port());
        Self::run(config, Some(listener))
    }

    /// Opens the store that `config` names for callers in this process only.
    pub fn embedded(config: Config) -> Result<Self, String> {
        Self::run(config, None)
    }

    fn run(config: Config, listener: Option<TcpListener>) -> Result<Self, String> {
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = match config.number("workers").unwrap_or_default() {
            // The others are for the log, reads from disk, flushes and compaction.
            0 => (processors / 2).max(1),
            n => n.unsigned_abs() as usize,
        };
        let (store, shards) = Store::open(Arc::new(config), workers, seed())?;
        let polls = (0..workers).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>().map_err(|e| e.to_string())?;
        let inboxes = polls
            .iter()
            .map(|poll| Waker::new(poll.registry(), Worker::mail_token()).map(Inbox::new))
            .collect::<io::Result<Vec<_>>>()
            .map_err(|e| e.to_string())?;
        if store.inboxes.set(inboxes.clone()).is_err() {
            return Err("the store is running already".to_owned());
        }
        let mut owned = share_out(shards, workers);
        let mut listener = listener;
        let mut threads = Vec::new();
        for (index, (poll, inbox)) in polls.into_iter().zip(inboxes).enumerate() {
            let mine = owned.remove(0);
            let worker = Worker::new(index, store.clone(), poll, inbox, listener.take(), mine);
            let worker = worker.map_err(|e| e.to_string())?;
            let thread = crate::vital::spawn(&format!("worker-{index}"), move || worker.run());
            threads.push(thread.map_err(|e| e.to_string())?);
        }
        let background = background::start(&store).map_err(|e| e.to_string())?;
        Ok(Self { store, address, workers: threads, background })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// What to say when it has started.
    #[must_use]
    pub fn describe(&self) -> String {
        let identity = self.store.dir.identity();
        let keys: u64 = self.store.views.iter().map(|view| view.key_count()).sum();
        format!(
            "{} shards, {keys} keys, {} engine, durability {}, data in {}",
            identity.shards,
            identity.engine.name(),
            if self.store.sync { "sync" } else { "nosync" },
            self.store.dir.root().display()
        )
    }

    /// A caller in this process.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller::new(self.store.clone())
    }

    /// Bytes of files: trees and log.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        let trees: u64 = self.store.views.iter().map(|view| view.engine().stats().disk_bytes).sum();
        trees + self.store.log.disk_bytes()
    }

    /// Whether a client has asked for the end (SHUTDOWN).
    #[must_use]
    pub fn stop_asked(&self) -> bool {
        self.store.stop_asked.load(Ordering::Acquire)
    }

    /// Whether background work is done for now: nothing to flush, nothing to compact.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.store.views.iter().all(|view| !view.engine().needs_flush()) && self.store.background.is_idle()
    }

    /// Stops: no new requests, what is under way is finished, the log is fsynced.
    pub fn stop(self) {
        self.store.wake_all_with(|| Message::Stop);
        for worker in self.workers {
            if worker.join().is_err() {
                log::error!("a worker has panicked");
            }
        }
        self.store.stopping.store(true, Ordering::Release);
        self.store.resources.stop();
        self.store.background.wake();
        self.store.pool.stop();
        for thread in self.background {
            if thread.join().is_err() {
                log::error!("a background thread has panicked");
            }
        }
        self.store.health.stop_waiting();
        self.store.log_thread.stop();
        background::flush_rest(&self.store);
    }
}

fn bind(listen: &str) -> io::Result<TcpListener> {
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
    Ok(TcpListener::from_std(socket.into()))
}

/// Each worker's shards, by their place; `None` where another worker owns it.
fn share_out(shards: Vec<Shard>, workers: usize) -> Vec<Vec<Option<Shard>>> {
    let count = shards.len();
    let mut owned: Vec<Vec<Option<Shard>>> = (0..workers).map(|_| (0..count).map(|_| None).collect()).collect();
    for (i, shard) in shards.into_iter().enumerate() {
        owned[i % workers][i] = Some(shard);
    }
    owned
}

/// Different in every process: names the node when its directory is made.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

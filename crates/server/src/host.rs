//! The shell as sessions see it: clock, settings, clients, counters, and the facts behind INFO and CLUSTER.

use crate::inbox::Message;
use crate::store::Store;
use node::Config;
use node::session::{
    ClientEntry, Clients, ClusterFacts, ClusterNode, ClusterReplica, ClusterShard, Host, NodeFacts, Session, ShardFacts,
};
use node::stats::Stats;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

impl Host for Store {
    fn now_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn wake(&self, client: &ClientEntry) {
        if let Some(inbox) = self.inbox(client.worker) {
            inbox.send(Message::Look);
        }
    }

    fn wake_all(&self) {
        self.wake_all_with(|| Message::Look);
    }

    fn abort_shutdown(&self) -> bool {
        // A shutdown here does not wait for anything: there is never one that could still be stopped.
        false
    }

    fn node_facts(&self) -> NodeFacts {
        let caches = self.cache.stats();
        let process = crate::process::facts();
        NodeFacts {
            process_id: std::process::id(),
            run_id: self.run_id.clone(),
            os: process.os,
            executable: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
            started_ms: self.started_ms,
            workers: self.workers(),
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
            expired_keys: Some(self.views.iter().map(|view| view.expired_ever()).sum()),
        }
    }

    fn shard_facts(&self) -> Vec<ShardFacts> {
        let facts = self.views.iter().map(|view| ShardFacts {
            id: view.id(),
            slots: view.slots(),
            serving: view.serving(),
            status: view.status(),
            engine: view.engine().stats(),
            debt: view.engine().debt(),
            keys: view.key_count(),
            expires: Some(view.expiring()),
        });
        facts.collect()
    }

    fn cluster_facts(&self) -> ClusterFacts {
        let number = |name: &str| self.config.number(name).unwrap_or_default();
        let announced = u16::try_from(number("announce-port")).unwrap_or_default();
        let port = if announced > 0 { announced } else { u16::try_from(number("port")).unwrap_or_default() };
        let id = self.dir.identity().node;
        let node = ClusterNode {
            id,
            myself: true,
            host: self.config.text("announce-host").unwrap_or_default(),
            port,
            peer_port: 0,
            alive: true,
            linked: true,
        };
        let shards = self.views.iter().map(|view| ClusterShard {
            id: view.id(),
            slots: vec![view.slots()],
            leader: id,
            led: view.serving(),
            replicas: vec![ClusterReplica { node: id, learner: false, index: view.engine().applied_index() }],
        });
        ClusterFacts { epoch: 1, nodes: vec![node], shards: shards.collect(), ..ClusterFacts::default() }
    }
}

impl Store {
    /// Enters a connection; `None` if there are as many as there may be.
    pub(crate) fn connect(&self, addr: String, laddr: String, worker: usize, now_ms: u64) -> Option<Session> {
        if self.clients.count() >= self.config.clients_max() {
            self.stats.worker(worker).refused();
            return None;
        }
        self.stats.worker(worker).connected();
        let entry = self.clients.connect(addr, laddr, worker, now_ms);
        Some(Session::new(entry, self))
    }

    /// Strikes a connection off.
    pub(crate) fn disconnect(&self, session: &Session) {
        self.clients.disconnect(session.entry().id);
    }
}

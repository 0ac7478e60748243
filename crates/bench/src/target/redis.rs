//! A store that speaks the Redis Cluster protocol: Basalt, Redis, Valkey and others, of one node or many.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Greeting, PoolOptions, ReadFrom, SlotMap, StoreUrl, Value};

use super::lane::Manner;
use super::nodes::NodeWatch;
use super::session::{RecordSession, Session};
use super::socket::SocketTransport;
use super::{InfoFields, Lanes, Target, TargetFacts, TargetUsage};
use crate::workload::{OpKind, RecordForm, Task, Workload};

/// How a store is spoken to.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// A request without an answer for this long fails.
    pub timeout: Duration,
    /// An operation that was refused, or that may be done twice, is attempted again for so long.
    pub patience: Duration,
    /// Connections of each thread to each node.
    pub connections: usize,
    /// Where reads go.
    pub read_from: ReadFrom,
    /// What every connection asks of KV.DURABILITY; nothing = what the store's setting is.
    pub durability: Vec<String>,
}

impl RedisOptions {
    /// What `options` tell every connection to begin with.
    fn greetings(&self) -> Vec<Greeting> {
        if self.durability.is_empty() {
            return Vec::new();
        }
        let words = std::iter::once("KV.DURABILITY").chain(self.durability.iter().map(String::as_str));
        vec![Greeting { args: words.map(|word| word.as_bytes().to_vec()).collect(), must: true }]
    }

    /// For one thread's pool.
    pub(super) fn pool(&self) -> PoolOptions {
        PoolOptions {
            connections: self.connections,
            timeout: self.timeout,
            read_from: self.read_from,
            greetings: self.greetings(),
        }
    }
}

/// A store, by some of its nodes' addresses.
pub struct RedisTarget {
    store: StoreUrl,
    options: RedisOptions,
    nodes: NodeWatch,
    /// The least number of nodes that hold a slot, as the map says.
    replication: usize,
}

impl RedisTarget {
    /// Asks the store's nodes who they are.
    ///
    /// # Errors
    /// No node can be reached, or the store cannot do what the options ask.
    pub fn connect(store: StoreUrl, options: RedisOptions) -> io::Result<Self> {
        let map = SlotMap::fetch(&store, true)?;
        if let [greeting] = &options.greetings()[..] {
            require(&store, &greeting.args, "cannot choose the durability of a connection")?;
        }
        let nodes = NodeWatch::new(&map, &store)?;
        Ok(Self { store, options, nodes, replication: map.replication() })
    }

    fn durability(&self) -> String {
        let told = |name: &str| self.nodes.setting(name);
        let Some(durability) = told("durability") else {
            return match told("appendonly") {
                Some("yes") if self.replication > 1 => {
                    format!("appendfsync {}; replicas follow asynchronously", told("appendfsync").unwrap_or("unknown"))
                }
                Some("yes") => format!("appendfsync {}", told("appendfsync").unwrap_or("unknown")),
                Some("no") => "none (no append-only file)".to_owned(),
                _ => "unknown".to_owned(),
            };
        };
        // What a connection asks for wins over the store's settings.
        let asked =
            |words: &[&str]| self.options.durability.iter().find(|word| words.contains(&word.as_str())).cloned();
        let durability = asked(&["sync", "nosync"]).unwrap_or_else(|| durability.to_owned());
        match asked(&["majority", "all", "none"]).or_else(|| told("acks").map(str::to_owned)) {
            Some(acks) => format!("{durability}, acks {acks}"),
            None => durability,
        }
    }

    fn consistency(&self) -> String {
        match (self.options.read_from, self.nodes.setting("consistency")) {
            (ReadFrom::Any, _) => "any replica".to_owned(),
            (ReadFrom::Leader, Some(consistency)) => format!("leader reads, {consistency}"),
            (ReadFrom::Leader, None) => "leader reads".to_owned(),
        }
    }
}

impl Target for RedisTarget {
    fn name(&self) -> String {
        let scheme = if self.store.secure.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.store)
    }

    fn in_process(&self) -> bool {
        false
    }

    fn facts(&self) -> TargetFacts {
        let told = |name: &str| self.nodes.setting(name).unwrap_or("n/a").to_owned();
        let nodes = self.nodes.count();
        let copies = match (self.replication, self.nodes.followers()) {
            (1, Some(followers)) if nodes == 1 => followers + 1,
            (copies, _) => copies,
        };
        TargetFacts {
            system: self.nodes.system(),
            durability: self.durability(),
            replication: if nodes == 1 { copies.to_string() } else { format!("{copies} on {nodes} nodes") },
            consistency: self.consistency(),
            compression: told("compression"),
            engine: told("engine"),
            memory_budget_bytes: self.nodes.memory_budget(),
            connections: Some(self.options.connections as u32),
        }
    }

    fn usage(&self) -> TargetUsage {
        self.nodes.usage()
    }

    fn look(&self) {
        self.nodes.look();
    }

    fn processes(&self) -> Vec<(String, u32)> {
        self.nodes.processes()
    }

    fn node_infos(&self) -> Vec<(String, InfoFields)> {
        self.nodes.node_infos()
    }

    fn data_dir(&self) -> Option<&Path> {
        self.nodes.data_dir()
    }

    fn open(&self, workload: &Arc<Workload>, lanes: Lanes) -> io::Result<Box<dyn Session>> {
        let scans = workload.task() == Task::Run && workload.mix().share(OpKind::Scan) > 0.0;
        // A scan of a collection stays within it.
        if scans && !matches!(workload.config.record, RecordForm::Collection(_)) {
            let ask = [&b"KV.RANGE"[..], b"-", b"+", b"LIMIT", b"1", b"KEYS"].map(<[u8]>::to_vec);
            require(&self.store, &ask, "cannot scan in the order of keys")?;
        }
        let transport = SocketTransport::open(&self.store, lanes, self.options.pool())?;
        let manner = Manner {
            patience: Some(self.options.patience),
            may_lag: self.options.read_from == ReadFrom::Any,
            ..Manner::default()
        };
        Ok(Box::new(RecordSession::new(transport, Arc::clone(workload), lanes.count(), manner)))
    }
}

/// Asks once what the workload will ask often.
fn require(store: &StoreUrl, ask: &[Vec<u8>], lacks: &str) -> io::Result<()> {
    let args: Vec<&[u8]> = ask.iter().map(Vec::as_slice).collect();
    match Client::open(store)?.call(&args)? {
        Value::Error(error) => {
            let name = ask.first().map_or_else(String::new, |name| String::from_utf8_lossy(name).into_owned());
            let text = format!("{store} {lacks}: {name} answers {error}");
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
        _ => Ok(()),
    }
}

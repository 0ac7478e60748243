//! A server that speaks the Redis Cluster protocol: Basalt, Redis and their kin.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::{Address, Client, Value};

use super::session::{RecordSession, Session};
use super::socket::SocketTransport;
use super::{Lanes, Target, TargetFacts, TargetUsage};
use crate::usage::{ProcessUsage, disk_bytes};
use crate::workload::{OpKind, Task, Workload};

/// A server at an address.
pub struct RedisTarget {
    seed: Address,
    timeout: Duration,
    info: HashMap<String, String>,
    settings: HashMap<String, String>,
    /// The server's process, when it runs on this machine and says which.
    process: Option<u32>,
    data_dir: Option<PathBuf>,
}

/// Settings worth telling, where the server knows them.
const SETTINGS: [&str; 7] = ["durability", "engine", "memory", "compression", "dir", "appendonly", "appendfsync"];

impl RedisTarget {
    /// Asks the server at `seed` who it is. A request without an answer for `timeout` fails.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn connect(seed: Address, timeout: Duration) -> io::Result<Self> {
        let mut client = Client::connect(&seed)?;
        let info = client.call_here(&[b"INFO"])?;
        let info = text(&info).unwrap_or_default();
        let info: HashMap<_, _> = info
            .lines()
            .filter_map(|line| line.trim().split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut settings = HashMap::new();
        for name in SETTINGS {
            if let Some(value) = setting(&client.call_here(&[b"CONFIG", b"GET", name.as_bytes()])?) {
                settings.insert(name.to_owned(), value);
            }
        }
        let local = seed.resolve()?.ip().is_loopback();
        let process = info.get("process_id").and_then(|id| id.parse().ok());
        let process = process.filter(|&id| local && ProcessUsage::of(id).is_some());
        let data_dir = if process.is_some() { data_dir(&settings) } else { None };
        Ok(Self { seed, timeout, info, settings, process, data_dir })
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    fn system(&self) -> String {
        let product = [("basalt_version", "Basalt"), ("valkey_version", "Valkey"), ("redis_version", "Redis")];
        let named = product.iter().find_map(|(field, name)| Some(format!("{name} {}", self.info.get(*field)?)));
        named.unwrap_or_else(|| "unknown".to_owned())
    }

    fn durability(&self) -> String {
        match (self.setting("durability"), self.setting("appendonly")) {
            (Some(durability), _) => durability.to_owned(),
            (None, Some("yes")) => format!("appendfsync {}", self.setting("appendfsync").unwrap_or("unknown")),
            (None, Some("no")) => "none (no append-only file)".to_owned(),
            _ => "unknown".to_owned(),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// What holds the data: Basalt's directory is its own, Redis's may hold anything.
fn data_dir(settings: &HashMap<String, String>) -> Option<PathBuf> {
    let dir = settings.get("dir").map(PathBuf::from).filter(|dir| dir.is_absolute())?;
    if settings.contains_key("durability") {
        return Some(dir);
    }
    let appends = settings.get("appendonly").is_some_and(|value| value == "yes");
    appends.then(|| dir.join("appendonlydir"))
}

/// The one value of an answer to CONFIG GET.
fn setting(answer: &Value) -> Option<String> {
    match answer {
        Value::Array(pair) => text(pair.get(1)?),
        Value::Map(pairs) => text(&pairs.first()?.1),
        _ => None,
    }
}

impl Target for RedisTarget {
    fn name(&self) -> String {
        format!("redis://{}", self.seed)
    }

    fn in_process(&self) -> bool {
        false
    }

    fn facts(&self) -> TargetFacts {
        let told = |name: &str| self.setting(name).unwrap_or("n/a").to_owned();
        let copies = self.info.get("connected_slaves").and_then(|n| n.parse::<u32>().ok());
        TargetFacts {
            system: self.system(),
            durability: self.durability(),
            replication: copies.map_or_else(|| "unknown".to_owned(), |followers| (followers + 1).to_string()),
            consistency: "leader reads".to_owned(),
            compression: told("compression"),
            engine: told("engine"),
            memory_budget_bytes: self.setting("memory").and_then(|bytes| bytes.parse().ok()),
        }
    }

    fn usage(&self) -> TargetUsage {
        let process = self.process.and_then(ProcessUsage::of);
        TargetUsage {
            server_cpu: process.map(|usage| usage.cpu),
            disk_bytes: self.data_dir.as_deref().and_then(disk_bytes),
            peak_rss_bytes: process.and_then(|usage| usage.peak_rss_bytes),
        }
    }

    fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    fn open(&self, workload: &Arc<Workload>, lanes: Lanes) -> io::Result<Box<dyn Session>> {
        let scans = workload.task() == Task::Run && workload.mix().share(OpKind::Scan) > 0.0;
        if scans {
            require_range(&self.seed)?;
        }
        let transport = SocketTransport::open(&self.seed, lanes, self.timeout)?;
        Ok(Box::new(RecordSession::new(transport, Arc::clone(workload), lanes.count(), true)))
    }
}

/// Scans need an ordered key space.
fn require_range(seed: &Address) -> io::Result<()> {
    match Client::connect(seed)?.call_here(&[b"KV.RANGE", b"-", b"+", b"LIMIT", b"1", b"KEYS"])? {
        Value::Error(error) => {
            let text = format!("{seed} cannot scan in the order of keys: KV.RANGE answers {error}");
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
        _ => Ok(()),
    }
}

//! The nodes of a store, watched from outside: what each tells of itself, and what its process uses on this machine.
//!
//! A node may die and come back as another process during a run. What each process had used is remembered from look to
//! look, so that a sum over all of them loses no more than what was used after the last look.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Address, Client, SlotMap, StoreUrl, Value};

use super::info_client::InfoClient;
use super::{NodeUse, TargetUsage};
use crate::machine::listeners::listeners;
use crate::machine::usage::{ProcessUsage, disk_bytes, machine_up_s, started_s};
use crate::model::CpuTime;

/// A node that does not answer within this time tells nothing of itself.
const WITHIN: Duration = Duration::from_millis(250);
/// At the beginning it is waited for: without its process its CPU time would be lacking in the whole phase.
const AT_FIRST_WITHIN: Duration = Duration::from_secs(2);
/// Settings worth telling, where the server knows them.
const SETTINGS: [&str; 9] =
    ["durability", "acks", "consistency", "engine", "memory", "compression", "dir", "appendonly", "appendfsync"];

/// A process was started as a node tells if the times differ by this at most, in seconds: what is told is whole seconds.
const STARTED_WITHIN_S: f64 = 2.0;

/// What a node tells of itself.
#[derive(Clone, Debug, Default)]
struct NodeFacts {
    info: HashMap<String, String>,
    /// When it told that, in seconds since this machine came up.
    told_s: Option<f64>,
    settings: HashMap<String, String>,
}

impl NodeFacts {
    /// The process that the node at `address`, which is one of this machine, says that it is. In a container ids are others: what
    /// bears that id here is then another process, which was not started when the node was and does not listen there.
    fn process(&self, address: &Address) -> Option<u32> {
        let id = self.info.get("process_id")?.parse().ok()?;
        let started_s = started_s(id)?;
        let up_s = self.info.get("uptime_in_seconds").and_then(|text| text.parse::<f64>().ok());
        let told_start_s = self.told_s.zip(up_s).map(|(told_s, up_s)| told_s - up_s);
        let is_as_told = told_start_s.is_some_and(|told| (told - started_s).abs() <= STARTED_WITHIN_S);
        // A node that opens much data may count from the time at which it had.
        let listens = || address.resolve().is_ok_and(|place| listeners(&[place]) == [Some(id)]);
        (is_as_told || listens()).then_some(id)
    }
}

/// One node.
struct Watched {
    address: Address,
    /// On this machine.
    local: bool,
    told: Option<NodeFacts>,
    /// Its process, when it is on this machine and has been seen.
    process: Option<u32>,
    data_dir: Option<PathBuf>,
}

/// What a process had used when it was last seen.
struct Seen {
    node: usize,
    usage: ProcessUsage,
}

/// All nodes of a store.
pub(super) struct NodeWatch {
    store: StoreUrl,
    /// What the first node that answered told at the beginning.
    first: NodeFacts,
    data_dir: Option<PathBuf>,
    state: Mutex<NodesState>,
    info: Mutex<InfoClient>,
}

#[derive(Default)]
struct NodesState {
    nodes: Vec<Watched>,
    seen: BTreeMap<u32, Seen>,
}

impl NodeWatch {
    /// Asks every node of `map` who it is.
    pub(super) fn new(map: &SlotMap, store: &StoreUrl) -> io::Result<Self> {
        let mut state = NodesState::default();
        for address in map.nodes() {
            let local = address.resolve().is_ok_and(|place| place.ip().is_loopback());
            state.nodes.push(Watched { address: address.clone(), local, told: None, process: None, data_dir: None });
        }
        for node in 0..state.nodes.len() {
            state.ask(node, store, AT_FIRST_WITHIN);
        }
        let first = state.nodes.iter().find_map(|node| node.told.clone());
        let first = first.ok_or_else(|| io::Error::other(format!("no node of {store} answers INFO")))?;
        let data_dir = state.nodes.iter().find_map(|node| node.data_dir.clone());
        state.look();
        Ok(Self { store: store.clone(), first, data_dir, state: Mutex::new(state), info: Mutex::default() })
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, NodesState> {
        self.state.lock()
    }

    pub(super) fn count(&self) -> usize {
        self.state().nodes.len()
    }

    /// A setting, as the first node that answered has it.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.first.settings.get(name).map(String::as_str)
    }

    /// Product and version.
    pub(super) fn system(&self) -> String {
        let product = [("basalt_version", "Basalt"), ("valkey_version", "Valkey"), ("redis_version", "Redis")];
        let named = product.iter().find_map(|(field, name)| Some(format!("{name} {}", self.first.info.get(*field)?)));
        named.unwrap_or_else(|| "unknown".to_owned())
    }

    /// Followers of a server that is no cluster.
    pub(super) fn followers(&self) -> Option<usize> {
        self.first.info.get("connected_slaves")?.parse().ok()
    }

    /// The memory that all nodes may use together.
    pub(super) fn memory_budget(&self) -> Option<u64> {
        let budget = |node: &Watched| node.told.as_ref()?.settings.get("memory")?.parse::<u64>().ok();
        self.state().nodes.iter().filter_map(budget).reduce(u64::saturating_add)
    }

    pub(super) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// Notes what each process has used; a node whose process is gone is asked for its new one.
    pub(super) fn look(&self) {
        let mut state = self.state();
        for node in state.look() {
            state.ask(node, &self.store, WITHIN);
        }
    }

    /// The processes that are known, by their nodes' addresses.
    pub(super) fn processes(&self) -> Vec<(String, u32)> {
        let state = self.state();
        state.nodes.iter().filter_map(|node| Some((node.address.to_string(), node.process?))).collect()
    }

    /// What the nodes tell now. A node that has joined the store meanwhile is watched from now on.
    pub(super) fn node_infos(&self) -> Vec<(String, super::InfoFields)> {
        let mut info = self.info.lock();
        let known: Vec<Address> = self.state().nodes.iter().map(|node| node.address.clone()).collect();
        let told = known.iter().filter_map(|address| Some((address.clone(), info.ask(&self.store, address)?)));
        let told: Vec<(Address, super::InfoFields)> = told.collect();
        if let Some(nodes) = told.first().and_then(|(address, _)| info.nodes(&self.store, address)) {
            nodes.into_iter().filter(|address| !known.contains(address)).for_each(|address| self.add(address));
        }
        told.into_iter().map(|(address, told)| (address.to_string(), told)).collect()
    }

    fn add(&self, address: Address) {
        let local = address.resolve().is_ok_and(|place| place.ip().is_loopback());
        let mut state = self.state();
        state.nodes.push(Watched { address, local, told: None, process: None, data_dir: None });
        let last = state.nodes.len() - 1;
        state.ask(last, &self.store, WITHIN);
    }

    pub(super) fn usage(&self) -> TargetUsage {
        self.look();
        let state = self.state();
        sum_of(state.nodes.iter().enumerate().map(|(index, node)| {
            let processes = || state.seen.values().filter(|seen| seen.node == index).map(|seen| seen.usage);
            let cpu = processes().map(|usage| usage.cpu).reduce(add_cpu);
            NodeUse {
                name: node.address.to_string(),
                cpu,
                peak_rss_bytes: processes().filter_map(|usage| usage.peak_rss_bytes).max(),
                disk_bytes: node.data_dir.as_deref().and_then(disk_bytes),
            }
        }))
    }
}

/// What all nodes together have used.
pub(super) fn sum_of(nodes: impl Iterator<Item = NodeUse>) -> TargetUsage {
    let mut usage = TargetUsage { nodes: nodes.collect(), ..TargetUsage::default() };
    let total = |of: fn(&NodeUse) -> Option<u64>| usage.nodes.iter().filter_map(of).reduce(u64::saturating_add);
    (usage.disk_bytes, usage.peak_rss_bytes) = (total(|node| node.disk_bytes), total(|node| node.peak_rss_bytes));
    // A sum that lacks a node would flatter the store.
    let cpus: Option<Vec<CpuTime>> = usage.nodes.iter().map(|node| node.cpu).collect();
    usage.server_cpu = cpus.and_then(|cpus| cpus.into_iter().reduce(add_cpu));
    usage
}

pub(super) fn add_cpu(a: CpuTime, b: CpuTime) -> CpuTime {
    CpuTime { user_s: a.user_s + b.user_s, system_s: a.system_s + b.system_s }
}

impl NodesState {
    /// Notes what each process has used, and answers the nodes on this machine whose process is not known, or is gone.
    fn look(&mut self) -> Vec<usize> {
        let mut lost = Vec::new();
        for (index, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.local) {
            match node.process.and_then(|id| Some((id, ProcessUsage::of(id)?))) {
                Some((id, usage)) => _ = self.seen.insert(id, Seen { node: index, usage }),
                None => {
                    node.process = None;
                    lost.push(index);
                }
            }
        }
        lost
    }

    fn ask(&mut self, index: usize, store: &StoreUrl, within: Duration) {
        let node = &mut self.nodes[index];
        let one = store.with_seeds(vec![node.address.clone()]);
        let Ok(told) = ask(&one, within) else { return };
        if node.local {
            node.process = told.process(&node.address);
            node.data_dir = if node.process.is_some() { data_dir(&told.settings, node.process) } else { None };
        }
        node.told = Some(told);
    }
}

fn ask(store: &StoreUrl, within: Duration) -> io::Result<NodeFacts> {
    let mut client = Client::open_within(store, within, within)?;
    let info = value_text(&client.call_here(&[b"INFO"])?).unwrap_or_default();
    let told_s = machine_up_s();
    let pairs = info.lines().filter_map(|line| line.trim().split_once(':'));
    let mut told = NodeFacts {
        info: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        told_s,
        settings: HashMap::new(),
    };
    for name in SETTINGS {
        if let Some(value) = setting(&client.call_here(&[b"CONFIG", b"GET", name.as_bytes()])?) {
            told.settings.insert(name.to_owned(), value);
        }
    }
    Ok(told)
}

fn value_text(value: &Value) -> Option<String> {
    value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// The one value of an answer to CONFIG GET.
fn setting(answer: &Value) -> Option<String> {
    match answer {
        Value::Array(pair) => value_text(pair.get(1)?),
        Value::Map(pairs) => value_text(&pairs.first()?.1),
        _ => None,
    }
}

/// What holds the data: Basalt's directory is its own, Redis's may hold anything. One that is not absolute is seen from
/// where the process works, not from here.
fn data_dir(settings: &HashMap<String, String>, process: Option<u32>) -> Option<PathBuf> {
    let dir = settings.get("dir").map(PathBuf::from)?;
    let dir = if dir.is_absolute() {
        dir
    } else {
        // The dots of a path are nothing that a report should show.
        std::fs::read_link(format!("/proc/{}/cwd", process?)).ok()?.join(dir).canonicalize().ok()?
    };
    if settings.contains_key("durability") {
        return Some(dir);
    }
    let appends = settings.get("appendonly").is_some_and(|value| value == "yes");
    appends.then(|| dir.join("appendonlydir"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_is_believed_if_it_was_started_as_told_or_listens_there() {
        let own = std::process::id();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = |port: u16| Address { host: "127.0.0.1".to_owned(), port };
        let (here, elsewhere) = (at(listener.local_addr().unwrap().port()), at(1));
        // It told so when this process had been up for so long.
        let told_s = started_s(own).map(|started_s| started_s + 500.7);
        for (id, up_s, address, believed) in [
            (own, "500", &elsewhere, true),
            (own, "499", &elsewhere, true),
            (own, "497", &elsewhere, false),
            (own, "503", &elsewhere, false),
            // As that of a container whose first process bears the id of another one of this machine.
            (own, "40", &elsewhere, false),
            (own, "", &elsewhere, false),
            (own, "40", &here, true),
            (own, "", &here, true),
            (u32::MAX, "500", &here, false),
        ] {
            let info = [("process_id", id.to_string()), ("uptime_in_seconds", up_s.to_owned())];
            let info = info.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let told = NodeFacts { info, told_s, settings: HashMap::new() };
            assert_eq!(told.process(address), believed.then_some(id), "{id} {up_s} {address}");
        }
    }

    #[test]
    fn a_relative_directory_is_seen_from_the_process() {
        let own = Some(std::process::id());
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        for (dir, durability, found) in [
            ("/data", true, Some(PathBuf::from("/data"))),
            ("./src", true, Some(here.join("src"))),
            ("./nowhere", true, None),
            ("/data", false, None),
        ] {
            let mut settings = HashMap::from([("dir".to_owned(), dir.to_owned())]);
            if durability {
                settings.insert("durability".to_owned(), "sync".to_owned());
            }
            assert_eq!(data_dir(&settings, own), found, "{dir}");
        }
        let relative = HashMap::from([("dir".to_owned(), "src".to_owned())]);
        assert_eq!(data_dir(&relative, None), None);
    }
}

//! The processes of a store that tells nothing of itself, watched from outside: on this machine they are known by the
//! addresses at which they listen.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs;
use std::net::ToSocketAddrs as _;
use std::path::PathBuf;

use super::super::nodes::{add_cpu, sum_of};
use super::super::{NodeUse, TargetUsage};
use crate::machine::listeners::listeners;
use crate::machine::usage::{ProcessUsage, disk_bytes};

/// Tells a server's process, and its watcher, where its data is.
pub const DATA_VARIABLE: &str = "BASALT_PEER_DATA";

struct Node {
    name: String,
    process: Option<u32>,
    data_dir: Option<PathBuf>,
    /// What each process that it has been had used when it was last seen.
    seen: BTreeMap<u32, ProcessUsage>,
}

/// The nodes that an adapter told.
pub(super) struct ProcessWatch(Mutex<Vec<Node>>);

impl ProcessWatch {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let node = |name: &str| Node { name: name.to_owned(), process: None, data_dir: None, seen: BTreeMap::new() };
        let watch = Self(Mutex::new(names.map(node).collect()));
        watch.look();
        watch
    }

    /// Notes what each process has used; a node whose process is gone is looked for.
    pub(super) fn look(&self) {
        let mut nodes = self.0.lock();
        for node in nodes.iter_mut() {
            let used = node.process.and_then(|id| Some((id, ProcessUsage::of(id)?)));
            node.process = used.map(|(id, _)| id);
            node.seen.extend(used);
        }
        let places: Vec<_> = nodes.iter().map(|node| local(&node.name).filter(|_| node.process.is_none())).collect();
        let asked: Vec<_> = places.iter().flatten().copied().collect();
        if asked.is_empty() {
            return;
        }
        let mut found = listeners(&asked).into_iter();
        for (node, _) in nodes.iter_mut().zip(&places).filter(|(_, place)| place.is_some()) {
            let Some(id) = found.next().flatten() else { continue };
            node.process = Some(id);
            node.data_dir = data_dir(id).or(node.data_dir.take());
            node.seen.extend(ProcessUsage::of(id).map(|usage| (id, usage)));
        }
    }

    /// The processes that are known, by their nodes' names.
    pub(super) fn processes(&self) -> Vec<(String, u32)> {
        let nodes = self.0.lock();
        nodes.iter().filter_map(|node| Some((node.name.clone(), node.process?))).collect()
    }

    pub(super) fn usage(&self) -> TargetUsage {
        self.look();
        let nodes = self.0.lock();
        sum_of(nodes.iter().map(|node| NodeUse {
            name: node.name.clone(),
            cpu: node.seen.values().map(|usage| usage.cpu).reduce(add_cpu),
            peak_rss_bytes: node.seen.values().filter_map(|usage| usage.peak_rss_bytes).max(),
            disk_bytes: node.data_dir.as_deref().and_then(disk_bytes),
        }))
    }

    /// The first node's data directory.
    pub(super) fn data_dir(&self) -> Option<PathBuf> {
        self.0.lock().iter().find_map(|node| node.data_dir.clone())
    }
}

/// Where a node is, if that is on this machine.
fn local(name: &str) -> Option<std::net::SocketAddr> {
    name.to_socket_addrs().ok()?.find(|place| place.ip().is_loopback())
}

/// What `basalt bench peer up` told the process of its data.
fn data_dir(process: u32) -> Option<PathBuf> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(DATA_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    Some(PathBuf::from(String::from_utf8(value.to_vec()).ok()?))
}

//! What the nodes of a store on this machine tell of themselves.

use super::local_store::LocalStore;
use super::roster::LocalNode;
use crate::moment::text_of_setting;
use client::{Client, Value};
use serde::Serialize;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::time::Duration;

const CONNECT_WITHIN: Duration = Duration::from_millis(250);
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// The codes of errors to who is not known, may not ask, or comes without TLS.
const CLOSED: [&str; 4] = ["NOAUTH ", "NOPERM ", "WRONGPASS ", "DENIED "];

/// All nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sight {
    /// Whether all nodes run, see each other, and all shards have leaders.
    pub healthy: bool,
    /// Shards of the store, and how many of them have a leader, as the node tells that sees most.
    pub shards: u64,
    /// See `shards`.
    pub shards_led: u64,
    /// Operations a second, of all nodes.
    pub operations_per_s: u64,
    /// In order of their numbers.
    pub nodes: Vec<NodeSight>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeSight {
    /// From 1 on.
    pub number: usize,
    /// Where clients reach it.
    pub port: u16,
    /// Where other nodes reach it.
    pub peer_port: u16,
    /// The process, if it runs.
    pub process: Option<u32>,
    /// What it tells, if it answers.
    pub told: Option<NodeStatus>,
}

/// What one node tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// Its process.
    #[serde(skip)]
    pub process: u64,
    /// Nodes of the store.
    pub nodes: u64,
    /// Those that it can talk to, itself included.
    pub nodes_alive: u64,
    /// Shards of the store.
    pub shards: u64,
    /// Those with a leader that it knows.
    pub shards_led: u64,
    /// Replicas on it.
    pub replicas: u64,
    /// Shards that it leads.
    pub leading: u64,
    /// Keys of the shards that it leads.
    pub keys: u64,
    /// Operations a second.
    pub operations_per_s: u64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Where clients of databases reach it, as `HOST:PORT`; none if they do not.
    pub databases: Option<String>,
    /// It answers, and does not tell this program how it is, which knows no user who may ask.
    pub locked: bool,
}

impl NodeStatus {
    /// Of the text of INFO.
    pub fn parse(info: &str) -> Self {
        let fields: HashMap<&str, &str> = info.lines().filter_map(|line| line.trim().split_once(':')).collect();
        let number = |name: &str| fields.get(name).and_then(|value| value.parse().ok()).unwrap_or_default();
        let keys = fields.get("db0").and_then(|text| text.strip_prefix("keys=")?.split(',').next()?.parse().ok());
        Self {
            process: number("process_id"),
            nodes: number("nodes"),
            nodes_alive: number("nodes_alive"),
            shards: number("store_shards"),
            shards_led: number("store_shards_led"),
            replicas: number("shards"),
            leading: number("shards_leading"),
            keys: keys.unwrap_or_default(),
            operations_per_s: number("instantaneous_ops_per_sec"),
            rss_bytes: number("used_memory_rss"),
            databases: None,
            locked: false,
        }
    }

    /// Of a node that keeps it to itself.
    fn locked() -> Self {
        Self { locked: true, ..Self::default() }
    }

    /// Whether it belongs to a store and knows a leader of every shard, as far as this program may know.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.locked || self.shards > 0 && self.shards_led == self.shards
    }

    /// Whether it serves and sees all `nodes` nodes of the store.
    fn is_content(&self, nodes: usize) -> bool {
        let nodes = nodes as u64;
        self.locked || (self.serves() && self.nodes == nodes && self.nodes_alive == nodes)
    }
}

/// Looks at a store again and again over connections that it keeps.
#[derive(Default)]
pub struct Watch {
    clients: BTreeMap<usize, Client>,
}

impl Watch {
    /// Asks every node.
    pub fn look(&mut self, store: &LocalStore) -> Sight {
        let nodes = &store.roster().nodes;
        let sights: Vec<NodeSight> = nodes.iter().map(|node| self.look_at(store, node)).collect();
        let told = || sights.iter().filter_map(|node| node.told.as_ref());
        let best = told().max_by_key(|told| (told.shards_led, told.shards));
        Sight {
            healthy: sights.iter().all(|node| node.told.as_ref().is_some_and(|told| told.is_content(nodes.len()))),
            shards: best.map_or(0, |told| told.shards),
            shards_led: best.map_or(0, |told| told.shards_led),
            operations_per_s: told().map(|told| told.operations_per_s).sum(),
            nodes: sights,
        }
    }

    /// Asks one node.
    pub fn look_at(&mut self, store: &LocalStore, node: &LocalNode) -> NodeSight {
        let (number, port, peer_port) = (node.number, node.port, node.peer_port);
        let process = node.process.filter(|process| process.runs()).map(|process| process.pid);
        let told = process.and_then(|process| self.ask(store, node, process));
        if told.is_none() {
            self.clients.remove(&number);
        }
        NodeSight { number, port, peer_port, process, told }
    }

    /// What the node tells; none if another process answers at its port.
    fn ask(&mut self, store: &LocalStore, node: &LocalNode, process: u32) -> Option<NodeStatus> {
        let client = match self.clients.entry(node.number) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(none) => match Client::open_within(&store.node_url(node), CONNECT_WITHIN, ANSWER_WITHIN) {
                Ok(client) => none.insert(client),
                Err(e) if e.kind() == ErrorKind::PermissionDenied => return Some(NodeStatus::locked()),
                Err(_) => return None,
            },
        };
        let sections: [&[u8]; 6] = [b"INFO", b"server", b"stats", b"memory", b"keyspace", b"basalt"];
        match client.call_here(&sections).ok()? {
            Value::Error(text) => {
                // The next look is of another connection, which may know more.
                self.clients.remove(&node.number);
                CLOSED.iter().any(|code| text.starts_with(code)).then(NodeStatus::locked)
            }
            answer => {
                let told = answer.as_bytes().map(|text| NodeStatus::parse(&String::from_utf8_lossy(text)))?;
                if told.process != u64::from(process) {
                    return None;
                }
                let databases = client.call_here(&[b"CONFIG", b"GET", b"database-listen"]).ok()?;
                Some(NodeStatus { databases: listener_of(&databases), ..told })
            }
        }
    }
}

/// The address that CONFIG GET tells, if there is one.
fn listener_of(told: &Value) -> Option<String> {
    text_of_setting(told).filter(|address| !address.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_databases_are_is_read() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let address = Some("127.0.0.1:7100".to_owned());
        for (told, expected) in [
            (Value::Array(vec![bulk("database-listen"), bulk("127.0.0.1:7100")]), address.clone()),
            (Value::Map(vec![(bulk("database-listen"), bulk("127.0.0.1:7100"))]), address),
            (Value::Array(vec![bulk("database-listen"), bulk("")]), None),
            (Value::Array(Vec::new()), None),
            (Value::Error("NOPERM".to_owned()), None),
        ] {
            assert_eq!(listener_of(&told), expected, "{told:?}");
        }
    }

    #[test]
    fn info_is_read() {
        let told = NodeStatus::parse(
            "# Stats\r\ninstantaneous_ops_per_sec:12\r\n\r\n# Keyspace\r\ndb0:keys=7,expires=0\r\n# Basalt\r\nnodes:3\r\n\
             nodes_alive:2\r\nstore_shards:16\r\nstore_shards_led:16\r\nshards:16\r\nshards_leading:5\r\n",
        );
        assert_eq!((told.operations_per_s, told.keys, told.nodes, told.leading), (12, 7, 3, 5));
        assert!(!told.is_content(3), "one node is out of sight");
        assert!(NodeStatus { nodes_alive: 3, ..told.clone() }.is_content(3));
        assert!(!NodeStatus { nodes_alive: 3, shards_led: 15, ..told }.is_content(3));
        assert!(!NodeStatus::default().is_content(0), "there is no store yet");
    }
}

//! A store as one of its nodes sees it: what CLUSTER NODES, CLUSTER SHARDS and CLUSTER INFO say, put together.

use client::Value;
use serde::Serialize;
use std::collections::HashMap;

/// A store as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Picture {
    /// Whether all nodes are up and all slots have leaders.
    pub healthy: bool,
    /// The map's number.
    pub epoch: u64,
    /// Slots whose shards have leaders.
    pub slots_led: u64,
    /// Slots that belong to shards: none before the store is made.
    pub slots: u64,
    /// In order of their addresses.
    pub nodes: Vec<NodePicture>,
    /// In order of their slots.
    pub shards: Vec<ShardPicture>,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodePicture {
    /// 40 hexadecimal digits.
    pub id: String,
    /// Where clients reach it.
    pub address: String,
    /// Where other nodes reach it.
    pub peer_port: u16,
    /// Whether the node that was asked can talk to it, or is it.
    pub up: bool,
    /// Shards that it leads.
    pub leads: usize,
    /// Replicas on it.
    pub replicas: usize,
}

/// One shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShardPicture {
    /// First and last slot of each range.
    pub slots: Vec<(u16, u16)>,
    /// The leader first, as far as it is known.
    pub replicas: Vec<ReplicaPicture>,
}

/// One replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplicaPicture {
    /// Its node, where clients reach it.
    pub node: String,
    /// Whether it leads, or did last.
    pub leads: bool,
    /// `online`, `fail`, or `loading` for a learner.
    pub health: String,
}

impl Picture {
    /// From the answers of one node.
    ///
    /// # Errors
    /// They are not what such a node says.
    pub fn read(nodes: &str, shards: &Value, info: &str) -> Result<Self, String> {
        let facts: HashMap<&str, &str> = info.lines().filter_map(|line| line.trim().split_once(':')).collect();
        let number = |name: &str| facts.get(name).and_then(|text| text.parse::<u64>().ok());
        let number = |name: &str| number(name).ok_or_else(|| format!("CLUSTER INFO has no {name}"));
        let mut picture = Self {
            epoch: number("cluster_current_epoch")?,
            slots_led: number("cluster_slots_ok")?,
            slots: number("cluster_slots_assigned")?,
            nodes: nodes.lines().map(node).collect::<Option<_>>().ok_or("CLUSTER NODES cannot be read")?,
            shards: self::shards(shards).ok_or("CLUSTER SHARDS cannot be read")?,
            ..Self::default()
        };
        picture.shards.sort_by(|a, b| a.slots.cmp(&b.slots));
        picture.nodes.sort_by(|a, b| a.address.cmp(&b.address));
        for node in &mut picture.nodes {
            let of_node = picture.shards.iter().flat_map(|shard| &shard.replicas);
            let of_node: Vec<_> = of_node.filter(|replica| replica.node == node.address).collect();
            node.replicas = of_node.len();
            node.leads = of_node.iter().filter(|replica| replica.leads).count();
        }
        let all = u64::from(vocab::SLOT_COUNT);
        let served = picture.slots == all && picture.slots_led == all;
        picture.healthy = served && picture.nodes.iter().all(|node| node.up);
        Ok(picture)
    }
}

/// A line of CLUSTER NODES: `id host:port@peer flags - 0 0 epoch link slots…`.
fn node(line: &str) -> Option<NodePicture> {
    let mut words = line.split(' ');
    let (id, place, flags) = (words.next()?, words.next()?, words.next()?);
    let (address, peer) = place.split_once('@')?;
    Some(NodePicture {
        id: id.to_owned(),
        address: address.to_owned(),
        peer_port: peer.split(',').next()?.parse().ok()?,
        up: !flags.split(',').any(|flag| flag == "fail"),
        ..NodePicture::default()
    })
}

fn shards(answer: &Value) -> Option<Vec<ShardPicture>> {
    let Value::Array(elements) = answer else { return None };
    let shards: Vec<ShardPicture> = elements.iter().map(shard).collect::<Option<_>>()?;
    // Nodes without replicas have an element of their own, without slots.
    Some(shards.into_iter().filter(|shard| !shard.slots.is_empty()).collect())
}

fn shard(element: &Value) -> Option<ShardPicture> {
    let (Value::Array(bounds), Value::Array(nodes)) = (field(element, "slots")?, field(element, "nodes")?) else {
        return None;
    };
    let bound = |value: &Value| u16::try_from(value.as_int()?).ok();
    let range = |pair: &[Value]| Some((bound(&pair[0])?, bound(&pair[1])?));
    let replica = |server: &Value| {
        let host = text(field(server, "endpoint")?)?;
        let port = field(server, "port")?.as_int()?;
        Some(ReplicaPicture {
            node: format!("{host}:{port}"),
            leads: text(field(server, "role")?)? == "master",
            health: text(field(server, "health")?)?,
        })
    };
    Some(ShardPicture {
        slots: bounds.chunks_exact(2).map(range).collect::<Option<_>>()?,
        replicas: nodes.iter().map(replica).collect::<Option<_>>()?,
    })
}

/// A map's field: RESP2 has maps as arrays.
fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let is = |key: &Value| key.as_bytes() == Some(name.as_bytes());
    match value {
        Value::Array(flat) => flat.chunks_exact(2).find(|pair| is(&pair[0])).map(|pair| &pair[1]),
        Value::Map(pairs) => pairs.iter().find(|(key, _)| is(key)).map(|(_, value)| value),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    fn server(port: i64, role: &str, health: &str) -> Value {
        let pairs = [
            ("id", bulk("x")),
            ("port", Value::Int(port)),
            ("endpoint", bulk("h")),
            ("role", bulk(role)),
            ("health", bulk(health)),
        ];
        Value::Array(pairs.into_iter().flat_map(|(name, value)| [bulk(name), value]).collect())
    }

    fn element(slots: &[i64], nodes: Vec<Value>) -> Value {
        let slots = Value::Array(slots.iter().map(|slot| Value::Int(*slot)).collect());
        Value::Array(vec![bulk("slots"), slots, bulk("nodes"), Value::Array(nodes)])
    }

    const NODES: &str = "a h:7001@17001 master - 0 0 5 connected 0-99\n\
                         b h:7000@17000 myself,master - 0 0 5 connected 100-16383\n";
    const INFO: &str = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n\
                        cluster_current_epoch:5\r\n";

    #[test]
    fn a_store_is_read_from_what_a_node_says() {
        let shards = Value::Array(vec![
            element(&[100, 16383], vec![server(7000, "master", "online"), server(7001, "replica", "online")]),
            element(&[0, 99], vec![server(7001, "master", "online")]),
            element(&[], vec![server(7002, "master", "online")]),
        ]);
        let picture = Picture::read(NODES, &shards, INFO).unwrap();
        assert!(picture.healthy);
        let nodes: Vec<_> = picture
            .nodes
            .iter()
            .map(|node| (node.address.as_str(), node.peer_port, node.leads, node.replicas))
            .collect();
        assert_eq!(nodes, [("h:7000", 17000, 1, 1), ("h:7001", 17001, 1, 2)]);
        let slots: Vec<_> = picture.shards.iter().map(|shard| shard.slots[0]).collect();
        assert_eq!(slots, [(0, 99), (100, 16383)]);
        let dead = NODES.replace("0 master -", "0 master,fail -").replacen("1 master -", "1 master,fail -", 1);
        assert!(!Picture::read(&dead, &shards, INFO).unwrap().healthy);
        let unled = INFO.replace("slots_ok:16384", "slots_ok:100");
        assert!(!Picture::read(NODES, &shards, &unled).unwrap().healthy);
    }

    #[test]
    fn what_no_node_says_is_an_error() {
        let none = Value::Array(Vec::new());
        assert!(Picture::read("nonsense", &none, INFO).is_err());
        assert!(Picture::read(NODES, &Value::Null, INFO).is_err());
        assert!(Picture::read(NODES, &Value::Array(vec![Value::Int(1)]), INFO).is_err());
        assert!(Picture::read(NODES, &none, "").is_err());
    }
}

//! CLUSTER: what clients need to find the node of a slot. These commands do not change the store's shape.
//!
//! Clients of Redis Cluster see every node as a master of the slots whose shards it leads, be they none. A node leads some
//! shards and follows in others, so no node is shown as a replica of another. Followers are shown in replies about slots:
//! in CLUSTER SHARDS, and in CLUSTER SLOTS if the setting `cluster-slots-followers` is on. READONLY does not switch that
//! on: redis-py sends READONLY on all connections if it may read from replicas, and takes a node's role from its first
//! mention.

use super::ask::{Ask, Outcome, Refusal, Row, shown};
use crate::session::{ClusterFacts, ClusterNode, ClusterShard, Effect, SlotRange};
use resp::Reply;
use std::collections::BTreeSet;
use vocab::{NodeId, SLOT_COUNT, slot_of};

pub(super) const ROWS: &[Row] = &[
    ("CLUSTER|SLOTS", slots),
    ("CLUSTER|SHARDS", shards),
    ("CLUSTER|NODES", nodes),
    ("CLUSTER|INFO", info),
    ("CLUSTER|MYID", myid),
    ("CLUSTER|MYSHARDID", my_shard_id),
    ("CLUSTER|KEYSLOT", keyslot),
    ("CLUSTER|LINKS", links),
    ("CLUSTER|COUNT-FAILURE-REPORTS", failure_reports),
    ("CLUSTER|REPLICAS", replicas),
    ("CLUSTER|SLAVES", replicas),
];

/// The address that a client is told: the announced one, else the one that this client has connected to.
fn host_of<'a>(ask: &'a Ask<'_>, node: &'a ClusterNode) -> &'a str {
    if !node.host.is_empty() || !node.myself {
        return &node.host;
    }
    vocab::host_of(&ask.session.entry().laddr)
}

fn slots(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    let routes = facts.routes(ask.host.config().slots_with_followers());
    ask.reply.array(routes.len());
    for route in routes {
        let servers = std::iter::once(&route.leader).chain(&route.followers);
        let servers: Vec<&ClusterNode> = servers.filter_map(|id| facts.node(*id)).collect();
        ask.reply.array(2 + servers.len());
        ask.reply.int(i64::from(route.slots.0));
        ask.reply.int(i64::from(route.slots.1));
        for node in servers {
            let host = host_of(ask, node).to_owned();
            let port = node.port_for(ask.session.is_encrypted());
            let reply = &mut *ask.reply;
            reply.array(4);
            reply.bulk(host.as_bytes());
            reply.int(i64::from(port));
            reply.bulk(node.name().as_bytes());
            reply.map(0);
        }
    }
    Ok(Effect::None)
}

/// An element a shard, and one for each node that has no replica of any.
fn shards(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    let replicas = facts.shards.iter().flat_map(|shard| &shard.replicas);
    let holders: BTreeSet<NodeId> = replicas.map(|replica| replica.node).collect();
    let idle: Vec<&ClusterNode> = facts.nodes.iter().filter(|node| !holders.contains(&node.id)).collect();
    ask.reply.array(facts.shards.len() + idle.len());
    for shard in &facts.shards {
        write_ranges(&shard.slots, ask.reply);
        let mut replicas = shard.replicas.clone();
        replicas.sort_by_key(|replica| replica.node != shard.leader);
        let known = |id: NodeId| facts.node(id);
        replicas.retain(|replica| known(replica.node).is_some());
        ask.reply.array(replicas.len());
        for replica in replicas {
            let Some(node) = known(replica.node) else { continue };
            let health = match () {
                () if !node.alive => "fail",
                () if replica.learner => "loading",
                () => "online",
            };
            let role = if node.id == shard.leader { "master" } else { "replica" };
            write_server(ask, node, role, replica.index, health);
        }
    }
    for node in idle {
        write_ranges(&[], ask.reply);
        ask.reply.array(1);
        write_server(ask, node, "master", 0, if node.alive { "online" } else { "fail" });
    }
    Ok(Effect::None)
}

/// The beginning of an element of CLUSTER SHARDS.
fn write_ranges(ranges: &[SlotRange], reply: &mut Reply) {
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(ranges.len() * 2);
    for (first, last) in ranges {
        reply.int(i64::from(*first));
        reply.int(i64::from(*last));
    }
    reply.bulk(b"nodes");
}

fn write_server(ask: &mut Ask<'_>, node: &ClusterNode, role: &str, index: u64, health: &str) {
    let host = host_of(ask, node).to_owned();
    let reply = &mut *ask.reply;
    let has_tls = node.tls_port > 0;
    reply.map(7 + usize::from(has_tls));
    reply.bulk(b"id");
    reply.bulk(node.name().as_bytes());
    reply.bulk(b"port");
    reply.int(i64::from(node.port));
    if has_tls {
        reply.bulk(b"tls-port");
        reply.int(i64::from(node.tls_port));
    }
    for (field, value) in [("ip", host.as_str()), ("endpoint", &host), ("role", role)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"replication-offset");
    reply.int(index as i64);
    reply.bulk(b"health");
    reply.bulk(health.as_bytes());
}

/// The same text on every node, but for `myself` and for what this node knows of who lives.
fn nodes(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    let led = facts.led();
    let none = Vec::new();
    let line = |node: &ClusterNode| {
        let ranges = led.get(&node.id).unwrap_or(&none);
        let port = node.port_for(ask.session.is_encrypted());
        node_line(node, (host_of(ask, node), port), facts.epoch, ranges) + "\n"
    };
    let text: String = facts.nodes.iter().map(line).collect();
    ask.reply.verbatim(&text);
    Ok(Effect::None)
}

fn node_line(node: &ClusterNode, (host, port): (&str, u16), epoch: u64, ranges: &[SlotRange]) -> String {
    let flags = match (node.myself, node.alive) {
        (true, _) => "myself,master",
        (false, true) => "master",
        (false, false) => "master,fail",
    };
    let link = if node.myself || node.linked { "connected" } else { "disconnected" };
    let mut line = format!("{} {host}:{port}@{} {flags} - 0 0 {epoch} {link}", node.name(), node.peer_port);
    for (first, last) in ranges {
        line += &if first == last { format!(" {first}") } else { format!(" {first}-{last}") };
    }
    line
}

/// The state is `fail` while any slot has no leader with a majority, though the others are served.
fn info(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    let assigned: u64 = facts.shards.iter().map(ClusterShard::slot_count).sum();
    let failed: u64 = facts.shards.iter().filter(|shard| !shard.led).map(ClusterShard::slot_count).sum();
    let state = if assigned == u64::from(SLOT_COUNT) && failed == 0 { "ok" } else { "fail" };
    let figures = [
        ("cluster_slots_assigned", assigned),
        ("cluster_slots_ok", assigned.saturating_sub(failed)),
        ("cluster_slots_pfail", 0),
        ("cluster_slots_fail", failed),
        ("cluster_known_nodes", facts.nodes.len() as u64),
        ("cluster_size", facts.led().len() as u64),
        ("cluster_current_epoch", facts.epoch),
        ("cluster_my_epoch", facts.epoch),
        ("cluster_stats_messages_sent", facts.messages_sent),
        ("cluster_stats_messages_received", facts.messages_received),
        ("total_cluster_links_buffer_limit_exceeded", 0),
    ];
    let lines: String = figures.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
    ask.reply.verbatim(&format!("cluster_state:{state}\r\n{lines}"));
    Ok(Effect::None)
}

fn myid(ask: &mut Ask<'_>) -> Outcome {
    let name = ask.host.cluster_facts().myself().map(ClusterNode::name);
    ask.reply.bulk(name.ok_or("ERR this node is not part of the map yet")?.as_bytes());
    Ok(Effect::None)
}

/// A node is shown as a master without replicas, so it is its shard.
fn my_shard_id(ask: &mut Ask<'_>) -> Outcome {
    let name = ask.host.cluster_facts().myself().map(ClusterNode::shard_name);
    ask.reply.bulk(name.ok_or("ERR this node is not part of the map yet")?.as_bytes());
    Ok(Effect::None)
}

fn keyslot(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.int(i64::from(slot_of(ask.args[2]).0));
    Ok(Effect::None)
}

fn links(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    ask.reply.array(facts.links.len());
    for link in &facts.links {
        let name = format!("{:040x}", link.node.0);
        let direction = if link.outgoing { "to" } else { "from" };
        let reply = &mut *ask.reply;
        reply.map(6);
        for (field, value) in [("direction", direction), ("node", name.as_str())] {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"create-time");
        reply.int(link.opened_ms as i64);
        reply.bulk(b"events");
        reply.bulk(if link.queued_bytes > 0 { b"rw" } else { b"r" });
        for (field, value) in [("send-buffer-allocated", link.buffer_bytes), ("send-buffer-used", link.queued_bytes)] {
            reply.bulk(field.as_bytes());
            reply.int(value as i64);
        }
    }
    Ok(Effect::None)
}

fn known<'a>(facts: &'a ClusterFacts, name: &[u8]) -> Result<&'a ClusterNode, Refusal> {
    let found = facts.nodes.iter().find(|node| node.name().as_bytes().eq_ignore_ascii_case(name));
    found.ok_or_else(|| format!("ERR Unknown node {}", shown(name)).into())
}

/// Nodes do not pass on what they think of others: there is this node's own report, or none.
fn failure_reports(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    let node = known(&facts, ask.args[2])?;
    ask.reply.int(i64::from(!node.alive));
    Ok(Effect::None)
}

/// Every node is a master; a follower of a shard is not a follower of a node.
fn replicas(ask: &mut Ask<'_>) -> Outcome {
    known(&ask.host.cluster_facts(), ask.args[2])?;
    ask.reply.array(0);
    Ok(Effect::None)
}

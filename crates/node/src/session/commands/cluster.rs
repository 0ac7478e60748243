//! CLUSTER: what clients need to find the node of a slot. How a store changes its shape is not asked for here.

use super::{Ask, Outcome, SessionHandler, shown};
use crate::session::{ClusterFacts, ClusterNode, Effect};
use vocab::{SLOT_COUNT, slot_of};

pub(super) fn handler(name: &str) -> Option<SessionHandler> {
    Some(match name {
        "CLUSTER|SLOTS" => slots,
        "CLUSTER|SHARDS" => shards,
        "CLUSTER|NODES" => nodes,
        "CLUSTER|INFO" => info,
        "CLUSTER|MYID" => myid,
        "CLUSTER|KEYSLOT" => keyslot,
        "CLUSTER|LINKS" => links,
        "CLUSTER|COUNT-FAILURE-REPORTS" => failure_reports,
        "CLUSTER|REPLICAS" | "CLUSTER|SLAVES" => replicas,
        _ => return None,
    })
}

/// The address that clients are told: where none is announced, the one that this client has used, which it can reach.
fn host_of<'a>(ask: &'a Ask<'_>, node: &'a ClusterNode) -> &'a str {
    if !node.host.is_empty() || !node.myself {
        return &node.host;
    }
    let laddr = ask.session.entry().laddr.as_str();
    let host = laddr.rsplit_once(':').map_or(laddr, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Followers are not listed: with them, some clients take a node's role from its first mention and lose keys.
fn slots(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    let mut ranges: Vec<((u16, u16), &ClusterNode)> =
        facts.nodes.iter().flat_map(|node| node.merged_slots().into_iter().map(move |range| (range, node))).collect();
    ranges.sort_unstable_by_key(|(range, _)| *range);
    ask.reply.array(ranges.len());
    for ((first, last), node) in ranges {
        let host = host_of(ask, node).to_owned();
        let reply = &mut *ask.reply;
        reply.array(3);
        reply.int(i64::from(first));
        reply.int(i64::from(last));
        reply.array(4);
        reply.bulk(host.as_bytes());
        reply.int(i64::from(node.port));
        reply.bulk(node.name().as_bytes());
        reply.map(0);
    }
    Ok(Effect::None)
}

fn shards(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    ask.reply.array(facts.nodes.len());
    for node in &facts.nodes {
        let host = host_of(ask, node).to_owned();
        let reply = &mut *ask.reply;
        reply.map(2);
        reply.bulk(b"slots");
        let ranges = node.merged_slots();
        reply.array(ranges.len() * 2);
        for (first, last) in ranges {
            reply.int(i64::from(first));
            reply.int(i64::from(last));
        }
        reply.bulk(b"nodes");
        reply.array(1);
        reply.map(7);
        reply.bulk(b"id");
        reply.bulk(node.name().as_bytes());
        reply.bulk(b"port");
        reply.int(i64::from(node.port));
        for (field, value) in [("ip", host.as_str()), ("endpoint", &host), ("role", "master")] {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"replication-offset");
        reply.int(node.offset as i64);
        reply.bulk(b"health");
        reply.bulk(b"online");
    }
    Ok(Effect::None)
}

fn nodes(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    let text: String = facts.nodes.iter().map(|node| node_line(node, host_of(ask, node), facts.epoch) + "\n").collect();
    ask.reply.verbatim(&text);
    Ok(Effect::None)
}

fn node_line(node: &ClusterNode, host: &str, epoch: u64) -> String {
    let flags = if node.myself { "myself,master" } else { "master" };
    let mut line = format!("{} {host}:{}@{} {flags} - 0 0 {epoch} connected", node.name(), node.port, node.peer_port,);
    for (first, last) in node.merged_slots() {
        line += &if first == last { format!(" {first}") } else { format!(" {first}-{last}") };
    }
    line
}

fn info(ask: &mut Ask<'_>) -> Outcome {
    let facts = ask.host.cluster_facts();
    let shards = ask.host.shard_facts();
    let count = |ranges: &[(u16, u16)]| ranges.iter().map(|(first, last)| u64::from(last - first) + 1).sum::<u64>();
    let assigned: u64 = facts.nodes.iter().map(|node| count(&node.merged_slots())).sum();
    let down: Vec<(u16, u16)> = shards.iter().filter(|shard| !shard.serving).map(|shard| shard.slots).collect();
    let failed = count(&down);
    let state = if assigned == u64::from(SLOT_COUNT) && failed == 0 { "ok" } else { "fail" };
    let leaders = facts.nodes.iter().filter(|node| !node.slots.is_empty()).count();
    let figures = [
        ("cluster_slots_assigned", assigned),
        ("cluster_slots_ok", assigned.saturating_sub(failed)),
        ("cluster_slots_pfail", 0),
        ("cluster_slots_fail", failed),
        ("cluster_known_nodes", facts.nodes.len() as u64),
        ("cluster_size", leaders as u64),
        ("cluster_current_epoch", facts.epoch),
        ("cluster_my_epoch", facts.epoch),
        ("cluster_stats_messages_sent", 0),
        ("cluster_stats_messages_received", 0),
        ("total_cluster_links_buffer_limit_exceeded", 0),
    ];
    let lines: String = figures.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
    ask.reply.verbatim(&format!("cluster_state:{state}\r\n{lines}"));
    Ok(Effect::None)
}

fn myid(ask: &mut Ask<'_>) -> Outcome {
    let name = ask.host.cluster_facts().nodes.iter().find(|node| node.myself).map(ClusterNode::name);
    ask.reply.bulk(name.ok_or("ERR this node is not part of the map yet")?.as_bytes());
    Ok(Effect::None)
}

fn keyslot(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.int(i64::from(slot_of(ask.args[2]).0));
    Ok(Effect::None)
}

/// A node has no links before there are other nodes.
fn links(ask: &mut Ask<'_>) -> Outcome {
    ask.reply.array(0);
    Ok(Effect::None)
}

fn known(facts: &ClusterFacts, name: &[u8]) -> Result<(), super::Refusal> {
    if facts.nodes.iter().any(|node| node.name().as_bytes().eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    Err(format!("ERR Unknown node {}", shown(name)).into())
}

fn failure_reports(ask: &mut Ask<'_>) -> Outcome {
    known(&ask.host.cluster_facts(), ask.args[2])?;
    ask.reply.int(0);
    Ok(Effect::None)
}

/// Every node leads; a follower of a shard is not a follower of a node.
fn replicas(ask: &mut Ask<'_>) -> Outcome {
    known(&ask.host.cluster_facts(), ask.args[2])?;
    ask.reply.array(0);
    Ok(Effect::None)
}

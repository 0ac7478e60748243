//! The sections about what is stored, and where it stands.

use super::section::{Facts, Lines};
use crate::DatabaseKeys;
use crate::session::{ClusterShard, ShardFacts};
use replica::DiskState;
use std::collections::BTreeMap;

/// The log plays the part of Redis' append-only file.
pub(super) fn persistence(facts: &Facts<'_>, lines: &mut Lines) {
    let healthy = facts.node.disk == DiskState::Healthy;
    lines.add("loading", u8::from(facts.node.loading));
    lines.add("async_loading", 0);
    // Monitors alarm where these are missing. There is nothing to save: what is acknowledged is in the log.
    lines.add("rdb_changes_since_last_save", 0);
    lines.add("rdb_bgsave_in_progress", 0);
    lines.add("rdb_last_save_time", facts.node.started_ms / 1000);
    lines.add("rdb_last_bgsave_status", "ok");
    lines.add("aof_enabled", 1);
    lines.add("aof_rewrite_in_progress", 0);
    lines.add("aof_last_bgrewrite_status", "ok");
    lines.add("aof_last_write_status", if healthy { "ok" } else { "err" });
    lines.add("aof_current_size", facts.node.log_bytes);
}

/// The shards that this node leads: only of these does it tell clients what they hold, as others tell it of theirs.
fn led<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = &'a ShardFacts> {
    facts.shards.iter().filter(|shard| shard.status.leads)
}

/// To clients of a cluster the followers are the other nodes that hold replicas of shards that this one leads; offsets are sums of indexes.
pub(super) fn replication(facts: &Facts<'_>, lines: &mut Lines) {
    lines.add("role", "master");
    // What another node answers to clients of databases comes from this one: to them it is no replica.
    let followers = if facts.is_standalone() { Vec::new() } else { facts.cluster.followers_of_mine() };
    lines.add("connected_slaves", followers.len());
    for (i, (node, index)) in followers.iter().enumerate() {
        lines.add(
            &format!("slave{i}"),
            format_args!("ip={},port={},state=online,offset={index},lag=0", node.host, node.port),
        );
    }
    lines.add("master_failover_state", "no-failover");
    lines.add("master_replid", &facts.node.run_id);
    lines.add("master_repl_offset", led(facts).map(|shard| shard.status.applied).sum::<u64>());
}

pub(super) fn cluster(facts: &Facts<'_>, lines: &mut Lines) {
    lines.add("cluster_enabled", u8::from(!facts.is_standalone()));
}

pub(super) fn keyspace(facts: &Facts<'_>, lines: &mut Lines) {
    if facts.is_standalone() {
        // What a follower counts is as good here, and tells of what other nodes lead.
        let databases = facts.shards.iter().flat_map(|shard| &shard.databases);
        let number = |of: &DatabaseKeys| facts.host.database_at(of.database).number();
        let mut databases: Vec<_> = databases.map(|of| (number(of), of)).collect();
        databases.sort_unstable_by_key(|(number, _)| *number);
        for (number, DatabaseKeys { keys, expiring, .. }) in databases {
            lines.add(&format!("db{number}"), format_args!("keys={keys},expires={expiring},avg_ttl=0"));
        }
        return;
    }
    let databases = led(facts).flat_map(|shard| &shard.databases);
    let mut others = databases.fold((0, 0), |(keys, expiring), of| (keys + of.keys, expiring + of.expiring));
    let mut numbered: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for of in led(facts).flat_map(|shard| &shard.cluster_databases) {
        let sum = numbered.entry(of.database.number()).or_default();
        *sum = (sum.0 + of.keys, sum.1 + of.expiring);
        others = (others.0 + of.keys, others.1 + of.expiring);
    }
    database_0(facts, others, lines);
    for (number, (keys, expiring)) in numbered {
        lines.add(&format!("db{number}"), format_args!("keys={keys},expires={expiring},avg_ttl=0"));
    }
}

/// The line of the keys that have no namespace: all but so many keys, of which so many expire.
fn database_0(facts: &Facts<'_>, others: (u64, u64), lines: &mut Lines) {
    let keys = led(facts).map(|shard| shard.keys).sum::<u64>().saturating_sub(others.0);
    if keys == 0 {
        return;
    }
    let expires: Option<u64> = led(facts).map(|shard| shard.expires).sum();
    let expires = expires.map(|expires| expires.saturating_sub(others.1));
    match expires {
        Some(expires) => lines.add("db0", format_args!("keys={keys},expires={expires},avg_ttl=0")),
        None => lines.add("db0", format_args!("keys={keys}")),
    }
}

pub(super) fn basalt(facts: &Facts<'_>, lines: &mut Lines) {
    let (node, shards, config) = (&facts.node, &facts.shards, facts.host.config());
    for name in ["engine", "durability", "acks", "consistency", "compression"] {
        lines.add_known(name, config.text(name));
    }
    lines.add("workers", node.workers);
    lines.add("epoch", facts.cluster.epoch);
    lines.add("nodes", facts.cluster.nodes.len());
    lines.add("nodes_alive", facts.cluster.nodes.iter().filter(|node| node.alive).count());
    lines.add("peer_links", node.tls.links);
    lines.add("peer_links_encrypted", node.tls.links_encrypted);
    lines.add("store_shards", facts.cluster.shards.len());
    lines.add("store_shards_led", facts.cluster.shards.iter().filter(|shard| shard.led).count());
    let learners = |shard: &ClusterShard| shard.replicas.iter().filter(|replica| replica.learner).count();
    lines.add("store_learners", facts.cluster.shards.iter().map(learners).sum::<usize>());
    lines.add("shards", shards.len());
    lines.add("shards_leading", shards.iter().filter(|shard| shard.status.leads).count());
    lines.add("shards_serving", shards.iter().filter(|shard| shard.serving).count());
    lines.add(
        "disk_state",
        match node.disk {
            DiskState::Healthy => "healthy",
            DiskState::Full => "full",
            DiskState::Short => "short",
            DiskState::Poisoned => "poisoned",
        },
    );
    lines.add("disk_reason", &node.disk_reason);
    lines.add("log_bytes", node.log_bytes);
    let behind = shards.iter().map(|shard| shard.status.committed.saturating_sub(shard.status.applied));
    lines.add("log_entries_unapplied", behind.sum::<u64>());
    let unflushed = shards.iter().map(|shard| shard.status.applied.saturating_sub(shard.status.truncated));
    lines.add("log_entries_kept", unflushed.sum::<u64>());
    lines.add("tree_bytes", shards.iter().map(|shard| shard.engine.disk_bytes).sum::<u64>());
    lines.add("memtable_bytes", facts.memory.memtable_bytes);
    lines.add("l0_runs_max", shards.iter().map(|shard| shard.engine.l0_runs).max().unwrap_or(0));
    lines.add("blob_files", shards.iter().map(|shard| shard.engine.blob_files).sum::<usize>());
    lines.add("blob_stale_bytes", shards.iter().map(|shard| shard.engine.blob_stale_bytes).sum::<u64>());
    lines.add("unwanted_bytes", shards.iter().map(|shard| shard.engine.unwanted_bytes).sum::<u64>());
    lines.add("debt_max", format_args!("{:.3}", shards.iter().map(|shard| shard.debt).fold(0.0, f64::max)));
    lines.add("flushes_running", node.flushes_running);
    lines.add("flushes", node.flushes);
    lines.add("compactions_running", node.compactions_running);
    lines.add("compactions", node.compactions);
    transfers(facts, lines);
    lines.add("cache_bytes", node.cache_bytes);
    lines.add("cache_hits", node.cache_hits);
    lines.add("cache_misses", node.cache_misses);
    for shard in shards {
        lines.add(
            &format!("shard{}", shard.id),
            format_args!(
                "slots={}-{},role={},keys={},term={},applied={},committed={},tree_bytes={},memtable_bytes={},l0_runs={}",
                shard.slots.0,
                shard.slots.1,
                if shard.status.leads { "leader" } else { "follower" },
                shard.keys,
                shard.status.term,
                shard.status.applied,
                shard.status.committed,
                shard.engine.disk_bytes,
                shard.engine.memtable_bytes,
                shard.engine.l0_runs,
            ),
        );
    }
}

/// Snapshots on their way: each direction as a whole, then one by one.
fn transfers(facts: &Facts<'_>, lines: &mut Lines) {
    let all = &facts.node.transfers;
    for (name, inbound) in [("in", true), ("out", false)] {
        let of = || all.iter().filter(|transfer| transfer.inbound == inbound);
        lines.add(&format!("transfers_{name}"), of().count());
        lines.add(&format!("transfers_{name}_bytes"), of().map(|transfer| transfer.bytes).sum::<u64>());
        lines.add(&format!("transfers_{name}_bytes_per_sec"), of().map(|transfer| transfer.rate).sum::<u64>());
    }
    for (i, transfer) in all.iter().enumerate() {
        lines.add(
            &format!("transfer{i}"),
            format_args!(
                "direction={},shard={},node={},bytes={},bytes_approx={},bytes_per_sec={},seconds={}",
                if transfer.inbound { "in" } else { "out" },
                transfer.shard,
                transfer.node,
                transfer.bytes,
                transfer.bytes_approx,
                transfer.rate,
                transfer.seconds,
            ),
        );
    }
}

//! A look at the whole store: the rules of placement, the map against what nodes have, and the replicas of each shard
//! against each other, as of one entry. Runs aside, one shard after the other, on the node that was asked for it.

use super::error::{AdminError, decode};
use super::findings::rules;
use super::query::NodeQuery;
use super::sight::lacks_majority;
use crate::os::{NICE_BACKGROUND, now_ms, set_niceness};
use crate::peers::call_leader;
use crate::shared::{Finding, NodeShared, Progress};
use cluster::Map;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{NodeId, Prng, ShardId};

/// Between two looks at what a node has found.
const PAUSE: Duration = Duration::from_millis(50);
/// What differs between map and nodes counts if it still does after so long.
const SETTLED: Duration = Duration::from_secs(3);
/// How long a replica may take to come to the mark.
const MARKED_WITHIN: Duration = Duration::from_secs(15);

pub(super) fn state(store: &NodeShared) -> Value {
    let progress = store.verification.lock().clone();
    let mut shown = json!(progress);
    shown["node"] = json!(store.node().to_string());
    if progress.state.is_empty() {
        shown["state"] = json!("never");
    }
    shown
}

pub(super) fn stop(store: &NodeShared) -> Value {
    store.verification.set_stop(true);
    state(store)
}

pub(super) fn start(store: &Arc<NodeShared>, shards: &[ShardId]) -> Result<Value, AdminError> {
    let known = store.known().map.clone();
    let map = known.ok_or_else(|| AdminError::Unavailable("this node belongs to no store yet".to_owned()))?;
    if let Some(unknown) = shards.iter().find(|shard| !map.shards.contains_key(shard)) {
        return Err(AdminError::NotFound(format!("the store has no shard {unknown}")));
    }
    let is_whole = shards.is_empty();
    let chosen: Vec<ShardId> = if is_whole { map.shards.keys().copied().collect() } else { shards.to_vec() };
    {
        let mut progress = store.verification.lock();
        if progress.state == "running" {
            return Err(AdminError::Refused("this node compares replicas already; VERIFY STATUS tells".to_owned()));
        }
        let (began_ms, shards) = (now_ms(), chosen.len());
        *progress = Progress { state: "running", began_ms, shards, ..Progress::default() };
        store.verification.set_stop(false);
    }
    let running = store.clone();
    let run = move || {
        set_niceness(NICE_BACKGROUND);
        let (unreachable, damaged) = (BTreeSet::new(), BTreeMap::new());
        Look { store: running.clone(), map, unreachable, damaged }.run(chosen, is_whole);
    };
    if let Err(e) = std::thread::Builder::new().name("verify".to_owned()).spawn(run) {
        store.verification.lock().state = "stopped";
        return Err(AdminError::Failed(e.to_string()));
    }
    Ok(state(store))
}

/// A look that is under way.
struct Look {
    store: Arc<NodeShared>,
    map: Arc<Map>,
    /// Nodes that did not answer: they are not asked again.
    unreachable: BTreeSet<NodeId>,
    /// Replicas that their nodes cannot open, and why: they never come to a mark.
    damaged: BTreeMap<(NodeId, u32), String>,
}

impl Look {
    /// Looks at these shards; with `is_whole` at those too that are split off meanwhile: what they have may have been another's that was
    /// not looked at before.
    fn run(mut self, shards: Vec<ShardId>, is_whole: bool) {
        let up = |node: NodeId| node == self.store.node() || self.store.peers.is_up(node);
        for finding in rules(&self.map, &up) {
            self.store.verification.found(finding);
        }
        self.compare_with_nodes();
        let mut prng = Prng::new(now_ms() ^ self.store.node().0);
        let mut listed: BTreeSet<ShardId> = shards.iter().copied().collect();
        let mut left = VecDeque::from(shards);
        while !self.is_over() {
            if let Some(map) = &self.store.known().map {
                self.map = map.clone();
            }
            if is_whole {
                let new: Vec<ShardId> = self.map.shards.keys().copied().filter(|shard| listed.insert(*shard)).collect();
                self.store.verification.lock().shards += new.len();
                left.extend(new);
            }
            let Some(shard) = left.pop_front() else { break };
            // Fits every reader of JSON.
            self.compare_replicas(shard, prng.next_u64() >> 12);
            self.store.verification.lock().shards_done += 1;
        }
        let stopped = self.is_over();
        let mut progress = self.store.verification.lock();
        progress.ended_ms = now_ms();
        progress.state = if stopped { "stopped" } else { "done" };
        progress.result = match (progress.findings.is_empty(), progress.missing.is_empty() && !stopped) {
            (false, _) => Some("wrong"),
            (true, true) => Some("ok"),
            (true, false) => Some("incomplete"),
        };
    }

    fn is_over(&self) -> bool {
        self.store.is_stopping() || self.store.verification.stop_asked()
    }

    fn named(&self, node: NodeId) -> String {
        match self.map.nodes.get(&node) {
            Some(info) => format!("node {node} ({}:{})", info.client_host, info.client_port),
            None => format!("node {node}"),
        }
    }

    /// The map against the replicas that nodes have. What is on its way settles within a moment.
    fn compare_with_nodes(&mut self) {
        let mut before: Option<BTreeSet<Finding>> = None;
        let until = Instant::now() + SETTLED;
        loop {
            if let Some(map) = &self.store.known().map {
                self.map = map.clone();
            }
            let mut found = BTreeSet::new();
            for node in self.map.nodes.keys().copied().collect::<Vec<_>>() {
                self.compare_with_node(node, &mut found);
            }
            let still: BTreeSet<Finding> = match &before {
                None => found,
                Some(before) => found.intersection(before).cloned().collect(),
            };
            if still.is_empty() || Instant::now() >= until || self.is_over() {
                still.into_iter().for_each(|finding| self.store.verification.found(finding));
                return;
            }
            before = Some(still);
            std::thread::sleep(PAUSE * 4);
        }
    }

    fn compare_with_node(&mut self, node: NodeId, found: &mut BTreeSet<Finding>) {
        let told = match NodeQuery::Replicas.ask(&self.store, node) {
            Ok(told) => told,
            Err(error) => {
                self.unreachable.insert(node);
                return self.store.verification.missed(format!("{}: {}", self.named(node), error.text()));
            }
        };
        let replicas = told["replicas"].as_array().cloned().unwrap_or_default();
        let shard_of = |replica: &Value| replica["shard"].as_u64().and_then(|id| u32::try_from(id).ok());
        let mut has: BTreeSet<u32> = replicas.iter().filter_map(shard_of).collect();
        for damaged in told["damaged"].as_array().into_iter().flatten() {
            let Some(shard) = shard_of(damaged) else { continue };
            let why = damaged["why"].as_str().unwrap_or("unknown").to_owned();
            has.insert(shard);
            self.damaged.insert((node, shard), why);
        }
        let given: BTreeMap<u32, bool> =
            self.map.replicas_on(node).map(|(shard, replica)| (shard.0, replica.member)).collect();
        let name = self.named(node);
        for (shard, _) in given.iter().filter(|(shard, member)| **member && !has.contains(shard)) {
            let text = format!("{name} has no replica of shard {shard}, which the map gives it");
            found.insert(Finding::new("replica", Some(*shard), text));
        }
        for shard in has.iter().filter(|shard| !given.contains_key(shard)) {
            let text = format!("{name} has a replica of shard {shard}, which the map does not give it");
            found.insert(Finding::new("replica", Some(*shard), text));
        }
    }

    /// The replicas of one shard, as of one entry.
    fn compare_replicas(&self, shard: ShardId, comparison: u64) {
        let verification = &self.store.verification;
        let Some(info) = self.map.shards.get(&shard) else { return };
        if lacks_majority(&self.store, shard) {
            return verification.missed(format!("shard {shard}: it has lost its majority"));
        }
        let number = comparison.to_string();
        let args: [&[u8]; 3] = [b"KV.ADMIN", b"MARK", number.as_bytes()];
        let marked = call_leader(&self.store, shard, &args).map_err(|text| AdminError::of_reply(&text));
        if let Err(error) = marked.and_then(|frame| decode(&frame)) {
            return verification.missed(format!("shard {shard}: {}", error.text()));
        }
        let nodes = info.voters().map(|replica| replica.node).filter(|node| !self.unreachable.contains(node));
        let nodes: Vec<NodeId> = nodes.collect();
        let mut digests: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for node in nodes {
            match self.digest(node, shard, comparison) {
                Ok(told) => {
                    verification.lock().bytes += told["bytes"].as_u64().unwrap_or(0);
                    let text = format!("{} ({} rows)", told["digest"].as_str().unwrap_or("?"), told["rows"]);
                    digests.entry(text).or_default().push(self.named(node));
                }
                Err(Some(damage)) => {
                    let text = format!("the replica on {} cannot be read: {damage}", self.named(node));
                    verification.found(Finding::new("damage", Some(shard.0), text));
                }
                Err(None) => {}
            }
        }
        if digests.len() > 1 {
            let parts = digests.iter().map(|(digest, nodes)| format!("{digest} on {}", nodes.join(", ")));
            let text = format!("replicas differ: {}", parts.collect::<Vec<_>>().join("; "));
            verification.found(Finding::new("checksum", Some(shard.0), text));
        }
    }

    /// What a replica holds, once its node has read it all; what is damaged, or none if nothing could be learned.
    fn digest(&self, node: NodeId, shard: ShardId, comparison: u64) -> Result<Value, Option<String>> {
        let missed = |why: &str| {
            self.store.verification.missed(format!("shard {shard} on {}: {why}", self.named(node)));
            Err(None)
        };
        if let Some(why) = self.damaged.get(&(node, shard.0)) {
            return Err(Some(why.clone()));
        }
        let (mut until, mut last) = (Instant::now() + MARKED_WITHIN, Value::Null);
        loop {
            let told = NodeQuery::Digest(comparison).ask(&self.store, node);
            if let Ok(told) = &told {
                match told["state"].as_str() {
                    Some("done") => return Ok(told.clone()),
                    Some("failed") => return Err(Some(told["error"].as_str().unwrap_or("unknown").to_owned())),
                    // It goes on.
                    Some("running") if *told != last => until = Instant::now() + MARKED_WITHIN,
                    _ => {}
                }
                last = told.clone();
            }
            if Instant::now() >= until || self.is_over() {
                return match told {
                    Ok(_) => missed("it did not come to the entry that is compared in time"),
                    Err(error) => missed(error.text()),
                };
            }
            std::thread::sleep(PAUSE);
        }
    }
}

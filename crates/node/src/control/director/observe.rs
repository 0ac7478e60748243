//! What the director knows of nodes and shards: everything that nodes have reported.

use crate::peer_protocol::{DivisionReport, LeaderReport, NodeFigures, NodeReport, TransferReport};
use cluster::Settings;
use cluster::placement::Observed;
use cluster::{Map, PlanKind};
use std::collections::{BTreeMap, BTreeSet};
use vocab::{Moment, NodeId, ReplicaId, ShardId};

/// A node from which no message came for this long, in µs, counts as silent.
pub(super) const SILENT_US: u64 = 3_000_000;
/// A node that has answered for this long without a pause, in µs, can be given a replica.
pub(super) const SETTLED_US: u64 = 2_000_000;
/// For this long, in µs, a new director draws no conclusion from reports that did not come.
pub(super) const GRACE_US: u64 = 3_000_000;
/// After this node has stood still, what nodes had sent before comes within this time, in µs: some may have died meanwhile.
const SENT_BEFORE_US: u64 = 1_000_000;
/// The time over which a shard's operations are counted for its rate, in µs.
const RATE_US: u64 = 5_000_000;
/// After a leader has reported that it leads no more, the next one reports within this time, in µs: an election, and
/// the time between reports.
const HANDED_US: u64 = 2_500_000;
/// What a shard counts for beside its rows, in bytes, so that small shards count alike.
const SHARD_BYTES: u64 = 16 << 20;

/// What one node has reported.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeSeen {
    /// Since when it answers without a pause, in µs.
    pub(super) since_us: u64,
    /// When it was last heard, in µs; later by the time that this node stood still since.
    pub(super) heard_us: u64,
    /// When it was last heard, in µs, as it was.
    spoke_us: u64,
    pub(super) figures: Option<NodeFigures>,
    pub(super) transfers: Vec<TransferReport>,
    /// Commands a second in the last few seconds.
    pub(super) rate: f64,
    counted: (u64, u64),
}

/// What a node has reported of one of its replicas.
#[derive(Clone, Debug)]
pub(super) struct ReplicaSeen {
    pub(super) bytes: u64,
    pub(super) is_halved: bool,
    pub(super) keys: u64,
    pub(super) applied: u64,
    pub(super) last: u64,
    /// The term of that entry; 0: it is not told.
    pub(super) last_term: u64,
    pub(super) broken: Option<String>,
}

/// What a shard's leader has reported of its group.
#[derive(Clone, Debug)]
pub(super) struct LeaderSeen {
    pub(super) node: NodeId,
    pub(super) replica: ReplicaId,
    pub(super) term: u64,
    pub(super) known: LeaderReport,
    /// When its last report came, in µs.
    told_us: u64,
}

/// What nodes have reported of one shard.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardSeen {
    pub(super) replicas: BTreeMap<ReplicaId, ReplicaSeen>,
    pub(super) leader: Option<LeaderSeen>,
    pub(super) division: Option<DivisionSeen>,
    /// When its leader reported that it leads no more, in µs.
    let_go_us: Option<u64>,
}

/// Where a shard would be divided, as its leader has reported.
#[derive(Clone, Debug)]
pub(super) struct DivisionSeen {
    pub(super) known: DivisionReport,
    /// Operations a second in the last few seconds.
    pub(super) rate: f64,
    replica: ReplicaId,
    /// Since when operations are counted for the next rate, in µs, and how many there were then.
    since: (u64, u64),
}

/// All reports together.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When this node began to direct, in µs.
    pub(super) began_us: Option<u64>,
    /// When this node last found that it had stood still, in µs.
    stood_us: Option<u64>,
    pub(super) nodes: BTreeMap<NodeId, NodeSeen>,
    pub(super) shards: BTreeMap<ShardId, ShardSeen>,
    /// Shards whose leader has reported since the director last reconciled them with the map.
    pub(super) news: BTreeSet<ShardId>,
    /// The damaged replicas of each node, and since when each is known, in µs.
    broken: BTreeMap<NodeId, BTreeMap<(ShardId, ReplicaId), u64>>,
}

impl Seen {
    pub(super) fn heard(&mut self, from: NodeId, now: Moment) {
        let node = self.nodes.entry(from).or_default();
        if node.since_us == 0 || now.mono_us > node.heard_us + SILENT_US {
            node.since_us = now.mono_us;
        }
        node.heard_us = node.heard_us.max(now.mono_us);
        node.spoke_us = now.mono_us;
    }

    /// This node stood still for a while, in µs: no other node counts as silent for that time.
    pub(super) fn stood_still(&mut self, us: u64, now: Moment) {
        if us > 0 {
            self.stood_us = Some(now.mono_us);
        }
        let later = |at_us: &mut u64| *at_us = (*at_us + us).min(now.mono_us);
        self.nodes.values_mut().for_each(|node| later(&mut node.heard_us));
        self.began_us.iter_mut().for_each(later);
    }

    pub(super) fn report(&mut self, from: NodeId, report: NodeReport, now: Moment) {
        self.heard(from, now);
        let node = self.nodes.entry(from).or_default();
        node.note(&report.figures, now);
        node.transfers = report.transfers;
        node.figures = Some(report.figures);
        let broken = self.broken.entry(from).or_default();
        for replica in report.replicas {
            let id = (replica.shard, replica.replica);
            if replica.broken.is_some() {
                broken.entry(id).or_insert(now.mono_us);
            } else {
                broken.remove(&id);
            }
            let shard = self.shards.entry(replica.shard).or_default();
            if let Some(known) = replica.leads {
                let newer = shard.leader.as_ref().is_none_or(|leader| leader.term <= replica.term);
                if newer {
                    self.news.insert(replica.shard);
                    let (node, term, replica, told_us) = (from, replica.term, replica.replica, now.mono_us);
                    shard.leader = Some(LeaderSeen { node, replica, term, known, told_us });
                }
            } else if shard.leader.as_ref().is_some_and(|leader| leader.node == from) {
                (shard.leader, shard.division) = (None, None);
                shard.let_go_us = Some(now.mono_us);
            }
            if let Some(division) = replica.division
                && shard.leader.as_ref().is_some_and(|leader| leader.replica == replica.replica)
            {
                shard.note_division(division, replica.replica, now);
            }
            let seen = ReplicaSeen {
                bytes: replica.bytes,
                is_halved: replica.is_halved,
                keys: replica.keys,
                applied: replica.applied,
                last: replica.last,
                last_term: replica.last_term,
                broken: replica.broken,
            };
            shard.replicas.insert(replica.replica, seen);
        }
    }

    /// Forgets nodes, shards and replicas that the map no longer has.
    pub(super) fn keep(&mut self, map: &Map) {
        self.nodes.retain(|node, _| map.nodes.contains_key(node));
        self.shards.retain(|id, seen| {
            let Some(info) = map.shards.get(id) else { return false };
            seen.replicas.retain(|replica, _| info.replica(*replica).is_some());
            true
        });
        for broken in self.broken.values_mut() {
            broken.retain(|(shard, replica), _| map.replica(*shard, *replica).is_some());
        }
        self.broken.retain(|_, broken| !broken.is_empty());
    }

    /// Whether enough nodes have reported to conclude something from a report that did not come.
    pub(super) fn is_ready(&self, map: &Map, now: Moment) -> bool {
        let Some(began_us) = self.began_us else { return false };
        let told = |node: &NodeId| self.nodes.get(node).is_some_and(|node| node.figures.is_some());
        let holds = |node: &NodeId| map.replicas_on(*node).next().is_some();
        now.mono_us >= began_us + GRACE_US || map.nodes.keys().all(|node| told(node) || !holds(node))
    }

    /// How long ago the last message of a node came, in µs.
    pub(super) fn silent_us(&self, node: NodeId, now: Moment) -> u64 {
        let heard_us = self.nodes.get(&node).map_or(0, |node| node.heard_us);
        now.mono_us.saturating_sub(heard_us.max(self.began_us.unwrap_or(now.mono_us)))
    }

    pub(super) fn answers(&self, node: NodeId, now: Moment) -> bool {
        self.nodes.contains_key(&node) && self.silent_us(node, now) < SILENT_US
    }

    /// Whether a node can be given a replica.
    pub(super) fn can_take(&self, node: NodeId, now: Moment) -> bool {
        let figures = self.nodes.get(&node).and_then(|node| node.figures.as_ref());
        self.is_settled(node, now) && figures.is_some_and(|figures| figures.can_write)
    }

    /// Whether a node has answered for a while.
    pub(super) fn is_settled(&self, node: NodeId, now: Moment) -> bool {
        self.is_settled_for(node, SETTLED_US, now)
    }

    /// Whether a node has answered for so long without a pause.
    pub(super) fn is_settled_for(&self, node: NodeId, us: u64, now: Moment) -> bool {
        self.answers(node, now) && self.nodes.get(&node).is_some_and(|node| now.mono_us >= node.since_us + us)
    }

    /// The leader of a shard by the reports, if its node answers.
    pub(super) fn leader(&self, shard: ShardId, now: Moment) -> Option<&LeaderSeen> {
        self.shards.get(&shard)?.leader.as_ref().filter(|leader| self.answers(leader.node, now))
    }

    /// Whether something that came at that time, in µs, tells of now: it is no rest of a time before this node stood still.
    fn tells_of_now(&self, at_us: u64, now: Moment) -> bool {
        now.mono_us < at_us + SILENT_US && self.stood_us.is_none_or(|stood_us| at_us >= stood_us + SENT_BEFORE_US)
    }

    /// Whether a node is there beyond doubt. That one may have been heard, had this node not stood still, is not enough.
    pub(super) fn is_there(&self, node: NodeId, now: Moment) -> bool {
        self.nodes.get(&node).is_some_and(|node| self.tells_of_now(node.spoke_us, now))
    }

    /// Whether a shard has a leader beyond doubt.
    pub(super) fn is_led(&self, shard: ShardId, now: Moment) -> bool {
        let leader = self.shards.get(&shard).and_then(|seen| seen.leader.as_ref());
        leader.is_some_and(|leader| self.tells_of_now(leader.told_us, now))
    }

    /// The damaged replicas of a node, and what is wrong with each.
    pub(super) fn broken_on(&self, node: NodeId) -> impl Iterator<Item = (ShardId, ReplicaId, &str)> {
        self.broken.get(&node).into_iter().flatten().filter_map(|((shard, id), _)| {
            let why = self.shards.get(shard)?.replicas.get(id)?.broken.as_deref()?;
            Some((*shard, *id, why))
        })
    }

    /// For how long a replica has been known to be damaged, in µs; 0 if it is not.
    pub(super) fn broken_us(&self, node: NodeId, shard: ShardId, replica: ReplicaId, now: Moment) -> u64 {
        let since_us = self.broken.get(&node).and_then(|broken| broken.get(&(shard, replica)));
        since_us.map_or(0, |since_us| now.mono_us.saturating_sub(*since_us))
    }

    /// Whether a replica is damaged.
    pub(super) fn is_broken(&self, shard: ShardId, replica: ReplicaId) -> bool {
        let seen = self.shards.get(&shard).and_then(|seen| seen.replicas.get(&replica));
        seen.is_some_and(|seen| seen.broken.is_some())
    }

    /// Whether its leader has just reported that it leads no more: the next leader is about to report.
    pub(super) fn is_handed_over(&self, shard: ShardId, now: Moment) -> bool {
        let let_go_us = self.shards.get(&shard).and_then(|seen| seen.let_go_us);
        let_go_us.is_some_and(|at_us| now.mono_us < at_us + HANDED_US)
    }

    /// Bytes of a shard's rows: those of its leader, else those of its largest replica.
    pub(super) fn bytes(&self, shard: ShardId) -> Option<u64> {
        let seen = self.shards.get(&shard)?;
        let of_leader = seen.leader.as_ref().and_then(|leader| seen.replicas.get(&leader.replica));
        let of_others = || seen.replicas.values().map(|replica| replica.bytes).max();
        of_leader.map(|replica| replica.bytes).or_else(of_others)
    }

    /// Bytes of a shard's rows as its leader knows them, rather than estimates them.
    pub(super) fn known_bytes(&self, shard: ShardId) -> Option<u64> {
        let seen = self.shards.get(&shard)?;
        let of_leader = seen.replicas.get(&seen.leader.as_ref()?.replica)?;
        (!of_leader.is_halved).then_some(of_leader.bytes)
    }

    /// Where a shard would be divided, and its rate; none if its leader has not reported.
    pub(super) fn division(&self, shard: ShardId) -> Option<&DivisionSeen> {
        self.shards.get(&shard)?.division.as_ref()
    }

    /// What placement goes by.
    pub(super) fn observed(&self, map: &Map, settings: &Settings, now: Moment) -> Observed {
        let mut observed = Observed { leaving: map.leaving.clone(), ..Observed::default() };
        for node in map.nodes.keys() {
            let silent_us = self.silent_us(*node, now);
            if self.answers(*node, now) {
                continue;
            }
            let given_up = map.open_plans().any(|plan| plan.kind == PlanKind::Repair(*node));
            if silent_us >= settings.failure_timeout_ms * 1000 || (given_up && silent_us >= SILENT_US) {
                observed.lost.insert(*node);
            } else {
                observed.down.insert(*node);
            }
        }
        for (shard, _) in map.data_shards() {
            if let Some(bytes) = self.bytes(shard) {
                observed.bytes.insert(shard, bytes + SHARD_BYTES);
            }
        }
        observed
    }
}

impl ShardSeen {
    /// The rate is that of the last few seconds. It begins anew with another leader and after a restart.
    fn note_division(&mut self, known: DivisionReport, replica: ReplicaId, now: Moment) {
        let before = self.division.take().filter(|of| of.replica == replica && of.known.operations <= known.operations);
        let (mut rate, mut since) = before.map_or((0.0, (now.mono_us, known.operations)), |of| (of.rate, of.since));
        let passed_us = now.mono_us.saturating_sub(since.0);
        if passed_us >= RATE_US {
            rate = (known.operations - since.1) as f64 * 1e6 / passed_us as f64;
            since = (now.mono_us, known.operations);
        }
        self.division = Some(DivisionSeen { known, rate, replica, since });
    }
}

impl NodeSeen {
    /// The rate, smoothed over a few seconds.
    fn note(&mut self, figures: &NodeFigures, now: Moment) {
        let (before_us, before) = self.counted;
        let passed_us = now.mono_us.saturating_sub(before_us);
        if before_us > 0 && figures.commands >= before && passed_us > 0 {
            let rate = (figures.commands - before) as f64 * 1e6 / passed_us as f64;
            let weight = (passed_us as f64 / 2e6).min(1.0);
            self.rate += (rate - self.rate) * weight;
        }
        self.counted = (now.mono_us, figures.commands);
    }
}

//! Breaches of the rules of placement in a map: no single change is refused for them.

use crate::shared::Finding;
use cluster::Map;
use cluster::placement::ReplicasWanted;
use std::collections::{BTreeMap, BTreeSet};
use vocab::NodeId;

/// The rules that a map breaks. A zone without a node that is `up` is no place for anything.
pub(super) fn rules(map: &Map, up: &dyn Fn(NodeId) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(e) = map.validate() {
        findings.push(Finding::new("map", None, e.to_string()));
    }
    let may_hold = |node: &&cluster::NodeInfo| node.capacity > 0 && !map.leaving.contains(&node.id) && up(node.id);
    let zones: BTreeSet<&str> = map.nodes.values().filter(may_hold).map(|node| node.zone.as_str()).collect();
    let wanted_of = ReplicasWanted::of(map);
    for (id, info) in &map.shards {
        // What a step or a split is about is on its way.
        if map.steps.contains_key(id) || map.splits.iter().any(|(child, split)| child == id || split.parent == *id) {
            continue;
        }
        let mut broken = |text: String| findings.push(Finding::new("rule", Some(id.0), text));
        let (has, wanted) = (info.voters().count(), wanted_of.of_shard(*id));
        if has != wanted {
            broken(format!("{has} replicas vote, {wanted} are wanted"));
        }
        for replica in &info.replicas {
            if !replica.member || replica.learner {
                broken(format!(
                    "replica {} on node {} does not vote, and no step is under way",
                    replica.id, replica.node
                ));
            }
        }
        let mut of_zone: BTreeMap<&str, usize> = BTreeMap::new();
        for node in info.replicas.iter().filter_map(|replica| map.nodes.get(&replica.node)) {
            *of_zone.entry(&node.zone).or_default() += 1;
        }
        let allowed = wanted.div_ceil(zones.len().max(1));
        for (zone, count) in of_zone.iter().filter(|(_, count)| **count > allowed) {
            let shown = if zone.is_empty() { "without a name" } else { zone };
            broken(format!("{count} replicas are in the zone {shown}, where {allowed} would do"));
        }
    }
    let open: BTreeSet<NodeId> = map.replicas_on_leaving().collect();
    for node in open {
        if map.open_plans().next().is_none() {
            let text = format!("node {node} is to hold nothing, still holds replicas, and no plan is under way");
            findings.push(Finding::new("rule", None, text));
        }
    }
    findings
}

/// Nodes that are to leave and still hold something.
trait Leaving {
    fn replicas_on_leaving(&self) -> impl Iterator<Item = NodeId>;
}

impl Leaving for Map {
    fn replicas_on_leaving(&self) -> impl Iterator<Item = NodeId> {
        self.leaving.iter().copied().filter(|node| self.replicas_on(*node).next().is_some())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::{ReplicaId, ShardId, StoreId};

    fn map() -> Map {
        let node = |id: u64| cluster::NodeInfo {
            id: NodeId(id),
            peer_address: format!("h:{id}"),
            client_host: "h".to_owned(),
            client_port: 1,
            zone: ["a", "b", "c"][id as usize % 3].to_owned(),
            capacity: 1,
        };
        cluster::initial_map(StoreId(1), &(1..=6).map(node).collect::<Vec<_>>(), 4, 3).unwrap()
    }

    #[test]
    fn what_breaks_a_rule_is_found() {
        let texts = |map: &Map| rules(map, &|_| true).into_iter().map(|of| of.text).collect::<Vec<_>>();
        assert_eq!(texts(&map()), Vec::<String>::new());
        let mut fewer = map();
        fewer.shards.get_mut(&ShardId(1)).unwrap().replicas.pop();
        assert_eq!(texts(&fewer), ["2 replicas vote, 3 are wanted"]);
        let mut crowded = map();
        for node in crowded.nodes.values_mut().filter(|node| node.zone == "b") {
            node.zone = "a".to_owned();
        }
        crowded.nodes.values_mut().next().unwrap().zone = "b".to_owned();
        assert!(texts(&crowded).iter().any(|text| text.contains("are in the zone a")), "{:?}", texts(&crowded));
        let mut learning = map();
        learning.shards.get_mut(&ShardId(2)).unwrap().replicas[0].learner = true;
        assert_eq!(texts(&learning).len(), 2);
        // On its way.
        let step = cluster::Step { plan: vocab::PlanId(1), add: Some(ReplicaId(1)), remove: None };
        learning.steps.insert(ShardId(2), step);
        assert_eq!(texts(&learning), Vec::<String>::new());
        let mut leaving = map();
        let node = *leaving.nodes.keys().next().unwrap();
        leaving.leaving.insert(node);
        assert!(texts(&leaving).iter().any(|text| text.contains("still holds replicas")));
    }
}

//! How much belongs where: dividing by weight, the rule of zones, the size of the metadata group.

use crate::map::Map;
use crate::node_info::NodeInfo;
use vocab::ShardId;

/// Divides `total` things in proportion to `weights`, none getting more than its cap. The shares add up to `total`, as
/// far as the caps allow.
pub(super) fn shares(total: u64, weights: &[u128], caps: &[u64]) -> Vec<u64> {
    assert_eq!(weights.len(), caps.len(), "every weight has a cap");
    let mut shares = vec![0u64; weights.len()];
    let mut open: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] > 0).collect();
    let mut left = total;
    // Water-filling: cap the nodes that are full, share the rest among the others, repeat until no more become full.
    loop {
        let weight: u128 = open.iter().map(|&i| weights[i]).sum();
        let is_full = |i: usize| u128::from(left) * weights[i] >= u128::from(caps[i]) * weight;
        let (full, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|&&i| is_full(i));
        if full.is_empty() {
            break;
        }
        for i in full {
            shares[i] = caps[i].min(left);
            left -= shares[i];
        }
        open = rest;
    }
    let weight: u128 = open.iter().map(|&i| weights[i]).sum();
    let mut parts = Vec::with_capacity(open.len());
    for i in open {
        let part = u128::from(left) * weights[i];
        shares[i] = (part / weight) as u64;
        parts.push((part % weight, i));
    }
    let given: u64 = parts.iter().map(|&(_, i)| shares[i]).sum();
    parts.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let missing = if parts.is_empty() { 0 } else { left - given };
    for &(_, i) in parts.iter().take(missing as usize) {
        shares[i] += 1;
    }
    shares
}

/// The most replicas of one shard that a zone may hold, given how many nodes each zone has: the fewest with which all
/// `replicas` find a node of their own. One, if there are as many zones as replicas.
pub(super) fn zone_max(sizes: &[usize], replicas: usize) -> usize {
    let fits = |most: usize| sizes.iter().map(|&size| size.min(most)).sum::<usize>() >= replicas;
    (1..=replicas).find(|&most| fits(most)).unwrap_or(replicas.max(1))
}

/// How many replicas the metadata group is to have, with so many nodes: three; five in a store that keeps five of its
/// shards.
pub(super) fn meta_replicas(nodes: usize, replication_factor: u32) -> usize {
    let is_large = replication_factor >= 5 && nodes >= 5;
    nodes.min(if is_large { 5 } else { 3 })
}

/// How many replicas shards are to have, with the nodes that may hold any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicasWanted {
    of_meta: usize,
    of_data: usize,
}

impl ReplicasWanted {
    /// As of a map: it looks at every node, so once is enough for all shards.
    #[must_use]
    pub fn of(map: &Map) -> Self {
        let may_hold = |node: &&NodeInfo| node.capacity > 0 && !map.leaving.contains(&node.id);
        let nodes = map.nodes.values().filter(may_hold).count();
        let of_meta = meta_replicas(nodes, map.replication_factor);
        Self { of_meta, of_data: nodes.min(map.replication_factor as usize) }
    }

    /// Of one shard.
    #[must_use]
    pub fn of_shard(self, shard: ShardId) -> usize {
        if shard == ShardId::META { self.of_meta } else { self.of_data }
    }
}

/// A number that scatters what is otherwise equal, the same on every node.
pub(super) fn scatter(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    z = (z ^ (z >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    z = (z ^ (z >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    z ^ (z >> 32)
}

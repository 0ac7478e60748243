//! Which shards a backup is made of: each with its slots, together all slots of the store, each once.
//!
//! While a shard is being split the map says late whose its slots are: for a second as a rule, for ten if a replica of the new
//! shard is late. What the leaders tell counts. They are asked before any shard holds still, since those that do hold their
//! writes back while others are looked for.

use super::scatter_gather::{DIVIDED, SLOTS, ranges_text};
use crate::peers::call_each_leader;
use crate::shared::NodeShared;
use cluster::Map;
use node::SHARD_PAGE;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::ShardId;

/// For how long leaders are looked for that have all slots together: longer than an election takes.
const SETTLE_WITHIN: Duration = Duration::from_secs(4);
/// Between the first two looks. Each later pause is twice as long as the one before, up to `PAUSE_MAX`.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(320);

/// A shard, and the slots that it is taken to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) shard: ShardId,
    /// First and last slot of each range.
    pub(super) slots: Vec<(u16, u16)>,
}

impl Share {
    /// Its slots as leaders tell them.
    pub(super) fn slots_text(&self) -> String {
        ranges_text(&self.slots)
    }

    /// The error where its leader has other slots.
    pub(super) fn divided(&self) -> String {
        format!("shard {} was divided meanwhile: try again when its split is over (basalt ctl plan list)", self.shard)
    }
}

/// The splits under way that are taken to have happened, though neither the map nor a replica here says so.
#[derive(Debug, Default)]
pub(super) struct Happened(BTreeSet<ShardId>);

impl Happened {
    /// The shards of a map that have slots.
    fn shares(&self, map: &Map) -> Vec<Share> {
        let children: Vec<ShardId> = self.0.iter().copied().collect();
        let is_known = children.is_empty();
        let owners = if is_known { Cow::Borrowed(map) } else { Cow::Owned(cluster::as_split(map, &children)) };
        let shares = owners.data_shards().map(|(shard, info)| Share { shard, slots: info.slots.clone() });
        shares.filter(|share| !share.slots.is_empty()).collect()
    }

    /// A shard does not have the slots that it is taken to have: its split is thought of the other way.
    fn doubt(&mut self, map: &Map, parent: ShardId) {
        for (child, _) in map.splits.iter().filter(|(_, split)| split.parent == parent) {
            if !self.0.remove(child) {
                self.0.insert(*child);
            }
        }
    }

    /// Waits until the leaders of all shards are known and have the slots that they are taken to have. The error says why that
    /// did not come about.
    pub(super) fn settle(&mut self, store: &Arc<NodeShared>) -> Result<Vec<Share>, String> {
        let until = Instant::now() + SETTLE_WITHIN;
        let (mut confirmed, mut pause) = (BTreeMap::new(), PAUSE);
        loop {
            let owners = store.known().owners().cloned();
            let owners = owners.ok_or("this node belongs to no store yet (basalt ctl init)")?;
            let shares = self.shares(&owners);
            let problem = match shares.iter().find(|share| store.leader_of(share.shard).is_none()) {
                Some(share) => Some(format!("shard {} has no leader that is known", share.shard)),
                None => self.ask(store, &owners, &shares, &mut confirmed),
            };
            match problem {
                None => return Ok(shares),
                Some(problem) if Instant::now() >= until || store.is_stopping() => return Err(problem),
                Some(_) => std::thread::sleep(pause),
            }
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Asks the leaders that have not said so yet whether they have these slots; why not, if one has not.
    fn ask(
        &mut self,
        store: &Arc<NodeShared>,
        owners: &Map,
        shares: &[Share],
        confirmed: &mut BTreeMap<ShardId, Vec<(u16, u16)>>,
    ) -> Option<String> {
        let is_open = |share: &&Share| confirmed.get(&share.shard) != Some(&share.slots);
        let asked: Vec<Share> = shares.iter().filter(is_open).cloned().collect();
        let answers = ask_leaders(store, &asked);
        let mut problem = None;
        for (share, answer) in asked.into_iter().zip(answers) {
            match answer {
                Ok(()) => _ = confirmed.insert(share.shard, share.slots),
                Err(NotOwned { is_divided, text }) => {
                    if is_divided {
                        self.doubt(owners, share.shard);
                    }
                    problem.get_or_insert(text);
                }
            }
        }
        problem
    }
}

/// Why a shard is not known to have the slots that it is taken to have.
#[derive(Debug)]
pub(super) struct NotOwned {
    /// Its leader has others.
    is_divided: bool,
    pub(super) text: String,
}

/// Asks each shard's leader, as it is known now, whether it has these slots.
pub(super) fn ask_leaders(store: &Arc<NodeShared>, shares: &[Share]) -> Vec<Result<(), NotOwned>> {
    let shards: Vec<ShardId> = shares.iter().map(|share| share.shard).collect();
    let slots: Vec<String> = shares.iter().map(Share::slots_text).collect();
    let commands: Vec<Vec<&[u8]>> =
        slots.iter().map(|slots| vec![SHARD_PAGE, &b"COUNT"[..], SLOTS, slots.as_bytes()]).collect();
    let answers = call_each_leader(store, &shards, &commands, Duration::ZERO);
    let outcome = |(share, answer): (&Share, Result<Vec<u8>, String>)| {
        let frame = answer.map_err(|text| NotOwned { is_divided: false, text })?;
        match frame.strip_prefix(b"-") {
            None => Ok(()),
            Some(text) if text.starts_with(DIVIDED.as_bytes()) => {
                Err(NotOwned { is_divided: true, text: share.divided() })
            }
            Some(text) => {
                let text = format!("shard {}: {}", share.shard, String::from_utf8_lossy(text).trim_end());
                Err(NotOwned { is_divided: false, text })
            }
        }
    };
    shares.iter().zip(answers).map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::{NodeInfo, ShardInfo, Split};
    use vocab::{NodeId, PlanId, StoreId};

    fn told(shares: &[Share]) -> String {
        shares.iter().map(|share| format!("{}={}", share.shard.0, share.slots_text())).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_thought_of_a_split_changes_where_a_leader_says_otherwise() {
        let info = NodeInfo {
            id: NodeId(1),
            peer_address: "n1:1".to_owned(),
            client_host: "host".to_owned(),
            client_port: 6379,
            zone: String::new(),
            capacity: 1,
        };
        let Ok(mut map) = cluster::initial_map(StoreId(1), &[info], 2, 1) else { panic!("a map can be made") };
        let child = ShardInfo { slots: Vec::new(), ..map.shards[&ShardId(2)].clone() };
        map.shards.insert(ShardId(3), child);
        let split = Split { plan: PlanId(1), parent: ShardId(2), slots: vec![(12288, 16383)] };
        map.splits.insert(ShardId(3), split);
        let mut happened = Happened::default();
        let before = "1=0-8191 2=8192-16383";
        assert_eq!(told(&happened.shares(&map)), before, "one without slots holds nothing");
        happened.doubt(&map, ShardId(1));
        assert_eq!(told(&happened.shares(&map)), before, "nothing is known of its splits");
        let after = "1=0-8191 2=8192-12287 3=12288-16383";
        for expected in [after, before, after] {
            happened.doubt(&map, ShardId(2));
            assert_eq!(told(&happened.shares(&map)), expected);
        }
        // The map knows by now.
        let map = cluster::as_split(&map, &[ShardId(3)]);
        assert_eq!(told(&happened.shares(&map)), after);
        happened.doubt(&map, ShardId(2));
        assert_eq!(told(&happened.shares(&map)), after);
    }
}

//! Plans in words: what an operator types, and what is shown of one.

use crate::plan::PlanKind;
use vocab::limits::{MAP_SHARDS_MAX, REPLICATION_FACTOR_MAX};
use vocab::{NodeId, SLOT_COUNT, ShardId, Slot};

/// One kind of plan, as an operator knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanWords {
    /// Its word.
    pub word: &'static str,
    /// What follows the word; in brackets what may be left out.
    pub arguments: &'static str,
    /// What it does.
    pub help: &'static str,
    /// What cannot be undone, if anything: then it is asked for twice.
    pub warning: Option<&'static str>,
}

const fn plan(word: &'static str, arguments: &'static str, help: &'static str) -> PlanWords {
    PlanWords { word, arguments, help, warning: None }
}

const fn grave(word: &'static str, arguments: &'static str, help: &'static str, warning: &'static str) -> PlanWords {
    PlanWords { word, arguments, help, warning: Some(warning) }
}

/// All kinds.
pub const PLAN_KINDS: &[PlanWords] = &[
    plan("add-node", "NODE", "The node takes its part of the data; begun by itself when a node joins."),
    plan("drain-node", "NODE", "All replicas leave the node, which stays in the store and holds nothing."),
    grave(
        "remove-node",
        "NODE",
        "All replicas leave the node, and the store forgets it. It may be dead.",
        "the node is forgotten in the end: to come back it has to join anew, with an empty directory",
    ),
    plan("repair", "NODE", "Replicas on a node that does not answer are made anew elsewhere, now."),
    plan("rebalance", "", "Data is spread evenly over the nodes, by their capacity."),
    plan("balance-leaders", "", "Leaders are spread evenly over the nodes."),
    plan("drain-leaders", "NODE", "The node leads nothing until it has been restarted, or the plan is cancelled."),
    plan("move-shard", "SHARD FROM TO", "A replica of a shard goes from one node to another."),
    plan("split-shard", "SHARD [SLOT]", "A shard becomes two, at a slot or where its data is halved."),
    plan("split-all", "", "Every shard becomes two."),
    plan("set-replication-factor", "N", "Every shard is to have so many replicas."),
    plan("change-zone", "NODE ZONE", "The node is in another zone; replicas are spread anew."),
    grave(
        "replace-node",
        "NODE WITH",
        "One node takes the place of another, which the store then forgets.",
        "the node that is replaced is forgotten in the end: to come back it has to join anew, with an empty directory",
    ),
    grave(
        "rebuild",
        "NODE [SHARD]",
        "Damaged replicas of the node are thrown away and made anew on it, from their peers.",
        "what the node holds of them is deleted",
    ),
    grave(
        "unsafe-recover",
        "SHARD… accept-data-loss",
        "Shards without a majority go on with the replicas that are left.",
        "ACKNOWLEDGED WRITES MAY BE LOST: whatever only the missing replicas held is gone for good, and those replicas \
         must never come back",
    ),
];

/// What `unsafe-recover` must be told.
pub const ACCEPT_DATA_LOSS: &str = "accept-data-loss";

/// How an operator writes it: its word and what follows.
#[must_use]
pub fn plan_to_words(kind: &PlanKind) -> Vec<String> {
    let mut words = vec![kind.word().to_owned()];
    match kind {
        PlanKind::Rebalance | PlanKind::BalanceLeaders | PlanKind::SplitAll => {}
        PlanKind::AddNode(node)
        | PlanKind::DrainNode(node)
        | PlanKind::RemoveNode(node)
        | PlanKind::Repair(node)
        | PlanKind::DrainLeaders(node) => words.push(node.to_string()),
        PlanKind::MoveShard { shard, from, to } => {
            words.extend([shard.to_string(), from.to_string(), to.to_string()]);
        }
        PlanKind::SplitShard { shard, at } => {
            words.push(shard.to_string());
            words.extend(at.map(|slot| slot.to_string()));
        }
        PlanKind::SetReplicationFactor(count) => words.push(count.to_string()),
        PlanKind::ChangeZone { node, zone } => words.extend([node.to_string(), zone.clone()]),
        PlanKind::ReplaceNode { node, with } => words.extend([node.to_string(), with.to_string()]),
        PlanKind::Rebuild { node, shard } => {
            words.push(node.to_string());
            words.extend(shard.map(|shard| shard.to_string()));
        }
        PlanKind::UnsafeRecover(shards) => words.extend(shards.iter().map(ToString::to_string)),
    }
    words
}

/// The plan of these words; `node` finds a node by what an operator calls it.
pub fn plan_from_words(words: &[&str], node: &dyn Fn(&str) -> Result<NodeId, String>) -> Result<PlanKind, String> {
    let [word, arguments @ ..] = words else { return Err("which plan? `ctl plan --help` lists them".to_owned()) };
    let word = word.to_ascii_lowercase();
    let known = PLAN_KINDS.iter().find(|kind| kind.word == word);
    let known = known.ok_or_else(|| {
        let words: Vec<&str> = PLAN_KINDS.iter().map(|kind| kind.word).collect();
        format!("there is no plan {word}; there are {}", words.join(", "))
    })?;
    let usage = || format!("it is written: {} {}", known.word, known.arguments);
    Ok(match (known.word, arguments) {
        ("add-node", [a]) => PlanKind::AddNode(node(a)?),
        ("drain-node", [a]) => PlanKind::DrainNode(node(a)?),
        ("remove-node", [a]) => PlanKind::RemoveNode(node(a)?),
        ("repair", [a]) => PlanKind::Repair(node(a)?),
        ("rebalance", []) => PlanKind::Rebalance,
        ("balance-leaders", []) => PlanKind::BalanceLeaders,
        ("drain-leaders", [a]) => PlanKind::DrainLeaders(node(a)?),
        ("move-shard", [a, from, to]) => PlanKind::MoveShard { shard: shard(a)?, from: node(from)?, to: node(to)? },
        ("split-shard", [a]) => PlanKind::SplitShard { shard: shard(a)?, at: None },
        ("split-shard", [a, at]) => PlanKind::SplitShard { shard: shard(a)?, at: Some(slot(at)?) },
        ("split-all", []) => PlanKind::SplitAll,
        ("set-replication-factor", [count]) => PlanKind::SetReplicationFactor(factor(count)?),
        ("change-zone", [a, zone]) => PlanKind::ChangeZone { node: node(a)?, zone: (*zone).to_owned() },
        ("replace-node", [a, with]) => PlanKind::ReplaceNode { node: node(a)?, with: node(with)? },
        ("rebuild", [a]) => PlanKind::Rebuild { node: node(a)?, shard: None },
        ("rebuild", [a, b]) => PlanKind::Rebuild { node: node(a)?, shard: Some(shard(b)?) },
        ("unsafe-recover", [shards @ .., last]) => unsafe_recover(shards, last).unwrap_or_else(|| Err(usage()))?,
        _ => return Err(usage()),
    })
}

/// None if it is written wrongly.
fn unsafe_recover(shards: &[&str], last: &str) -> Option<Result<PlanKind, String>> {
    if !last.eq_ignore_ascii_case(ACCEPT_DATA_LOSS) {
        let text = format!("unsafe-recover may lose acknowledged writes; the last word has to be {ACCEPT_DATA_LOSS}");
        return Some(Err(text));
    }
    let fits = (1..=MAP_SHARDS_MAX).contains(&shards.len());
    fits.then(|| shards.iter().map(|text| shard(text)).collect::<Result<_, _>>().map(PlanKind::UnsafeRecover))
}

fn shard(text: &str) -> Result<ShardId, String> {
    text.parse().map(ShardId).map_err(|_| format!("{text} is no shard's number"))
}

fn slot(text: &str) -> Result<Slot, String> {
    let slot = text.parse().ok().filter(|slot| *slot < SLOT_COUNT);
    slot.map(Slot).ok_or_else(|| format!("{text} is no slot: they are 0 to {}", SLOT_COUNT - 1))
}

fn factor(text: &str) -> Result<u32, String> {
    let factor = text.parse().ok().filter(|factor| (1..=REPLICATION_FACTOR_MAX).contains(factor));
    factor.ok_or_else(|| format!("a replication factor is 1 to {REPLICATION_FACTOR_MAX}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Result<PlanKind, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        plan_from_words(&words, &|name| {
            u64::from_str_radix(name, 16).map(NodeId).map_err(|_| format!("there is no node {name}"))
        })
    }

    #[test]
    fn every_kind_is_read_as_it_is_written() {
        for text in [
            "add-node 1",
            "drain-node 1",
            "remove-node 1",
            "repair 1",
            "rebalance",
            "balance-leaders",
            "drain-leaders 1",
            "move-shard 4 1 2",
            "split-shard 4",
            "split-shard 4 100",
            "split-all",
            "set-replication-factor 5",
            "change-zone 1 b",
            "replace-node 1 2",
            "rebuild 1",
            "rebuild 1 4",
        ] {
            let kind = read(text).unwrap();
            assert_eq!(read(&plan_to_words(&kind).join(" ")), Ok(kind.clone()), "{text}");
            assert_eq!(kind.word(), text.split(' ').next().unwrap());
        }
        assert_eq!(plan_to_words(&read("unsafe-recover 3 5 accept-data-loss").unwrap()), ["unsafe-recover", "3", "5"]);
        assert_eq!(plan_to_words(&read("Drain-Node ff").unwrap()), ["drain-node", "00000000000000ff"]);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, error) in [
            ("", "which plan?"),
            ("nosuch", "there is no plan nosuch; there are add-node"),
            ("drain-node", "it is written: drain-node NODE"),
            ("drain-node xyz", "there is no node xyz"),
            ("move-shard 1 2", "it is written: move-shard SHARD FROM TO"),
            ("move-shard a 1 2", "a is no shard's number"),
            ("split-shard 1 16384", "16384 is no slot: they are 0 to 16383"),
            ("set-replication-factor 8", "a replication factor is 1 to 7"),
            ("unsafe-recover 3", "unsafe-recover may lose acknowledged writes"),
            ("unsafe-recover accept-data-loss", "it is written: unsafe-recover SHARD"),
        ] {
            let got = read(text).unwrap_err();
            assert!(got.starts_with(error), "{text}: {got}");
        }
    }
}

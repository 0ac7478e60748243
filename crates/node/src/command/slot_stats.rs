//! CLUSTER SLOT-STATS: how many keys the slots have that this node leads, in the database that the client has chosen.

use super::args::{SYNTAX, is_word, within_namespace};
use super::call::{Error, HandlerRow, Outcome, StoreCall, store};
use super::slot::slot_of_text;
use crate::Fault;
use std::cmp::Reverse;
use vocab::{ClusterDatabase, Namespace, SLOT_COUNT, Slot};

const BAD_LIMIT: &str = "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";
const BAD_METRIC: &str = "ERR Unrecognized sort metric for ORDERBY.";
const UNKNOWN: &str = "ERR unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP.";
const TWICE: &str = "ERR Multiple filters of the same type are disallowed.";

const _: () = assert!(SLOT_COUNT == 16_384, "BAD_LIMIT says how many slots there are");

pub(super) const ROWS: &[HandlerRow] = &[store("CLUSTER|SLOT-STATS", slot_stats)];

/// Which slots are told of, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatsAsked {
    /// Those from one to another, by number.
    Range(Slot, Slot),
    /// So many, by their keys.
    ByKeys { limit: usize, falls: bool },
}

impl StatsAsked {
    fn parse(words: &[&[u8]]) -> Result<Self, Error> {
        match words {
            [word, first, last] if is_word(word, "SLOTSRANGE") => {
                let (first, last) = (slot_of_text(first)?, slot_of_text(last)?);
                if first.0 > last.0 {
                    let text = format!("ERR Start slot number {} is greater than end slot number {}", first.0, last.0);
                    return Err(Error::Reply(text.into()));
                }
                Ok(Self::Range(first, last))
            }
            [word, metric, words @ ..] if is_word(word, "ORDERBY") => {
                if !is_word(metric, "KEY-COUNT") {
                    return Err(BAD_METRIC.into());
                }
                Self::parse_order(words)
            }
            _ => Err(UNKNOWN.into()),
        }
    }

    fn parse_order(mut words: &[&[u8]]) -> Result<Self, Error> {
        let (mut limit, mut falls) = (None, None);
        while let [word, rest @ ..] = words {
            words = rest;
            let is_new = if is_word(word, "ASC") || is_word(word, "DESC") {
                falls.replace(is_word(word, "DESC")).is_none()
            } else if is_word(word, "LIMIT")
                && let [count, rest @ ..] = rest
            {
                words = rest;
                let count = resp::parse_integer(count).filter(|count| (1..=i64::from(SLOT_COUNT)).contains(count));
                limit.replace(count.ok_or(BAD_LIMIT)? as usize).is_none()
            } else {
                return Err(SYNTAX.into());
            };
            if !is_new {
                return Err(TWICE.into());
            }
        }
        Ok(Self::ByKeys { limit: limit.unwrap_or(usize::from(SLOT_COUNT)), falls: falls.unwrap_or(true) })
    }

    /// The slots that are told of, of all with their keys.
    fn choose(self, mut all: Vec<(Slot, u64)>) -> Vec<(Slot, u64)> {
        match self {
            Self::Range(first, last) => all.retain(|(slot, _)| (first.0..=last.0).contains(&slot.0)),
            Self::ByKeys { limit, falls } => {
                if falls {
                    all.sort_by_key(|(slot, keys)| (Reverse(*keys), slot.0));
                } else {
                    all.sort_by_key(|(slot, keys)| (*keys, slot.0));
                }
                all.truncate(limit);
            }
        }
        all
    }
}

/// The slots of shards that this node leads, by number, with how many keys each has.
fn slots_led(call: &mut StoreCall<'_>, database: Option<ClusterDatabase>) -> Result<Vec<(Slot, u64)>, Fault> {
    let mut all = Vec::new();
    for slot in 0..SLOT_COUNT {
        let Some((shard, _)) = call.shards.run_from(slot).filter(|(shard, _)| call.shards.leads(*shard)) else {
            continue;
        };
        let (slot, space) = (Slot(slot), call.shards.space(shard));
        let keys = match database {
            Some(database) => space.keys_in_cluster_database(database, Some(slot))?,
            None => space.keys_in_slot(slot)?,
        };
        all.push((slot, keys));
    }
    Ok(all)
}

fn slot_stats(call: &mut StoreCall<'_>) -> Outcome {
    let (words, namespace) = within_namespace(&call.args[2..])?;
    let asked = StatsAsked::parse(words)?;
    let database = match namespace {
        Some(Namespace::Cluster(database)) => Some(database),
        _ => None,
    };
    let all = slots_led(call, database)?;
    let chosen = asked.choose(all);
    call.reply.array(chosen.len());
    for (slot, keys) in chosen {
        call.reply.array(2);
        call.reply.int(i64::from(slot.0));
        call.reply.map(1);
        call.reply.bulk(b"key-count");
        call.reply.int(keys as i64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        crate::command::transcript::check("slot_stats");
    }
}

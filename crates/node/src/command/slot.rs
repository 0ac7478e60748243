//! CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT: questions to the shard of a slot.

use super::args::{NOT_INTEGER, within_namespace};
use super::call::{Error, HandlerRow, Outcome, ShardCall, shard};
use crate::RecordRange;
use crate::format::keys::prefix_end;
use resp::parse_integer;
use vocab::{ClusterDatabase, Namespace, SLOT_COUNT, Slot, client_key, slot_of};

/// Keys looked at by one step of GETKEYSINSLOT.
const STEP: usize = 512;

pub(super) const ROWS: &[HandlerRow] =
    &[shard("CLUSTER|COUNTKEYSINSLOT", count_keys), shard("CLUSTER|GETKEYSINSLOT", get_keys)];

/// The slot that such a request names, if all its arguments are right.
pub(crate) fn slot_argument(args: &[&[u8]]) -> Result<Slot, &'static str> {
    let args =
        args.get(3..).and_then(|more| within_namespace(more).ok()).map_or(args, |(more, _)| &args[..3 + more.len()]);
    let slot = parse_integer(args[2]).ok_or(NOT_INTEGER)?;
    let count = args.get(3).map(|count| parse_integer(count).ok_or(NOT_INTEGER)).transpose()?;
    match u16::try_from(slot) {
        Ok(slot) if slot < SLOT_COUNT && count.is_none_or(|count| count >= 0) => Ok(Slot(slot)),
        _ if count.is_some() => Err("ERR Invalid slot or number of keys"),
        _ => Err("ERR Invalid slot"),
    }
}

/// The slot that is written so.
pub(super) fn slot_of_text(text: &[u8]) -> Result<Slot, Error> {
    let slot = parse_integer(text).and_then(|slot| u16::try_from(slot).ok()).filter(|slot| *slot < SLOT_COUNT);
    slot.map(Slot).ok_or_else(|| "ERR Invalid or out of range slot".into())
}

/// The slot of all keys that a pattern can match, if it is one: nothing before the end of their hash tag is a wildcard.
pub(super) fn slot_of_pattern(pattern: &[u8]) -> Option<Slot> {
    let literal = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    let open = pattern.iter().position(|&byte| byte == b'{');
    let close = open.and_then(|open| Some(open + pattern[open..].iter().position(|&byte| byte == b'}')?));
    let is_tagged = close.is_some_and(|close| close < literal && open.is_some_and(|open| open + 1 < close));
    (is_tagged || literal == pattern.len()).then(|| slot_of(pattern))
}

fn count_keys(call: &mut ShardCall<'_>) -> Outcome {
    let slot = slot_argument(call.args)?;
    let count = match selected(call.args)? {
        Some(database) => call.space.keys_in_cluster_database(database, Some(slot))?,
        None => call.space.keys_in_slot(slot)?,
    };
    call.reply.int(count as i64);
    Ok(())
}

/// The cluster database of a request.
fn selected(args: &[&[u8]]) -> Result<Option<ClusterDatabase>, Error> {
    match within_namespace(&args[3..])?.1 {
        Some(Namespace::Cluster(database)) => Ok(Some(database)),
        _ => Ok(None),
    }
}

/// In a cluster database the keys of a slot lie next to each other.
fn get_selected(call: &mut ShardCall<'_>, database: ClusterDatabase, slot: Slot, wanted: usize) -> Outcome {
    let prefix = database.prefix_of_slot(slot);
    let end = prefix_end(&prefix);
    let wanted = wanted.min(call.space.keys_in_cluster_database(database, Some(slot))? as usize);
    let (mut found, mut start) = (Vec::new(), prefix.to_vec());
    while found.len() < wanted {
        let keys = call.space.heads(&RecordRange::heads(&start, &end, STEP.min(wanted - found.len())))?;
        let Some((last, _)) = keys.last() else { break };
        start = [last, &b"\0"[..]].concat();
        found.extend(keys.into_iter().map(|(key, _)| key));
    }
    call.reply.array(found.len());
    found.iter().for_each(|key| call.reply.bulk(client_key(key)));
    Ok(())
}

/// The tree is ordered by key, not by slot: this looks at the shard's keys until it has enough.
fn get_keys(call: &mut ShardCall<'_>) -> Outcome {
    let slot = slot_argument(call.args)?;
    let wanted = call.args.get(3).and_then(|count| parse_integer(count)).map_or(0, |n| n as usize);
    if let Some(database) = selected(call.args)? {
        return get_selected(call, database, slot, wanted);
    }
    let wanted = wanted.min(call.space.keys_in_slot(slot)? as usize);
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut start = Vec::new();
    while found.len() < wanted {
        let keys = call.space.heads(&RecordRange::heads(&start, &[], STEP))?;
        let Some((last, _)) = keys.last() else { break };
        start = [last, &b"\0"[..]].concat();
        let room = wanted - found.len();
        found.extend(keys.iter().map(|(key, _)| key.to_vec()).filter(|key| slot_of(key) == slot).take(room));
    }
    call.reply.array(found.len());
    found.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_may_be_of_one_slot() {
        for (pattern, key) in [
            ("{06S}*", Some("{06S}")),
            ("user:{06S}:*", Some("{06S}")),
            ("plain", Some("plain")),
            ("a{b", Some("a{b")),
            ("*{06S}", None),
            ("{0?S}", None),
            ("{06S*", None),
            ("{}*", None),
            ("a\\*{b}", None),
            ("*", None),
        ] {
            let expected = key.map(|key| slot_of(key.as_bytes()));
            assert_eq!(slot_of_pattern(pattern.as_bytes()), expected, "{pattern}");
        }
    }
}

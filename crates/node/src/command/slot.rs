//! CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT: questions to the shard of a slot.

use super::args::{NOT_INTEGER, cluster_database, is_word};
use super::call::{Error, HandlerRow, Outcome, ShardCall, shard};
use crate::RecordRange;
use crate::format::keys::prefix_end;
use resp::parse_integer;
use vocab::{ClusterDatabase, SLOT_COUNT, Slot, client_key, slot_of};

/// Keys looked at by one step of GETKEYSINSLOT.
const STEP: usize = 512;

pub(super) const ROWS: &[HandlerRow] =
    &[shard("CLUSTER|COUNTKEYSINSLOT", count_keys), shard("CLUSTER|GETKEYSINSLOT", get_keys)];

/// The slot that such a request names, if all its arguments are right.
pub(crate) fn slot_argument(args: &[&[u8]]) -> Result<Slot, &'static str> {
    let (args, _) = without_selected(args);
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

fn count_keys(call: &mut ShardCall<'_>) -> Outcome {
    let slot = slot_argument(call.args)?;
    let count = match selected(call.args)? {
        Some(database) => call.space.keys_in_cluster_database(database, Some(slot))?,
        None => call.space.keys_in_slot(slot)?,
    };
    call.reply.int(count as i64);
    Ok(())
}

/// The words of a request that may end in `SELECTED number`, and that number.
fn without_selected<'a, 'b>(args: &'b [&'a [u8]]) -> (&'b [&'a [u8]], Option<&'a [u8]>) {
    match args {
        [rest @ .., word, number] if rest.len() > 2 && is_word(word, "SELECTED") => (rest, Some(*number)),
        _ => (args, None),
    }
}

/// The cluster database of a request.
fn selected(args: &[&[u8]]) -> Result<Option<ClusterDatabase>, Error> {
    without_selected(args).1.map(cluster_database).transpose()
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

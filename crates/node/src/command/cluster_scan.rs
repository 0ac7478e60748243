//! CLUSTERSCAN: walks the keys of the whole store, each part of it on the node that leads that part.
//!
//! `CLUSTERSCAN cursor [MATCH pattern] [COUNT count] [TYPE type] [SLOT slot]` → `[cursor, keys]`
//!
//! A cursor is `fingerprint-{hashtag}-local`, as in Valkey 9.1. Its hash tag is of the slot that the walk is at, so that a
//! client sends the cursor where it sends that slot's keys. The first cursor is `0`; so is the last.
//!
//! A shard's keys are in the order of their bytes, and not of their slots. So the walk takes, at once, all slots that follow
//! on the first one and that the same shard owns. The fingerprint says which is the last of them, and the local part after which
//! key to go on (`cursors`). A shard that has grown meanwhile is walked up to the same slot; of one that was split, the
//! part with the first slot is, and the rest comes next. So a key that stays is seen at least once.

use super::args::{SYNTAX, is_word};
use super::call::{Error, HandlerRow, Outcome, StoreCall, Walk, store_at};
use super::cursors::Cursor;
use super::scan::{CHUNK, Found, NOT_SERVED, Options, resume};
use super::slot::{slot_of_pattern, slot_of_text};
use crate::Type;
use std::borrow::Cow;
use std::fmt::Write as _;
use storage::Slice;
use vocab::{SLOT_COUNT, Slot, client_key, slot_of, slot_tag};

const INVALID: &str = "ERR Invalid cursor";
/// How many keys of other slots than those of the walk one call looks at.
const OTHERS_MAX: usize = 16 * 1024;

pub(super) const ROWS: &[HandlerRow] = &[store_at("CLUSTERSCAN", cluster_scan, slot_of_cursor).walks(Walk::Page)];

/// The slot of a cursor; the first cursor may be sent to any node.
fn slot_of_cursor(args: &[&[u8]]) -> Option<Slot> {
    (args[1] != b"0").then(|| slot_of(args[1]))
}

/// Where a walk stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScanPlace {
    /// The first slot that is walked now.
    slot: u16,
    /// The last; `None`: as far as the shard goes.
    last: Option<u16>,
    /// The hash of the key to go on after; 0: the walk begins there.
    hash: u64,
}

impl ScanPlace {
    /// `None` if the text is no cursor. A fingerprint that is of another store, or of Valkey, begins its slot again.
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (fingerprint, rest) = text.split_once("-{")?;
        let (tag, local) = rest.split_once("}-")?;
        if fingerprint.is_empty() || tag.is_empty() || local.is_empty() || !local.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let slot = slot_of(tag.as_bytes()).0;
        let last = fingerprint.strip_prefix('s').and_then(|digits| digits.parse().ok());
        let hash = local.parse().ok().filter(|&hash| Cursor { slot, hash }.is_valid());
        match (last.filter(|&last| slot <= last && last < SLOT_COUNT), hash) {
            (Some(last), Some(hash)) => Some(Self { slot, last: Some(last), hash }),
            _ => Some(Self::at(slot)),
        }
    }

    fn at(slot: u16) -> Self {
        Self { slot, last: None, hash: 0 }
    }

    fn text(self) -> String {
        let mut text = String::new();
        let _ = match self.last {
            Some(last) => write!(text, "s{last}"),
            None => write!(text, "0"),
        };
        let _ = write!(text, "-{{{}}}-{}", slot_tag(Slot(self.slot)), self.hash);
        text
    }
}

/// The options, and the slot that is walked alone.
fn options<'a>(words: &[&'a [u8]]) -> Result<(Options<'a>, Option<u16>), Error> {
    let (mut others, mut slot) = (Vec::with_capacity(words.len()), None);
    for pair in words.chunks(2) {
        match pair {
            [word, _] if is_word(word, "SLOT") && slot.is_some() => {
                return Err("ERR SLOT option can only be specified once".into());
            }
            [word, value] if is_word(word, "SLOT") => slot = Some(slot_of_text(value)?.0),
            [word, _] if is_word(word, "STORE") => return Err(SYNTAX.into()),
            [word, name] if is_word(word, "TYPE") && Type::of_name(&name.to_ascii_lowercase()).is_none() => {
                let text = format!("ERR unknown type name '{}'", String::from_utf8_lossy(name));
                return Err(Error::Reply(Cow::Owned(text)));
            }
            pair => others.extend_from_slice(pair),
        }
    }
    Ok((Options::parse(&others)?, slot))
}

fn cluster_scan(call: &mut StoreCall<'_>) -> Outcome {
    let (options, only) = options(&call.args[2..])?;
    let matched = options.wanted.pattern().and_then(slot_of_pattern).map(|slot| slot.0);
    if only.is_some() && matched.is_some() && only != matched {
        return answer(call, None, &[]);
    }
    if options.whole_store {
        return Err(SYNTAX.into());
    }
    if call.args[1] == b"0" {
        return answer(call, Some(ScanPlace::at(only.or(matched).unwrap_or_default())), &[]);
    }
    let mut place = ScanPlace::parse(call.args[1]).ok_or(INVALID)?;
    if only.is_some_and(|only| only != place.slot) {
        return Err("ERR Cursor slot mismatch".into());
    }
    match matched {
        Some(slot) if slot > place.slot => return answer(call, Some(ScanPlace::at(slot)), &[]),
        Some(slot) if slot < place.slot => return answer(call, None, &[]),
        _ => {}
    }
    let only = only.or(matched);
    let (shard, end) = call.shards.run_from(place.slot).ok_or(NOT_SERVED)?;
    let last = only.unwrap_or_else(|| place.last.map_or(end, |last| last.min(end)));
    place.last = Some(last);
    let mut found = Found::new(options.count);
    let next = match walk(call, shard, place, last, &options, &mut found)? {
        Some(hash) => Some(ScanPlace { hash, ..place }),
        None if only.is_some() || last + 1 == SLOT_COUNT => None,
        None => Some(ScanPlace::at(last + 1)),
    };
    answer(call, next, found.keys())
}

/// Looks at keys of a shard until enough are found. The hash of the last one if there may be more.
fn walk(
    call: &mut StoreCall<'_>,
    shard: usize,
    place: ScanPlace,
    last_slot: u16,
    options: &Options<'_>,
    found: &mut Found,
) -> Result<Option<u64>, Error> {
    let cursor = Cursor { slot: place.slot, hash: place.hash };
    let mut after: Option<Slice> = resume(call, shard, cursor, &options.wanted)?.map(Slice::from);
    let mut others = 0;
    loop {
        let rows = options.wanted.rows(call.shards.space(shard), after.as_deref(), CHUNK)?;
        let is_end = rows.len() < CHUNK;
        for (key, record) in rows {
            if (place.slot..=last_slot).contains(&slot_of(&key).0) {
                found.look(options.include(&key, &record).then(|| key.clone()));
            } else {
                others += 1;
            }
            after = Some(key);
            if found.is_full() || others == OTHERS_MAX {
                break;
            }
        }
        let is_full = found.is_full() || others == OTHERS_MAX;
        match &after {
            Some(key) if is_full => {
                let cursor = Cursor::after(place.slot, key);
                call.cursors.remember(cursor, key);
                return Ok(Some(cursor.hash));
            }
            _ if is_end => return Ok(None),
            _ => {}
        }
    }
}

fn answer(call: &mut StoreCall<'_>, next: Option<ScanPlace>, keys: &[Slice]) -> Outcome {
    call.reply.array(2);
    call.reply.bulk(next.map_or_else(|| "0".to_owned(), ScanPlace::text).as_bytes());
    call.reply.array(keys.len());
    keys.iter().for_each(|key| call.reply.bulk(client_key(key)));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::test_walk::{Event, Walk};
    use std::collections::BTreeSet;

    #[test]
    fn transcript() {
        super::super::transcript::check("cluster_scan");
    }

    #[test]
    fn cursors_are_read_as_they_are_written() {
        for place in [ScanPlace::at(0), ScanPlace::at(16383), ScanPlace { slot: 7, last: Some(5460), hash: 99 }] {
            assert_eq!(ScanPlace::parse(place.text().as_bytes()), Some(place));
            assert_eq!(slot_of(place.text().as_bytes()).0, place.slot, "a client finds its slot");
        }
        assert_eq!(ScanPlace::at(0).text(), "0-{06S}-0");
        // Of another store: its slot begins again.
        for other in ["aBcDeF-{06S}-48", "s99999-{06S}-1", "s1-{06S}-99999999999999999999", "0-{06S}-5"] {
            assert_eq!(ScanPlace::parse(other.as_bytes()), Some(ScanPlace::at(0)), "{other}");
        }
        for wrong in ["", "1", "0-06S-0", "0-{}-0", "-{06S}-0", "0-{06S}-", "0-{06S}-x", "0-{06S}--1"] {
            assert_eq!(ScanPlace::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_walk_meets_every_key_that_stays() {
        use Event::{LastKeyDeleted, Merge, Nothing, Restart, Split};
        for (events, count) in [
            (&[Nothing][..], "10"),
            (&[Split], "7"),
            (&[Merge], "9"),
            (&[Restart], "100"),
            (&[Split, Merge, Restart], "10"),
            (&[LastKeyDeleted], "3"),
            (&[Nothing, Restart, Split, LastKeyDeleted, Merge], "13"),
        ] {
            Walk::new("CLUSTERSCAN", cluster_scan, 4).meets_every_key(events, count);
        }
    }

    #[test]
    fn one_slot_is_walked_alone() {
        let mut walk = Walk::new("CLUSTERSCAN", cluster_scan, 2);
        (0..300).for_each(|i| walk.put(&format!("{{06S}}{i}")));
        (0..300).for_each(|i| walk.put(&format!("other{i}")));
        let mut found_more_than_once = 0;
        let mut steps = BTreeSet::new();
        let seen = walk.all(&["COUNT", "50", "SLOT", "0"], |_, found| {
            found_more_than_once += found.iter().filter(|key| !steps.insert((*key).clone())).count();
        });
        assert!(seen.len() == 300 && seen.iter().all(|key| key.starts_with("{06S}")), "{}", seen.len());
        assert_eq!(found_more_than_once, 0);
    }
}

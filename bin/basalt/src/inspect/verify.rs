//! Everything is read and checked.

use super::logged::LoggedEntry;
use super::report::Report;
use super::show::{Shown, count, size};
use super::source::{Source, tell};
use super::table::Table;
use node::inspect::{TreeKey, check_string, element_span, hash_fields, is_about_expiry, key_counts};
use node::{Layout, Record, Type};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use storage::{Slice, Snapshot, Span};
use vocab::{ShardId, slot_of};

/// What was checked, and what is wrong.
#[derive(Serialize)]
pub struct Verification {
    parts: Vec<CheckedPart>,
}

#[derive(Serialize)]
struct CheckedPart {
    name: String,
    checked: String,
    damage: Vec<String>,
}

impl Verification {
    pub fn of(source: &Source) -> Self {
        let mut parts = vec![log(source)];
        parts.extend(unmapped(source));
        parts.extend(source.shards().map(|shard| tree(source, shard)));
        Self { parts }
    }
}

/// The map is kept before the first tree is made: where it is missing, it was lost.
fn unmapped(source: &Source) -> Option<CheckedPart> {
    let trees = source.unmapped_trees();
    let why = || format!("basalt.map is missing, so the {} here cannot be read", count(trees, "tree", "trees"));
    let part = || CheckedPart { name: "map".to_owned(), checked: String::new(), damage: vec![why()] };
    (trees > 0).then(part)
}

/// Every record's checksums, and that every entry can be decoded.
fn log(source: &Source) -> CheckedPart {
    let (records, bytes, damage) = source.log().verify();
    let mut damage: Vec<String> = damage.iter().map(ToString::to_string).collect();
    let mut entries = 0;
    for shard in source.shards() {
        for entry in source.entries(shard, 0, u64::MAX) {
            entries += 1;
            let decoded = entry.and_then(|entry| LoggedEntry::of(&entry, None, Shown::Beginning).map(drop));
            if let Err(why) = decoded {
                damage.push(format!("shard {shard}: {why}"));
                break;
            }
        }
        let joined = super::overview::ShardSummary::of(source, shard);
        damage.extend(
            joined.problems.iter().filter(|_| joined.tree.is_some()).map(|why| format!("shard {shard}: {why}")),
        );
    }
    let checked =
        format!("{}, {}, {}", count(records, "record", "records"), count(entries, "entry", "entries"), size(bytes));
    CheckedPart { name: "log".to_owned(), checked, damage }
}

/// Every file's checksum, and that everything in it can be decoded and fits together.
fn tree(source: &Source, shard: ShardId) -> CheckedPart {
    let mut part = CheckedPart { name: format!("shard {shard}"), checked: String::new(), damage: Vec::new() };
    let tree = match source.tree(shard) {
        Ok(tree) => tree,
        Err(why) => {
            part.damage.push(why);
            return part;
        }
    };
    if let Err(error) = tree.verify() {
        part.damage.push(tell(error));
        return part;
    }
    let walked = walk(tree.snapshot(), source.slots(shard)).and_then(|counts| {
        let stored = tree.meta(node::inspect::COUNTERS).map_err(tell)?;
        let stored = stored.as_deref().map(key_counts).transpose()?.unwrap_or_default();
        let stored: BTreeMap<u16, u64> = stored.into_iter().map(|(slot, count)| (slot.0, count)).collect();
        let differs = |slot: &&u16| stored.get(slot) != counts.get(slot);
        match stored.keys().chain(counts.keys()).find(differs) {
            Some(slot) => Err(format!(
                "slot {slot} has {} keys, and is said to have {}",
                counts.get(slot).unwrap_or(&0),
                stored.get(slot).unwrap_or(&0)
            )),
            None => Ok(counts.values().sum::<u64>()),
        }
    });
    let files = tree.files();
    let bytes: u64 = files.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len()).sum();
    match walked {
        Ok(keys) => {
            let files = count(files.len() as u64, "file", "files");
            part.checked = format!("{}, {files}, {}", count(keys, "key", "keys"), size(bytes));
        }
        Err(why) => part.damage.push(why),
    }
    part
}

/// Decodes every row; answers how many keys each slot has.
fn walk(tree: &dyn Snapshot, (first, last): (u16, u16)) -> Result<BTreeMap<u16, u64>, String> {
    let mut counts = BTreeMap::new();
    for row in tree.iter(Span { start: Vec::new(), end: Vec::new() }, false) {
        let (tree_key, value) = row.map_err(tell)?;
        let parsed = TreeKey::parse(&tree_key);
        let parsed = parsed.ok_or_else(|| format!("a tree key that cannot be parsed: {}", tree_key.escape_ascii()))?;
        let Some(key) = parsed.key() else { continue };
        let slot = slot_of(key).0;
        if !(first..=last).contains(&slot) {
            return Err(format!("{} belongs to slot {slot}, which is another shard's", key.escape_ascii()));
        }
        if let TreeKey::Record(key) = parsed {
            check(tree, key, value).map_err(|why| format!("the record of {}: {why}", key.escape_ascii()))?;
            *counts.entry(slot).or_default() += 1;
        }
    }
    Ok(counts)
}

fn check(tree: &dyn Snapshot, key: &[u8], value: Slice) -> Result<(), String> {
    let record = Record::decode(value)?;
    if record.view().version > tree.index() {
        return Err(format!("its version {} is newer than the tree", record.view().version));
    }
    hash_fields(&record)?;
    check_string(key, &record, tree)?;
    // The rows of lists and streams are more than their elements, and those of strings fewer.
    let view = record.view();
    let Some(rows) = view.fields(key).filter(|_| !matches!(view.kind.ty, Type::String | Type::List | Type::Stream))
    else {
        return Ok(());
    };
    let expires = view.kind.layout == Layout::ExpiringRows;
    let mut fields = 0;
    for element in tree.iter(element_span(&rows), false) {
        let (tree_key, _) = element.map_err(tell)?;
        fields += u64::from(!expires || !is_about_expiry(&rows, &tree_key));
    }
    if fields == rows.count { Ok(()) } else { Err(format!("{fields} elements, and it says {}", rows.count)) }
}

impl Report for Verification {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(&["part ", "state ", "checked "]);
        for part in &self.parts {
            let state = if part.damage.is_empty() { "sound" } else { "DAMAGED" };
            table.row(vec![part.name.clone(), state.to_owned(), part.checked.clone()]);
        }
        table.print(out)?;
        for part in &self.parts {
            part.damage.iter().try_for_each(|why| writeln!(out, "DAMAGED: {}: {why}", part.name))?;
        }
        Ok(())
    }

    fn is_sound(&self) -> bool {
        self.parts.iter().all(|part| part.damage.is_empty())
    }
}

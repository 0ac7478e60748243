//! Taking a backup: every shard is read from the node that holds its snapshot, one thread a node, while the store serves.

use super::catalog::Catalog;
use super::manifest::{Manifest, ShardFacts};
use super::node::{connect, said};
use super::place::Place;
use super::rows::{BackupRow, ExpiringField, FileFacts, Packed, Packer, RowValue, Stored};
use client::{Client, StoreUrl, Value};
use indicatif::ProgressBar;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};

const PAGE_BYTES: &[u8] = b"2097152";

/// What a backup came to.
pub(crate) struct Taken {
    pub(crate) manifest: Manifest,
    /// Files that were not there before, and their bytes as they are kept.
    pub(crate) new_files: u64,
    pub(crate) new_bytes: u64,
    /// Those of them that were there, and damaged.
    pub(crate) mended: u64,
}

/// A shard's snapshot.
struct ShardSnapshot {
    shard: u64,
    slots: String,
    index: u64,
    keys: u64,
    address: String,
}

/// A snapshot of the whole store.
struct Begun {
    id: String,
    at_ms: u64,
    store: String,
    epoch: u64,
    parts: Vec<ShardSnapshot>,
}

impl Begun {
    fn read(answer: &Value) -> Option<Self> {
        let Value::Array(fields) = answer else { return None };
        let [id, at_ms, store, epoch, Value::Array(parts)] = fields.as_slice() else { return None };
        let part = |part: &Value| {
            let Value::Array(fields) = part else { return None };
            let [shard, slots, index, keys, _, address] = fields.as_slice() else { return None };
            Some(ShardSnapshot {
                shard: shard.as_int()? as u64,
                slots: text(slots)?,
                index: index.as_int()? as u64,
                keys: keys.as_int()? as u64,
                address: text(address)?,
            })
        };
        Some(Self {
            id: text(id)?,
            at_ms: at_ms.as_int()? as u64,
            store: text(store)?,
            epoch: epoch.as_int()? as u64,
            parts: parts.iter().map(part).collect::<Option<_>>()?,
        })
    }
}

fn text(value: &Value) -> Option<String> {
    Some(String::from_utf8_lossy(value.as_bytes()?).into_owned())
}

/// Where files go, and which are there.
struct Shelf<'a> {
    place: &'a Place,
    files: Mutex<HashMap<String, Known>>,
    /// As earlier backups noted them.
    noted: HashMap<String, Stored>,
    totals: Mutex<Totals>,
    progress: &'a ProgressBar,
}

/// A file that the place lists.
#[derive(Clone)]
enum Known {
    /// It has so many bytes. Whether they are the right ones is to be proved.
    Listed(u64),
    /// It was proved or written by this backup.
    Proved(Stored),
}

/// What was written.
#[derive(Clone, Copy, Default)]
struct Totals {
    new_files: u64,
    new_bytes: u64,
    mended: u64,
}

impl<'a> Shelf<'a> {
    fn open(place: &'a Place, progress: &'a ProgressBar) -> Result<Self, String> {
        let files = place.list("files")?.into_iter().map(|(name, bytes)| (name, Known::Listed(bytes))).collect();
        // The newest has noted all files that are likely to come again.
        let newest = Catalog::read(place)?.choose(None).ok();
        let noted = newest.iter().flat_map(Manifest::files);
        let noted = noted.filter_map(|file| Some((file.sha256.clone(), file.stored.clone()?))).collect();
        Ok(Self { place, files: Mutex::new(files), noted, totals: Mutex::default(), progress })
    }

    /// Has the place keep a file: what it keeps already is used again if it is whole.
    fn keep(&self, file: &Packed) -> Result<FileFacts, String> {
        let name = &file.facts.sha256;
        let known = self.files.lock().get(name).cloned();
        let proved = match &known {
            Some(Known::Proved(stored)) => Some(stored.clone()),
            Some(Known::Listed(bytes)) => self.proved(file, *bytes)?,
            None => None,
        };
        let stored = match proved {
            Some(stored) => stored,
            None => self.write(file, known.is_some())?,
        };
        self.files.lock().insert(name.clone(), Known::Proved(stored.clone()));
        self.progress.inc(file.facts.rows);
        Ok(FileFacts { stored: Some(stored), ..file.facts.clone() })
    }

    /// What the place keeps under the file's name, if that holds the file's rows. A crash or a full disk leaves files that
    /// are empty or cut short.
    fn proved(&self, file: &Packed, listed: u64) -> Result<Option<Stored>, String> {
        let noted = self.noted.get(&file.facts.sha256);
        if noted.is_some_and(|noted| noted.bytes != listed) {
            return Ok(None);
        }
        if !self.place.is_near() {
            let stored = match noted {
                Some(noted) => noted.clone(),
                None => Stored::of(&file.compressed()?),
            };
            return Ok(Some(stored).filter(|stored| stored.bytes == listed));
        }
        // What cannot be read is written again.
        let Ok(bytes) = self.place.get(&file.facts.name(), listed) else { return Ok(None) };
        let stored = Stored::of(&bytes);
        let is_whole = noted.map_or_else(|| file.is_in(&bytes), |noted| *noted == stored);
        Ok(Some(stored).filter(|_| is_whole))
    }

    fn write(&self, file: &Packed, was_there: bool) -> Result<Stored, String> {
        let bytes = file.compressed()?;
        self.place.put(&file.facts.name(), &bytes)?;
        let mut totals = self.totals.lock();
        totals.new_files += 1;
        totals.new_bytes += bytes.len() as u64;
        totals.mended += u64::from(was_there);
        Ok(Stored::of(&bytes))
    }
}

/// Takes a backup. What is in `place` already, and whole, is not written again.
pub(crate) fn take(node: &StoreUrl, place: &Place, progress: &ProgressBar) -> Result<Taken, String> {
    let _lock = place.prepare(false)?;
    let shelf = Shelf::open(place, progress)?;
    let mut client = connect(node)?;
    let answer = said(&mut client, &[b"KV.BACKUP", b"BEGIN"])?;
    let begun = Begun::read(&answer).ok_or("the store's answer to KV.BACKUP BEGIN cannot be read")?;
    progress.set_length(begun.parts.iter().map(|part| part.keys).sum());
    let mut by_node: BTreeMap<&str, Vec<&ShardSnapshot>> = BTreeMap::new();
    for part in &begun.parts {
        by_node.entry(&part.address).or_default().push(part);
    }
    let mut shards = std::thread::scope(|scope| {
        let threads: Vec<_> = by_node
            .iter()
            .map(|(address, parts)| scope.spawn(|| read_node(node, address, parts, &begun, &shelf)))
            .collect();
        let mut shards = Vec::new();
        for thread in threads {
            shards.extend(thread.join().map_err(|_| "a thread has panicked".to_owned())??);
        }
        Ok::<_, String>(shards)
    })?;
    shards.sort_by_key(|shard: &ShardFacts| shard.shard);
    let manifest = Manifest::new(begun.store, begun.at_ms, begun.epoch, shards);
    manifest.write(place)?;
    let Totals { new_files, new_bytes, mended } = *shelf.totals.lock();
    Ok(Taken { manifest, new_files, new_bytes, mended })
}

/// Reads all shards that one node holds.
fn read_node(
    store: &StoreUrl,
    address: &str,
    parts: &[&ShardSnapshot],
    begun: &Begun,
    shelf: &Shelf<'_>,
) -> Result<Vec<ShardFacts>, String> {
    let seed = address.parse().map_err(|e| format!("{address}: {e}"))?;
    let url = StoreUrl { seeds: vec![seed], login: store.login.clone() };
    let mut client = connect(&url)?;
    let read = parts.iter().map(|part| read_shard(&mut client, part, begun, shelf)).collect();
    // The node lets snapshots go by itself that are not read any more.
    let _ = client.call_here(&[b"KV.BACKUP", b"END", begun.id.as_bytes()]);
    read
}

fn read_shard(
    client: &mut Client,
    part: &ShardSnapshot,
    begun: &Begun,
    shelf: &Shelf<'_>,
) -> Result<ShardFacts, String> {
    let mut files = Vec::new();
    let mut packer = Packer::default();
    let (shard, mut cursor) = (part.shard.to_string(), Vec::new());
    loop {
        let page: [&[u8]; 6] = [b"KV.BACKUP", b"PAGE", begun.id.as_bytes(), shard.as_bytes(), &cursor, PAGE_BYTES];
        let answer = said(client, &page)?;
        let bad = || format!("{}: a page of shard {shard} cannot be read", client.address());
        let Value::Array(fields) = answer else { return Err(bad()) };
        let Ok([next, Value::Array(rows)]) = <[Value; 2]>::try_from(fields) else { return Err(bad()) };
        for row in rows {
            let row = read_row(row).ok_or_else(bad)?;
            if let Some(file) = packer.push(&row) {
                files.push(shelf.keep(&file)?);
            }
        }
        match next {
            Value::Null => break,
            Value::Bulk(next) => cursor = next,
            _ => return Err(bad()),
        }
    }
    if let Some(file) = packer.finish() {
        files.push(shelf.keep(&file)?);
    }
    Ok(ShardFacts { shard: part.shard, slots: part.slots.clone(), index: part.index, keys: part.keys, files })
}

fn read_row(row: Value) -> Option<BackupRow> {
    let Value::Array(fields) = row else { return None };
    let mut fields = fields.into_iter();
    let (Value::Bulk(key), Value::Int(expire_at_ms)) = (fields.next()?, fields.next()?) else { return None };
    let value = match (fields.next()?, fields.next()) {
        (Value::Bulk(word), Some(Value::Array(members))) if word == b"SET" => {
            let member = |member| if let Value::Bulk(member) = member { Some(member) } else { None };
            RowValue::Set(members.into_iter().map(member).collect::<Option<_>>()?)
        }
        (Value::Bulk(word), Some(Value::Int(start))) if word == b"LIST" => {
            let Some(Value::Array(elements)) = fields.next() else { return None };
            let element = |element| if let Value::Bulk(element) = element { Some(element) } else { None };
            let elements = elements.into_iter().map(element).collect::<Option<_>>()?;
            RowValue::List { start: u64::try_from(start).ok()?, elements }
        }
        (Value::Bulk(word), Some(Value::Int(is_first))) if word == b"STREAM" => {
            let Some(Value::Array(items)) = fields.next() else { return None };
            let word = |word| if let Value::Bulk(word) = word { Some(word) } else { None };
            let item = |item| if let Value::Array(words) = item { words.into_iter().map(word).collect() } else { None };
            let items = items.into_iter().map(item).collect::<Option<_>>()?;
            RowValue::Stream { is_first: is_first == 1, items }
        }
        (Value::Bulk(bytes), None) => RowValue::String(bytes),
        (Value::Bulk(word), Some(Value::Array(parts))) if word == b"ZSET" => RowValue::SortedSet(pairs_of(parts)?),
        (Value::Bulk(word), Some(Value::Array(parts))) if word == b"EXPIRING" => {
            RowValue::Expiring(expiring_of(parts)?)
        }
        (Value::Array(parts), None) => RowValue::Hash(pairs_of(parts)?),
        _ => return None,
    };
    Some(BackupRow { key, expire_at_ms: expire_at_ms as u64, value })
}

/// Fields, values and expiries in turn.
fn expiring_of(parts: Vec<Value>) -> Option<Vec<ExpiringField>> {
    let mut fields = Vec::with_capacity(parts.len() / 3);
    let mut parts = parts.into_iter();
    while let Some(field) = parts.next() {
        let (Value::Bulk(field), Some(Value::Bulk(value))) = (field, parts.next()) else { return None };
        let Some(Value::Int(at_ms)) = parts.next() else { return None };
        fields.push(ExpiringField { field, value, at_ms: u64::try_from(at_ms).ok()? });
    }
    Some(fields)
}

/// Strings in turn, as pairs.
fn pairs_of(parts: Vec<Value>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut pairs = Vec::with_capacity(parts.len() / 2);
    let mut parts = parts.into_iter();
    while let Some(first) = parts.next() {
        let (Value::Bulk(first), Some(Value::Bulk(second))) = (first, parts.next()) else { return None };
        pairs.push((first, second));
    }
    Some(pairs)
}

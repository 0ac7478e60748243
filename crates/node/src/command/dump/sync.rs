//! SYNC: all keys as an RDB file, as `redis-cli --rdb` asks for it.
//!
//! A client of the cluster gets the keys of the shards that this node leads, with all cluster databases; a client of a database all databases. Each
//! shard is as of one moment, at which the command begins. Of a shard that another node leads, databases are as this node's
//! replica has them; which numbers they have for clients the words say behind it, of those that SWAPDB has exchanged. The store's
//! functions come first. The answer is `$EOF:` and a delimiter of 40 letters, the file, and the delimiter again. No changes follow.

use super::value::{Left, whole};
use crate::command::call::{Error, StoreCall};
use crate::command::steps::{PartLeft, Progress, StoreRest, StoreSteps};
use crate::{ReadSpace, Record, RecordRange, ShardSpace, ShardSpaces, Shards, Type};
use rdb::Checksum;
use resp::{Reply, parse_integer};
use smallvec::{SmallVec, smallvec};
use storage::Slice;
use vocab::limits::{RESTORED_BYTES_MAX, STREAM_STEP_BYTES_SOFT, STREAM_STEP_ITEMS_MAX};
use vocab::{Namespace, client_key, cluster_database_keys, keys_of_databases_alone};

/// Records that are read at a time.
const RECORDS: usize = 64;
const NOT_HERE: &str = "ERR this node has no replica of some databases, or does not know how old it is: ask `redis-cli --rdb` of another \
                        node, or use `basalt export`";
/// What Redis calls the end of a file, the select of a database and an expiry.
const END: u8 = 255;
const SELECT: u8 = 254;
const EXPIRE_MS: u8 = 252;

/// The first key of a range, and the first one behind it.
type KeySpan = (&'static [u8], &'static [u8]);

/// Which keys are answered.
#[derive(Clone, Copy)]
enum Keys {
    OfCluster,
    OfDatabases,
}

impl Keys {
    /// Where they are: the first of each part, and the first key behind. Those that have no namespace do not begin with one.
    fn spans(self) -> SmallVec<[KeySpan; 2]> {
        match self {
            Self::OfCluster => smallvec![(&b""[..], &b""[..]), cluster_database_keys()],
            Self::OfDatabases => smallvec![keys_of_databases_alone()],
        }
    }
}

pub(super) fn sync(call: &mut StoreCall<'_>) -> Result<StoreRest, Error> {
    let keys = if call.args.len() > 1 { Keys::OfDatabases } else { Keys::OfCluster };
    let mut chosen = Vec::new();
    for i in 0..call.shards.count() {
        match keys {
            Keys::OfCluster => chosen.extend(call.shards.leads(i).then_some(i)),
            Keys::OfDatabases if call.shards.is_here(i) => chosen.push(i),
            Keys::OfDatabases => check_empty(call.shards, i)?,
        }
    }
    for &i in &chosen {
        if !call.shards.is_here(i) {
            return Err(NOT_HERE.into());
        }
        // The first look takes its snapshot.
        call.shards.space(i);
    }
    let libraries = call.shards.libraries().map_err(|text| Error::Reply(text.into()))?;
    let delimiter = delimiter(call.shards, &chosen)?;
    call.reply.raw(format!("$EOF:{delimiter}\r\n").as_bytes());
    let spans = keys.spans();
    let parts = chosen.iter().flat_map(|shard| spans.iter().map(|span| (*shard, *span)));
    let parts: Vec<(usize, KeySpan)> = parts.collect();
    let mut left = FileLeft {
        exchanged: exchanged(call.args),
        next: parts.first().map_or_else(Vec::new, |(_, span)| span.0.to_vec()),
        parts,
        at: 0,
        selected: None,
        open: None,
        checksum: Checksum::default(),
        delimiter,
    };
    let mut head = format!("REDIS{:04}", rdb::VERSION).into_bytes();
    libraries.iter().for_each(|source| rdb::put_library(&mut head, source));
    left.emit(&head, call.reply);
    Ok(vec![PartLeft { shards: chosen, steps: Box::new(left) }])
}

/// The databases that SWAPDB has exchanged: the slot of which each has, and its number.
fn exchanged(args: &[&[u8]]) -> Vec<(u64, u64)> {
    let number = |word: &[u8]| parse_integer(word).and_then(|number| u64::try_from(number).ok());
    let pairs = args.get(3..).unwrap_or_default().chunks_exact(2);
    pairs.filter_map(|pair| Some((number(pair[1])?, number(pair[0])?))).collect()
}

/// Refuses if a shard that is not on this node has keys of a database.
fn check_empty(shards: &mut dyn Shards, i: usize) -> Result<(), Error> {
    let (start, end) = keys_of_databases_alone();
    let found = shards.heads(&[(i, RecordRange::heads(start, end, 1))]).pop();
    let heads = found.transpose()?;
    if heads.is_some_and(|heads| !heads.is_empty()) { Err(NOT_HERE.into()) } else { Ok(()) }
}

/// Forty letters that the file does not hold, but by a chance that is never met.
fn delimiter(shards: &mut dyn Shards, chosen: &[usize]) -> Result<String, Error> {
    let Some(&first) = chosen.first() else { return Ok("0123456789abcdef0123456789abcdef01234567".to_owned()) };
    let space = shards.space(first);
    let mut words = String::new();
    for _ in 0..3 {
        words.push_str(&format!("{:016x}", space.random_u64()?));
    }
    words.truncate(40);
    Ok(words)
}

/// The rest of a file.
struct FileLeft {
    /// Of databases that have the slot of another: that one, and their own number.
    exchanged: Vec<(u64, u64)>,
    /// Shards, and ranges of their keys.
    parts: Vec<(usize, KeySpan)>,
    /// Which of them is read.
    at: usize,
    /// The key to go on from.
    next: Vec<u8>,
    /// The database of the keys that were written last.
    selected: Option<u64>,
    /// The elements of a large collection that are still to be written.
    open: Option<Left>,
    /// Of the file so far.
    checksum: Checksum,
    delimiter: String,
}

impl FileLeft {
    fn emit(&mut self, bytes: &[u8], reply: &mut Reply) {
        self.checksum.update(bytes);
        reply.raw(bytes);
    }

    /// The number that clients use of the database that has the slot of that one.
    fn number_at(&self, place: u64) -> u64 {
        self.exchanged.iter().find(|(at, _)| *at == place).map_or(place, |(_, number)| *number)
    }

    /// Appends a key; of a large collection, what stands before its elements.
    fn key(&mut self, space: &mut dyn ReadSpace, key: &[u8], record: Record, out: &mut Vec<u8>) -> Result<(), Error> {
        let view = record.view();
        let (expire_at_ms, is_large) = (view.expire_at_ms, view.fields(key).is_some() && view.kind.ty != Type::Stream);
        let bytes = if is_large {
            let Some((head, left)) = Left::of(space, key, record)? else { return Ok(()) };
            self.open = Some(left);
            head
        } else {
            let Some(whole) = whole(space, key, record, RESTORED_BYTES_MAX)? else { return Ok(()) };
            whole.bytes
        };
        let database = match Namespace::of_key(key) {
            Some(Namespace::Database(place)) => self.number_at(place.number().into()),
            Some(Namespace::Cluster(database)) => database.number().into(),
            None => 0,
        };
        if self.selected.replace(database) != Some(database) {
            out.push(SELECT);
            rdb::put_length(out, database);
        }
        if let Some(at) = expire_at_ms {
            out.push(EXPIRE_MS);
            out.extend_from_slice(&at.to_le_bytes());
        }
        let (of, value) = bytes.split_at(1);
        out.extend_from_slice(of);
        rdb::put_string(out, client_key(key));
        out.extend_from_slice(value);
        Ok(())
    }

    /// Appends the next keys of a shard, or elements; says whether there are more.
    fn fill(&mut self, space: &mut dyn ShardSpace, end: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let mut looked_at = 0;
        while out.len() < STREAM_STEP_BYTES_SOFT && looked_at < STREAM_STEP_ITEMS_MAX {
            if let Some(mut left) = self.open.take()
                && left.fill(space, out)? == Progress::More
            {
                self.open = Some(left);
                return Ok(Progress::More);
            }
            let records = records(space, &self.next, end)?;
            if records.is_empty() {
                return Ok(Progress::Done);
            }
            for (key, record) in records {
                looked_at += 1;
                self.key(space, &key, record, out)?;
                self.next = [&key, &b"\0"[..]].concat();
                if self.open.is_some() {
                    break;
                }
            }
        }
        Ok(Progress::More)
    }
}

/// The next live records, from a key on: no more than a step may hold, but for the last.
fn records(space: &mut dyn ShardSpace, start: &[u8], end: &[u8]) -> Result<Vec<(Slice, Record)>, Error> {
    let range = RecordRange { start, end, reverse: false, payloads: true, limit: RECORDS };
    let mut list = space.records(&range)?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while found.len() < RECORDS
        && bytes < STREAM_STEP_BYTES_SOFT
        && let Some(key) = list.advance()?
    {
        if let Some(record) = list.record()? {
            bytes += record.view().payload.len();
            found.push((key, record));
        }
    }
    Ok(found)
}

impl StoreSteps for FileLeft {
    fn step(&mut self, shards: &mut dyn ShardSpaces, reply: &mut Reply) -> Result<Progress, Error> {
        let mut out = Vec::new();
        if let Some(&(shard, (_, end))) = self.parts.get(self.at) {
            if self.fill(shards.space(shard), end, &mut out)? == Progress::Done {
                self.at += 1;
                self.next = self.parts.get(self.at).map_or_else(Vec::new, |(_, (start, _))| start.to_vec());
            }
            self.emit(&out, reply);
            return Ok(Progress::More);
        }
        self.emit(&[END], reply);
        let checksum = self.checksum.value();
        reply.raw(&checksum.to_le_bytes());
        reply.raw(self.delimiter.as_bytes());
        Ok(Progress::Done)
    }
}

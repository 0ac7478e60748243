//! A shard that another node leads, for commands over the whole store: its leader is asked for pages of records
//! (KV.PART; `command::internal::shard_page` answers).

#[cfg(test)]
mod tests;

use super::{Heads, heads};
use crate::format::internal_commands::SHARD_PAGE;
use crate::format::keys::successor;
use crate::{Fault, ReadSpace, Record, RecordRange, Records, ShardSpace};
use resp::Value;
use std::collections::VecDeque;
use storage::Slice;
use vocab::limits::PART_ROWS_MAX;
use vocab::{ClusterDatabase, Database, Prng, ShardId, Slot};

/// A leader's answer to a command, one RESP frame; or the text of an error reply, if the leader could not be asked.
pub type RemoteAnswer = Result<Vec<u8>, String>;

/// How the shell reaches the leaders of shards. A call ends within a bound of time.
pub trait Remote {
    /// Runs a command on the leader of a shard.
    fn call(&mut self, shard: ShardId, command: &[&[u8]]) -> RemoteAnswer;

    /// Runs commands on the leaders of several shards; the answers are in the order of the calls. A shell that can asks
    /// them all at once.
    fn call_each(&mut self, calls: &[RemoteCall<'_>]) -> Vec<RemoteAnswer> {
        calls.iter().map(|call| self.call(call.shard, &call.command)).collect()
    }
}

/// A command for the leader of a shard.
#[derive(Clone, Debug)]
pub struct RemoteCall<'a> {
    /// The shard.
    pub shard: ShardId,
    /// The command's words.
    pub command: Vec<&'a [u8]>,
}

/// A shard that another node leads. For commands over the whole store, which do not read elements of collections: a large
/// collection comes packed, or without its elements if it is longer than a page.
pub struct RemoteSpace<R> {
    remote: R,
    shard: ShardId,
    now_ms: u64,
    prng: Prng,
}

impl<R: Remote> RemoteSpace<R> {
    /// A shard by its id.
    pub fn new(remote: R, shard: ShardId, now_ms: u64, seed: u64) -> Self {
        Self { remote, shard, now_ms, prng: Prng::new(seed) }
    }

    /// How it reaches the leader.
    #[must_use]
    pub fn remote(&self) -> &R {
        &self.remote
    }

    fn count(&mut self, command: &[&[u8]]) -> Result<u64, Fault> {
        count(self.remote.call(self.shard, command))
    }
}

/// The numbers of keys of several shards that other nodes lead, asked for together.
pub fn remote_counts<R: Remote>(remote: &mut R, shards: &[ShardId]) -> Vec<Result<u64, Fault>> {
    let call = |shard: &ShardId| RemoteCall { shard: *shard, command: vec![SHARD_PAGE, b"COUNT"] };
    let calls: Vec<RemoteCall<'_>> = shards.iter().map(call).collect();
    remote.call_each(&calls).into_iter().map(count).collect()
}

/// `ShardSpace::heads` of several shards that other nodes lead. The first pages are asked for together, and most of the time
/// they are all.
pub fn remote_heads<R: Remote>(remote: &mut R, asked: &[(ShardId, RecordRange<'_>)]) -> Vec<Result<Heads, Fault>> {
    let limits: Vec<usize> = asked.iter().map(|(_, range)| range.limit.clamp(1, PART_ROWS_MAX)).collect();
    let texts: Vec<String> = limits.iter().map(usize::to_string).collect();
    let mut calls: Vec<RemoteCall<'_>> = Vec::with_capacity(asked.len());
    for ((shard, range), text) in asked.iter().zip(&texts) {
        calls.push(RemoteCall { shard: *shard, command: page_command(range, text.as_bytes()) });
    }
    let answers = remote.call_each(&calls);
    let mut found = Vec::with_capacity(asked.len());
    for (((shard, range), limit), answer) in asked.iter().zip(limits).zip(answers) {
        let mut records = RemoteRecords::new(&mut *remote, *shard, range, limit, Some(answer));
        found.push(heads(&mut records, range.limit));
    }
    found
}

/// The records of a range in several shards that other nodes lead, one list a shard. The first pages are asked for
/// together.
pub fn remote_records<'a, R: Remote + Clone + 'a>(
    remote: &R,
    shards: &[ShardId],
    range: &RecordRange<'_>,
) -> Vec<Box<dyn Records + 'a>> {
    let mut remote = remote.clone();
    // Twice an even share: most of the time one page is enough.
    let limit = (2 * range.limit / shards.len().max(1) + 8).min(PART_ROWS_MAX);
    let text = limit.to_string();
    let call = |shard: &ShardId| RemoteCall { shard: *shard, command: page_command(range, text.as_bytes()) };
    let calls: Vec<RemoteCall<'_>> = shards.iter().map(call).collect();
    let pages = remote.call_each(&calls);
    let list = |(shard, answer): (&ShardId, RemoteAnswer)| {
        Box::new(RemoteRecords::new(remote.clone(), *shard, range, limit, Some(answer))) as Box<dyn Records + 'a>
    };
    shards.iter().zip(pages).map(list).collect()
}

/// The command for a page of a range.
fn page_command<'a>(range: &RecordRange<'a>, limit: &'a [u8]) -> Vec<&'a [u8]> {
    let mut command = vec![SHARD_PAGE, b"RANGE", range.start, range.end, b"LIMIT", limit];
    if range.reverse {
        command.push(b"REVERSE");
    }
    if !range.payloads {
        command.push(b"KEYS");
    }
    command
}

/// The part of a range that has not been read.
struct Span {
    start: Vec<u8>,
    end: Vec<u8>,
    reverse: bool,
    payloads: bool,
}

impl Span {
    fn of(range: &RecordRange<'_>) -> Self {
        let (start, end) = (range.start.to_vec(), range.end.to_vec());
        Self { start, end, reverse: range.reverse, payloads: range.payloads }
    }

    fn range(&self) -> RecordRange<'_> {
        let Self { start, end, reverse, payloads } = self;
        RecordRange { start, end, reverse: *reverse, payloads: *payloads, limit: 0 }
    }

    /// Takes off all up to `key`.
    fn pass(&mut self, key: &[u8]) {
        if self.reverse {
            self.end = key.to_vec();
        } else {
            self.start = successor(key);
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && (self.end.is_empty() || key < &self.end[..])
    }
}

/// The records of a range in one shard that another node leads, read a page at a time.
struct RemoteRecords<R> {
    remote: R,
    shard: ShardId,
    rest: Span,
    limit: usize,
    page: VecDeque<(Slice, Record)>,
    /// Whether there may be another page.
    more: bool,
    /// The answer to the first question, until it is read.
    answer: Option<RemoteAnswer>,
    at: Option<Record>,
}

impl<R: Remote> RemoteRecords<R> {
    /// The records of a range, `limit` on the first page; `answer` is the first page, if it has been asked for.
    fn new(remote: R, shard: ShardId, range: &RecordRange<'_>, limit: usize, answer: Option<RemoteAnswer>) -> Self {
        Self { remote, shard, rest: Span::of(range), limit, page: VecDeque::new(), more: true, answer, at: None }
    }

    fn fetch(&mut self) -> Result<(), Fault> {
        let answer = match self.answer.take() {
            Some(answer) => answer,
            None => {
                self.limit = (2 * self.limit).min(PART_ROWS_MAX);
                let Self { remote, shard, rest, limit, .. } = self;
                remote.call(*shard, &page_command(&rest.range(), limit.to_string().as_bytes()))
            }
        };
        let (rows, more) = page(answer)?;
        if more && rows.is_empty() {
            return Err(senseless());
        }
        for (key, _) in &rows {
            // Keys that are out of order or out of the range would make this loop endless.
            if !self.rest.has(key) {
                return Err(senseless());
            }
            self.rest.pass(key);
        }
        // An empty end would mean "unbounded".
        let at_the_bottom = self.rest.reverse && self.rest.end.is_empty();
        self.more = more && !at_the_bottom;
        self.page = rows.into();
        Ok(())
    }
}

impl<R: Remote> Records for RemoteRecords<R> {
    fn advance(&mut self) -> Result<Option<Slice>, Fault> {
        if self.page.is_empty() && self.more {
            self.more = false;
            self.fetch()?;
        }
        let Some((key, record)) = self.page.pop_front() else { return Ok(None) };
        self.at = Some(record);
        Ok(Some(key))
    }

    fn record(&mut self) -> Result<Option<Record>, Fault> {
        Ok(self.at.clone())
    }
}

/// The rows of an answer to KV.PART RANGE, and whether there are more.
fn page(answer: RemoteAnswer) -> Result<(Vec<(Slice, Record)>, bool), Fault> {
    let Value::Array(parts) = decode(answer)? else { return Err(senseless()) };
    let (Some(Value::Int(more)), Some(Value::Array(rows)), 2) = (parts.first(), parts.get(1), parts.len()) else {
        return Err(senseless());
    };
    let (pairs, odd) = rows.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(senseless());
    }
    let row = |[key, record]: &[Value; 2]| {
        let (key, record) = (key.as_bytes()?, Record::decode(Slice::from(record.as_bytes()?)).ok()?);
        Some((Slice::from(key), record))
    };
    let rows: Option<Vec<_>> = pairs.iter().map(row).collect();
    Ok((rows.ok_or_else(senseless)?, *more != 0))
}

fn count(answer: RemoteAnswer) -> Result<u64, Fault> {
    match decode(answer)? {
        Value::Int(count) => u64::try_from(count).map_err(|_| senseless()),
        _ => Err(senseless()),
    }
}

fn decode(answer: RemoteAnswer) -> Result<Value, Fault> {
    let bytes = answer.map_err(Fault::Remote)?;
    match resp::decode(&bytes) {
        Ok(Some((Value::Error(text), _))) => Err(Fault::Remote(text)),
        Ok(Some((value, length))) if length == bytes.len() => Ok(value),
        _ => Err(senseless()),
    }
}

fn senseless() -> Fault {
    Fault::Remote("ERR another node answered what makes no sense".to_owned())
}

impl<R: Remote> ReadSpace for RemoteSpace<R> {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn version(&self) -> u64 {
        0
    }

    fn random_u64(&mut self) -> Result<u64, Fault> {
        Ok(self.prng.next_u64())
    }

    fn stored(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        let end = successor(key);
        let range = RecordRange { start: key, end: &end, reverse: false, payloads: true, limit: 1 };
        let answer = self.remote.call(self.shard, &page_command(&range, b"1"));
        Ok(page(answer)?.0.pop().map(|(_, record)| record))
    }
}

impl<R: Remote> ShardSpace for RemoteSpace<R> {
    fn records<'a>(&'a mut self, range: &RecordRange<'_>) -> Result<Box<dyn Records + 'a>, Fault> {
        let limit = range.limit.clamp(1, PART_ROWS_MAX);
        Ok(Box::new(RemoteRecords::new(&mut self.remote, self.shard, range, limit, None)))
    }

    fn sample_key(&mut self) -> Result<Option<Slice>, Fault> {
        match decode(self.remote.call(self.shard, &[SHARD_PAGE, b"SAMPLE"])) {
            Ok(Value::Bulk(key)) => Ok(Some(Slice::from(key))),
            // A node of the release before does not know the word.
            Ok(_) | Err(Fault::Remote(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    fn keys_in_slot(&mut self, slot: Slot) -> Result<u64, Fault> {
        self.count(&[SHARD_PAGE, b"COUNT", slot.0.to_string().as_bytes()])
    }

    fn keys_in_database(&mut self, database: Database) -> Result<u64, Fault> {
        self.count(&[SHARD_PAGE, b"COUNT", b"DATABASE", database.number().to_string().as_bytes()])
    }

    fn keys_in_cluster_database(&mut self, database: ClusterDatabase, slot: Option<Slot>) -> Result<u64, Fault> {
        let number = database.number().to_string();
        let slot = slot.map(|slot| slot.0.to_string());
        let asked = [SHARD_PAGE, b"COUNT", b"SELECTED", number.as_bytes()];
        let slot = slot.as_ref().map(|slot| slot.as_bytes());
        self.count(&asked.into_iter().chain(slot).collect::<Vec<_>>())
    }

    fn key_count(&mut self) -> Result<u64, Fault> {
        self.count(&[SHARD_PAGE, b"COUNT"])
    }
}

impl<R: Remote + ?Sized> Remote for &mut R {
    fn call(&mut self, shard: ShardId, command: &[&[u8]]) -> RemoteAnswer {
        (**self).call(shard, command)
    }

    fn call_each(&mut self, calls: &[RemoteCall<'_>]) -> Vec<RemoteAnswer> {
        (**self).call_each(calls)
    }
}

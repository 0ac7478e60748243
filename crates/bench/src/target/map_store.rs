//! An embedded store for tests: a plain map in memory, with faults on request.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use resp::Reply;

use super::{EmbeddedHandle, EmbeddedStore, TargetFacts};

/// A key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredValue {
    /// A string and its version.
    Text(Vec<u8>, u64),
    /// A hash.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// A list.
    List(VecDeque<Vec<u8>>),
}

/// What the store does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mischief {
    /// Nothing.
    #[default]
    None,
    /// Another client writes before one in so many writes, drawn at random: clients that take turns must not meet every one.
    Rivals(u64),
    /// Every so many requests fail.
    Errors(u64),
    /// Scans end after so many rows, and say that nothing more is there.
    ShortScans(usize),
    /// Every so many requests, a take from a list leaves what it answers: the next one answers it again.
    TakesTwice(u64),
}

#[derive(Default)]
struct MapState {
    map: BTreeMap<Vec<u8>, StoredValue>,
    version: u64,
    requests: u64,
    mischief: Mischief,
}

/// The store.
#[derive(Clone, Default)]
pub(crate) struct MapStore(Arc<Mutex<MapState>>);

impl MapStore {
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<Vec<u8>, StoredValue>) -> T) -> T {
        change(&mut self.0.lock().map)
    }

    pub(crate) fn set_mischief(&self, mischief: Mischief) {
        self.0.lock().mischief = mischief;
    }
}

impl MapState {
    fn answer(&mut self, args: &[&[u8]], reply: &mut Reply) {
        self.requests += 1;
        if let Mischief::Errors(every) = self.mischief
            && self.requests.is_multiple_of(every)
        {
            return reply.error("BUSY try again");
        }
        let (name, key) = (args[0], args[1].to_vec());
        match name {
            b"HSET" => {
                let StoredValue::Hash(fields) =
                    self.map.entry(key).or_insert_with(|| StoredValue::Hash(BTreeMap::new()))
                else {
                    return reply.error("WRONGTYPE");
                };
                args[2..].chunks(2).for_each(|pair| _ = fields.insert(pair[0].to_vec(), pair[1].to_vec()));
                reply.int((args.len() as i64 - 2) / 2);
            }
            b"HGETALL" => write_held(self.map.get(&key), reply),
            b"HMGET" => {
                reply.array(args.len() - 2);
                for field in &args[2..] {
                    let value = match self.map.get(&key) {
                        Some(StoredValue::Hash(fields)) => fields.get(*field),
                        _ => None,
                    };
                    reply.bulk_or_null(value.map(Vec::as_slice));
                }
            }
            b"GET" => match self.map.get(&key) {
                Some(StoredValue::Text(text, _)) => reply.bulk(text),
                _ => reply.null(),
            },
            b"KV.GET" => match self.map.get(&key) {
                Some(StoredValue::Text(text, version)) => {
                    reply.array(2);
                    reply.bulk(text);
                    reply.int(*version as i64);
                }
                _ => reply.null_array(),
            },
            b"SET" | b"KV.PUT" => self.put(key, args, reply),
            b"LPUSH" => {
                let StoredValue::List(list) = self.map.entry(key).or_insert_with(|| StoredValue::List(VecDeque::new()))
                else {
                    return reply.error("WRONGTYPE");
                };
                args[2..].iter().for_each(|element| list.push_front(element.to_vec()));
                reply.int(list.len() as i64);
            }
            b"RPOP" => {
                let stays = matches!(self.mischief, Mischief::TakesTwice(every) if self.requests.is_multiple_of(every));
                let taken = match self.map.get_mut(&key) {
                    Some(StoredValue::List(list)) if stays => list.back().cloned(),
                    Some(StoredValue::List(list)) => list.pop_back(),
                    _ => None,
                };
                reply.bulk_or_null(taken.as_deref());
            }
            b"DEL" => reply.int(i64::from(self.map.remove(&key).is_some())),
            b"KV.RANGE" => self.range(args, reply),
            other => reply.error(&format!("ERR unknown command {}", String::from_utf8_lossy(other))),
        }
    }

    fn put(&mut self, key: Vec<u8>, args: &[&[u8]], reply: &mut Reply) {
        self.version += 1;
        if let (Mischief::Rivals(every), Some(StoredValue::Text(_, version))) = (self.mischief, self.map.get_mut(&key))
            && vocab::Prng::new(self.version).below(every) == 0
        {
            *version = self.version;
            self.version += 1;
        }
        let held = match self.map.get(&key) {
            Some(StoredValue::Text(_, version)) => *version,
            _ => 0,
        };
        if args.len() == 5 && resp::parse_integer(args[4]) != Some(held as i64) {
            return reply.null();
        }
        self.map.insert(key, StoredValue::Text(args[2].to_vec(), self.version));
        if args[0] == b"SET" { reply.ok() } else { reply.int(self.version as i64) }
    }

    /// Pages of at most 7 rows, so that scans must go on.
    fn range(&mut self, args: &[&[u8]], reply: &mut Reply) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let start = args[1][1..].to_vec();
        let start = if args[1][0] == b'[' { Included(start) } else { Excluded(start) };
        let limit = resp::parse_integer(args[4]).unwrap_or(0).min(7) as usize;
        let most = if let Mischief::ShortScans(rows) = self.mischief { rows.min(limit) } else { limit + 1 };
        let rows: Vec<_> = self.map.range((start, Unbounded)).take(most).collect();
        reply.array(2);
        match rows.get(limit) {
            Some((key, _)) => reply.bulk(&[b"[".as_slice(), key].concat()),
            None => reply.null(),
        }
        reply.array(rows.len().min(limit));
        for (key, held) in rows.into_iter().take(limit) {
            reply.array(2);
            reply.bulk(key);
            write_held(Some(held), reply);
        }
    }
}

fn write_held(held: Option<&StoredValue>, reply: &mut Reply) {
    match held {
        Some(StoredValue::Hash(fields)) => {
            reply.array(2 * fields.len());
            for (name, value) in fields {
                reply.bulk(name);
                reply.bulk(value);
            }
        }
        Some(StoredValue::Text(text, _)) => reply.bulk(text),
        Some(StoredValue::List(elements)) => {
            reply.array(elements.len());
            elements.iter().for_each(|element| reply.bulk(element));
        }
        None => reply.array(0),
    }
}

impl EmbeddedStore for MapStore {
    fn handle(&self, _in_flight: usize) -> io::Result<Box<dyn EmbeddedHandle>> {
        Ok(Box::new(MapHandle { store: self.clone(), later: VecDeque::new() }))
    }

    fn facts(&self) -> TargetFacts {
        TargetFacts { system: "a map".to_owned(), ..TargetFacts::default() }
    }

    fn data_dir(&self) -> Option<PathBuf> {
        None
    }
}

struct MapHandle {
    store: MapStore,
    /// Answers to writes, which come later, the last first.
    later: VecDeque<(u32, Vec<u8>)>,
}

impl EmbeddedHandle for MapHandle {
    fn submit(&mut self, token: u32, args: &[&[u8]], reply: &mut Vec<u8>) -> bool {
        let mut answer = Reply::default();
        self.store.0.lock().answer(args, &mut answer);
        let writes = [b"HSET".as_slice(), b"SET", b"KV.PUT", b"DEL", b"LPUSH"].contains(&args[0]);
        if writes {
            self.later.push_front((token, answer.buf));
        } else {
            reply.extend_from_slice(&answer.buf);
        }
        !writes
    }

    fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, &[u8])) -> io::Result<()> {
        if self.later.is_empty()
            && let Some(until) = until
        {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        self.later.drain(..).for_each(|(token, answer)| each(token, &answer));
        Ok(())
    }
}

//! Requests drawn at random: what a handler looks up or writes is among the keys that the command table finds in them. By these it is
//! decided who may run a request, on which shard and in which database.
#![allow(clippy::unwrap_used)]

use super::testspace::{TestSpace, answer};
use super::{Call, Handler, ReadHandler, handler};
use crate::{Fault, ReadSpace, Record, Rows, ShardSpace, WriteSpace};
use resp::Reply;
use resp::table::{self, CommandSpec, behaviour, flag};
use std::collections::BTreeSet;
use storage::Slice;
use vocab::{ClusterDatabase, Database, Prng, Slot};

const KEYS: [&str; 7] = ["k0", "k1", "k2", "k3", "k4", "k5", "none"];
const NUMBERS: [&str; 9] = ["0", "1", "2", "3", "-1", "0-1", "$", ">", "*"];
/// Requests of each command, and of those whose keys move.
const ROUNDS: usize = 200;
const ROUNDS_OF_MOVABLE: usize = 6000;

/// A space that notes the keys that it is asked for.
struct NotingSpace {
    space: TestSpace,
    touched: BTreeSet<Vec<u8>>,
}

impl NotingSpace {
    fn note(&mut self, key: &[u8]) -> &mut TestSpace {
        self.touched.insert(key.to_vec());
        &mut self.space
    }
}

impl ReadSpace for NotingSpace {
    fn now_ms(&self) -> u64 {
        self.space.now_ms()
    }

    fn version(&self) -> u64 {
        self.space.version()
    }

    fn random_u64(&mut self) -> Result<u64, Fault> {
        self.space.random_u64()
    }

    fn stored(&mut self, key: &[u8]) -> Result<Option<Record>, Fault> {
        self.note(key).stored(key)
    }

    fn element_get(&mut self, rows: &Rows, element: &[u8]) -> Result<Option<Slice>, Fault> {
        self.space.element_get(rows, element)
    }

    fn elements(&mut self, rows: &Rows, after: Option<&[u8]>, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        self.space.elements(rows, after, limit)
    }

    fn element_at(
        &mut self,
        rows: &Rows,
        from: &[u8],
        until: &[u8],
        nth: usize,
    ) -> Result<Option<(Slice, Slice)>, Fault> {
        self.space.element_at(rows, from, until, nth)
    }

    fn element_before(&mut self, rows: &Rows, before: &[u8]) -> Result<Option<(Slice, Slice)>, Fault> {
        self.space.element_before(rows, before)
    }
}

impl WriteSpace for NotingSpace {
    fn put(&mut self, key: &[u8], record: Record) -> Result<(), Fault> {
        self.note(key).put(key, record)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Fault> {
        self.note(key).delete(key)
    }

    fn give_up(&mut self, key: &[u8]) -> Result<(), Fault> {
        self.note(key).give_up(key)
    }

    fn new_rows(&mut self, key: &[u8]) -> Result<Rows, Fault> {
        self.note(key).new_rows(key)
    }

    fn element_put(&mut self, rows: &Rows, element: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.space.element_put(rows, element, value)
    }

    fn element_delete(&mut self, rows: &Rows, element: &[u8]) -> Result<(), Fault> {
        self.space.element_delete(rows, element)
    }

    fn requests(&mut self, client: &[u8]) -> Result<Option<Slice>, Fault> {
        self.space.requests(client)
    }

    fn put_requests(
        &mut self,
        client: &[u8],
        row: &[u8],
        until_ms: u64,
        was_until_ms: Option<u64>,
    ) -> Result<(), Fault> {
        self.space.put_requests(client, row, until_ms, was_until_ms)
    }

    fn request_clients(&mut self) -> Result<u64, Fault> {
        self.space.request_clients()
    }

    fn stage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault> {
        self.space.stage(rows, until_ms)
    }

    fn is_staged(&mut self, rows: &Rows, until_ms: u64) -> Result<bool, Fault> {
        self.space.is_staged(rows, until_ms)
    }

    fn unstage(&mut self, rows: &Rows, until_ms: u64) -> Result<(), Fault> {
        self.space.unstage(rows, until_ms)
    }

    fn drop_rows(&mut self, rows: &Rows) -> Result<(), Fault> {
        self.space.drop_rows(rows)
    }
}

impl ShardSpace for NotingSpace {
    fn keys_in_slot(&mut self, slot: Slot) -> Result<u64, Fault> {
        self.space.keys_in_slot(slot)
    }

    fn keys_in_database(&mut self, database: Database) -> Result<u64, Fault> {
        self.space.keys_in_database(database)
    }

    fn keys_in_cluster_database(&mut self, database: ClusterDatabase, slot: Option<Slot>) -> Result<u64, Fault> {
        self.space.keys_in_cluster_database(database, slot)
    }

    fn key_count(&mut self) -> Result<u64, Fault> {
        self.space.key_count()
    }
}

/// A key of each type.
fn filled() -> TestSpace {
    let mut space = TestSpace::new();
    for request in [
        "SET k0 1",
        "RPUSH k1 3 1 2",
        "SADD k2 1 2 3",
        "ZADD k3 1 k0 2 k1",
        "HSET k4 k0 1 k1 2",
        "XADD k5 1-1 f v",
        "XGROUP CREATE k5 k0 0",
    ] {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        answer(&mut space, &args);
    }
    space
}

fn is_token(word: &str) -> bool {
    !word.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// The words of a row's notation: those before its first word in upper case, and each of these with what follows on it.
fn segments(notation: &'static str) -> Vec<Vec<&'static str>> {
    let mut segments = vec![Vec::new()];
    let words = notation.split(|c: char| c.is_whitespace() || "[]<>|".contains(c));
    for word in words.filter(|word| !word.is_empty() && *word != "...") {
        if is_token(word) {
            segments.push(Vec::new());
        }
        segments.last_mut().unwrap().push(word);
    }
    segments
}

fn pick(words: &[&'static str], prng: &mut Prng) -> &'static str {
    words[prng.below(words.len() as u64) as usize]
}

/// A word in the place of one of the notation. It may be an option's: whatever stands in its place is no option.
fn word(placeholder: &str, tokens: &[&'static str], prng: &mut Prng) -> &'static str {
    let is_number = [":integer", ":double", ":unix-time"].iter().any(|kind| placeholder.ends_with(kind));
    match prng.below(10) {
        0 if !tokens.is_empty() => pick(tokens, prng),
        1..=3 if !tokens.is_empty() && !is_number => pick(tokens, prng),
        1..=8 if is_number => pick(&NUMBERS, prng),
        4 => pick(&NUMBERS, prng),
        _ => pick(&KEYS, prng),
    }
}

/// A request that is about right: what comes first, and some options in any order, now and then with a word too many.
fn request(spec: &'static CommandSpec, segments: &[Vec<&'static str>], prng: &mut Prng) -> Vec<&'static [u8]> {
    let (first, options) = segments.split_first().unwrap();
    let tokens: Vec<&'static str> = options.iter().map(|option| option[0]).collect();
    let mut words: Vec<&'static str> = spec.name.split('|').collect();
    let named = words.len();
    let mut drawn: Vec<&Vec<&'static str>> = vec![first];
    for _ in 0..prng.below(5) {
        if !options.is_empty() {
            drawn.push(&options[prng.below(options.len() as u64) as usize]);
        }
    }
    for &placeholder in drawn.into_iter().flatten() {
        words.push(if is_token(placeholder) { placeholder } else { word(placeholder, &tokens, prng) });
    }
    if prng.below(4) == 0 {
        let at = named + prng.below((words.len() - named + 1) as u64) as usize;
        words.insert(at, word("", &tokens, prng));
    }
    words.into_iter().map(str::as_bytes).collect()
}

fn run(runs: Handler, args: &[&[u8]], space: &mut NotingSpace) {
    let reply = &mut Reply::default();
    // An error is an answer.
    let _ = match runs {
        Handler::Read(handler) => handler.run(args, space, reply),
        Handler::Write(run) | Handler::WriteIf(_, run, _) => run(&mut Call { args, space, reply }),
        Handler::Store(_) | Handler::Script(_) => Ok(()),
    };
}

/// Options come in any order and several times, and a group may be called STREAMS.
#[test]
fn handlers_touch_no_keys_but_those_that_the_table_finds() {
    let (base, mut prng, mut touching) = (filled(), Prng::new(23), 0);
    for spec in table::all().iter().filter(|spec| !spec.does(behaviour::FOR_NODES)) {
        let runs = match handler(spec) {
            None | Some(Handler::Read(ReadHandler::Shard(_)) | Handler::Store(_) | Handler::Script(_)) => continue,
            Some(runs) => runs,
        };
        let segments = segments(spec.arguments);
        let rounds = if spec.has(flag::MOVABLE_KEYS) { ROUNDS_OF_MOVABLE } else { ROUNDS };
        for _ in 0..rounds {
            let args = request(spec, &segments, &mut prng);
            // By a pattern SORT reads keys that no argument is.
            let has_pattern = spec.does(behaviour::READS_BY_PATTERN) && args.contains(&&b"*"[..]);
            if !spec.check_arity(args.len()) || has_pattern {
                continue;
            }
            let mut space = NotingSpace { space: base.clone(), touched: BTreeSet::new() };
            run(runs, &args, &mut space);
            let found: Vec<&[u8]> = spec.keys(&args).into_iter().flatten().map(|at| args[at]).collect();
            let other = space.touched.iter().find(|key| !found.contains(&key.as_slice()));
            let shown = || args.join(&b' ').escape_ascii().to_string();
            assert!(other.is_none(), "{}: {}", shown(), other.unwrap().escape_ascii());
            touching += usize::from(!space.touched.is_empty());
        }
    }
    assert!(touching > 2000, "only {touching} requests have touched a key");
}

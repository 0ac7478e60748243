//! SCAN, KEYS and DBSIZE: commands over all keys of the store. `cursors` says what a cursor is.
//!
//! They are over the shards that the node leads, for clients of Redis Cluster ask every node and add up; with STORE they
//! are over the whole store, and with DATABASE over one database, by the leader of its shard. With SELECTED they are about a cluster database,
//! in the same shards.

use super::args::{NO_VALUES, SYNTAX, int, is_word, named_namespace, within_namespace};
use super::call::{Error, HandlerRow, Others, Outcome, StoreCall, Walk, store_at, store_in_steps};
use super::cursors::{Cursor, key_hash};
use super::steps::{PartLeft, Progress, Step, StoreRest, StoreSteps};
use crate::format::keys::{prefix_end, successor};
use crate::{Fault, Need, Record, RecordRange, ShardSpace, ShardSpaces, Shards};
use resp::{Reply, glob_matches, table};
use storage::Slice;
use vocab::limits::{KEYS_BYTES_MAX, STREAM_STEP_ITEMS_MAX};
use vocab::{Database, Namespace, Slot, client_key};

const TOO_MANY_KEYS: &str = "ERR the keys of the store take more than 64 MiB: walk through them with SCAN … STORE";
const _: () = assert!(KEYS_BYTES_MAX == 64 << 20, "TOO_MANY_KEYS says how many");

/// How many keys are read at a time.
pub(super) const CHUNK: usize = 256;
/// How many keys SCAN looks at if it is not told.
const SCAN_COUNT: usize = 10;
/// How many shards one SCAN may pass, however empty they are.
const SCAN_SHARDS_MAX: usize = 1024;
/// How many keys one SCAN looks at, whatever its client asks for.
const SCAN_KEYS_MAX: usize = 64 * 1024;
/// Bytes of keys after which a SCAN answers.
const SCAN_BYTES_SOFT: usize = 1 << 20;

/// The answer of a walk of all keys that has ended early: its client has left, as a rule.
const ABANDONED: &str = "ERR the command was ended: its client is being closed, or the node stops";

/// Without the word they are about the shards that this node leads.
const WITH_STORE: Others = Others::AwaitedWith("STORE");

pub(super) const ROWS: &[HandlerRow] = &[
    store_at("SCAN", scan, slot_of_database).awaits(WITH_STORE).walks(Walk::Page),
    store_in_steps("KEYS", keys, slot_of_database).awaits(WITH_STORE).walks(Walk::Whole),
    store_at("DBSIZE", dbsize, slot_of_database).awaits(WITH_STORE),
];

/// No shard owns the slot.
pub(super) const NOT_SERVED: &str = "CLUSTERDOWN Hash slot not served";

/// The slot of the database that a request ends in: `… DATABASE number`.
pub(super) fn slot_of_database(args: &[&[u8]]) -> Option<Slot> {
    // Of a cluster database none.
    within_namespace(&args[1..]).ok()?.1?.slot()
}

/// The keys that a pattern asks for: where they lie, and which of those there.
pub(super) struct Wanted<'a> {
    /// `None` if all are wanted.
    pattern: Option<&'a [u8]>,
    /// What every such key begins with, as it is stored.
    prefix: Vec<u8>,
    /// The first key after all that begin so; empty if there is none.
    end: Vec<u8>,
}

impl<'a> Wanted<'a> {
    /// Of the keys of a namespace, or of those that have none.
    fn new(pattern: &'a [u8], of: Option<Namespace>) -> Self {
        let literal = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
        let mut prefix = of.map_or_else(Vec::new, |namespace| namespace.mark().to_vec());
        // In a cluster database, the slots of names come before them.
        if !matches!(of, Some(Namespace::Cluster(_))) {
            prefix.extend_from_slice(&pattern[..literal]);
        }
        Self { pattern: (pattern != b"*").then_some(pattern), end: prefix_end(&prefix), prefix }
    }

    /// `None` if all keys are wanted.
    pub(super) fn pattern(&self) -> Option<&'a [u8]> {
        self.pattern
    }

    /// Redis finds the empty key with the patterns `*` and the empty one only.
    fn includes(&self, stored: &[u8]) -> bool {
        let Some(pattern) = self.pattern else { return true };
        let key = client_key(stored);
        key.is_empty() == pattern.is_empty() && glob_matches(pattern, key, false)
    }

    /// Up to `limit` keys of the range, included or not, after `after`.
    pub(super) fn rows(
        &self,
        space: &mut dyn ShardSpace,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Slice, Record)>, Fault> {
        match after {
            Some(after) if after >= &self.prefix[..] => {
                space.heads(&RecordRange::heads(&successor(after), &self.end, limit))
            }
            _ => space.heads(&RecordRange::heads(&self.prefix, &self.end, limit)),
        }
    }

    /// The included ones of the next keys after `after`, and the last key that was looked at; `None`: there are no more.
    fn page(&self, space: &mut dyn ShardSpace, after: Option<&[u8]>) -> Result<Option<(Vec<Slice>, Slice)>, Fault> {
        let rows = self.rows(space, after, CHUNK)?;
        let Some(last) = rows.last().map(|(key, _)| key.clone()) else { return Ok(None) };
        Ok(Some((rows.into_iter().map(|(key, _)| key).filter(|key| self.includes(key)).collect(), last)))
    }
}

pub(super) struct Options<'a> {
    pub(super) wanted: Wanted<'a>,
    pub(super) count: usize,
    type_name: Option<&'a [u8]>,
    /// Whether shards that other nodes lead are scanned too.
    pub(super) whole_store: bool,
    /// The namespace that is scanned; `None`: the keys that have none.
    of: Option<Namespace>,
}

impl<'a> Options<'a> {
    pub(super) fn parse(words: &[&'a [u8]]) -> Result<Self, Error> {
        let mut pattern: &[u8] = b"*";
        let wanted = Wanted::new(pattern, None);
        let mut options = Self { wanted, count: SCAN_COUNT, type_name: None, whole_store: false, of: None };
        let (words, of) = within_namespace(words)?;
        options.of = of;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if is_word(word, "STORE") {
                options.whole_store = true;
                continue;
            }
            if is_word(word, "NOVALUES") {
                return Err(NO_VALUES.into());
            }
            let value = words.next().ok_or(SYNTAX)?;
            if is_word(word, "COUNT") {
                let count = int(value)?;
                options.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if is_word(word, "MATCH") {
                pattern = value;
            } else if is_word(word, "TYPE") {
                options.type_name = Some(value);
            } else {
                options.of = Some(named_namespace(word, value)?.ok_or(SYNTAX)?);
            }
        }
        options.wanted = Wanted::new(pattern, options.of);
        Ok(options)
    }

    /// Those of a question about a database, of which it is known.
    pub(super) fn of_database(words: &[&'a [u8]], database: Database) -> Result<Self, Error> {
        let (options, of) = (Self::parse(words)?, Some(Namespace::Database(database)));
        let wanted = Wanted::new(options.wanted.pattern.unwrap_or(b"*"), of);
        Ok(Self { wanted, of, ..options })
    }

    /// Those of KEYS.
    pub(super) fn of_pattern(pattern: &'a [u8], database: Database) -> Self {
        let of = Some(Namespace::Database(database));
        Self { wanted: Wanted::new(pattern, of), count: SCAN_COUNT, type_name: None, whole_store: false, of }
    }

    /// Whether the pattern asks for a key.
    pub(super) fn is_wanted(&self, key: &[u8]) -> bool {
        self.wanted.includes(key)
    }

    pub(super) fn include(&self, key: &[u8], record: &Record) -> bool {
        let of_type = |name: &[u8]| record.view().kind.type_name().as_bytes().eq_ignore_ascii_case(name);
        self.wanted.includes(key) && self.type_name.is_none_or(of_type)
    }
}

/// A cursor as clients write it; nothing at all means 0, as in Redis.
pub(super) fn parse_cursor(text: &[u8]) -> Result<Cursor, Error> {
    const INVALID: &str = "ERR invalid cursor";
    if !text.iter().all(u8::is_ascii_digit) {
        return Err(INVALID.into());
    }
    let append = |n: u64, digit: &u8| n.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let number = text.iter().try_fold(0, append).ok_or(INVALID)?;
    Cursor::of_number(number).ok_or(INVALID.into())
}

/// Refuses to go on with a walk of all keys whose client has left.
fn go_on(shards: &dyn Shards) -> Outcome {
    if shards.is_abandoned() { Err(ABANDONED.into()) } else { Ok(()) }
}

/// The key after which the scan goes on in shard `i`; `None` for its beginning.
pub(super) fn resume(
    call: &mut StoreCall<'_>,
    i: usize,
    cursor: Cursor,
    wanted: &Wanted<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    if cursor.hash == 0 {
        return Ok(None);
    }
    if let Some(key) = call.cursors.recall(cursor) {
        return Ok(Some(key));
    }
    let mut after: Option<Slice> = None;
    loop {
        go_on(call.shards)?;
        let rows = wanted.rows(call.shards.space(i), after.as_deref(), CHUNK)?;
        if let Some((key, _)) = rows.iter().find(|(key, _)| key_hash(key) == cursor.hash) {
            return Ok(Some(key.to_vec()));
        }
        if rows.len() < CHUNK {
            // The key is gone: from the beginning, so that nothing is missed.
            return Ok(None);
        }
        after = rows.into_iter().last().map(|(key, _)| key);
    }
}

fn shard_of(shards: &dyn Shards, slot: u16) -> usize {
    (0..shards.count()).rfind(|i| shards.slots(*i).0 <= slot).unwrap_or(0)
}

fn scan(call: &mut StoreCall<'_>) -> Outcome {
    let cursor = parse_cursor(call.args[1])?;
    let options = Options::parse(&call.args[2..])?;
    if let Some(Namespace::Database(database)) = options.of {
        return scan_database(call, database, cursor, &options);
    }
    let first = shard_of(call.shards, cursor.slot);
    let scanned = |shards: &dyn Shards, i: usize| options.whole_store || shards.leads(i);
    let mut after = match scanned(call.shards, first) {
        true => resume(call, first, cursor, &options.wanted)?,
        // Another node leads the shard by now: the scan goes on with this node's next one.
        false => None,
    };
    let mut found = Found::new(options.count);
    let mut next = None;
    let shards: Vec<usize> = (first..call.shards.count()).filter(|i| scanned(call.shards, *i)).collect();
    for (visited, i) in shards.into_iter().enumerate() {
        let slot = call.shards.slots(i).0;
        if found.is_full() || visited == SCAN_SHARDS_MAX {
            next = Some(Cursor::before(slot));
            break;
        }
        if let Some(last) = scan_shard(call, i, after.take(), &options, &mut found)? {
            let cursor = Cursor::after(slot, &last);
            call.cursors.remember(cursor, &last);
            next = Some(cursor);
            break;
        }
    }
    answer(call, next, &found)
}

fn answer(call: &mut StoreCall<'_>, next: Option<Cursor>, found: &Found) -> Outcome {
    call.reply.array(2);
    call.reply.bulk_int(next.map_or(0, Cursor::number));
    call.reply.array(found.keys.len());
    found.keys.iter().for_each(|key| call.reply.bulk(client_key(key)));
    Ok(())
}

/// The keys of a database are in one shard, one after the other.
fn scan_database(call: &mut StoreCall<'_>, database: Database, cursor: Cursor, options: &Options<'_>) -> Outcome {
    let slot = database.slot();
    let (shard, _) = call.shards.run_from(slot.0).ok_or(NOT_SERVED)?;
    let after = resume(call, shard, Cursor { slot: slot.0, ..cursor }, &options.wanted)?;
    let mut found = Found::new(options.count);
    let last = scan_shard(call, shard, after, options, &mut found)?;
    let next = last.map(|last| {
        let cursor = Cursor::after(slot.0, &last);
        call.cursors.remember(cursor, &last);
        cursor
    });
    answer(call, next, &found)
}

/// What one SCAN has found so far.
pub(super) struct Found {
    keys: Vec<Slice>,
    /// Of the keys.
    bytes: usize,
    /// How many keys it may still look at.
    left: usize,
}

impl Found {
    /// Nothing yet; so many keys may be looked at.
    pub(super) fn new(count: usize) -> Self {
        Self { keys: Vec::new(), bytes: 0, left: count.min(SCAN_KEYS_MAX) }
    }

    pub(super) fn keys(&self) -> &[Slice] {
        &self.keys
    }

    /// A key was looked at, and is this one if it is wanted.
    pub(super) fn look(&mut self, key: Option<Slice>) {
        self.left = self.left.saturating_sub(1);
        if let Some(key) = key {
            self.add(key);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.left == 0 || self.bytes >= SCAN_BYTES_SOFT
    }

    fn add(&mut self, key: Slice) {
        self.bytes += key.len();
        self.keys.push(key);
    }
}

/// Looks at keys of shard `i` until `found` is full. Answers the last one if there may be more.
fn scan_shard(
    call: &mut StoreCall<'_>,
    i: usize,
    after: Option<Vec<u8>>,
    options: &Options<'_>,
    found: &mut Found,
) -> Result<Option<Slice>, Fault> {
    let space = call.shards.space(i);
    let mut last: Option<Slice> = None;
    while !found.is_full() {
        let limit = CHUNK.min(found.left);
        let rows = options.wanted.rows(space, last.as_deref().or(after.as_deref()), limit)?;
        let complete = rows.len() < limit;
        found.left -= rows.len();
        if let Some((key, _)) = rows.last() {
            last = Some(key.clone());
        }
        let included = rows.into_iter().filter(|(key, record)| options.include(key, record)).map(|(key, _)| key);
        included.for_each(|key| found.add(key));
        if complete {
            return Ok(None);
        }
    }
    Ok(last)
}

/// The error of a question with words that it does not know. Redis counts the arguments of these.
pub(super) fn unknown_words(question: &[u8]) -> Error {
    Error::Reply(table::lookup(question).map_or_else(|| SYNTAX.to_owned(), table::wrong_arity).into())
}

/// The shards that KEYS and DBSIZE are about, and the namespace: `[STORE] [DATABASE number | SELECTED number]`, from that argument on.
fn counted(shards: &dyn Shards, args: &[&[u8]], from: usize) -> Result<(Vec<usize>, Option<Namespace>), Error> {
    let (words, of) = within_namespace(&args[from..])?;
    let whole = match words {
        [] => false,
        [word] if is_word(word, "STORE") && !matches!(of, Some(Namespace::Database(_))) => true,
        _ => return Err(unknown_words(args[0])),
    };
    let shards = match of {
        Some(Namespace::Database(database)) => vec![shards.run_from(database.slot().0).ok_or(NOT_SERVED)?.0],
        _ => (0..shards.count()).filter(|i| whole || shards.leads(*i)).collect(),
    };
    Ok((shards, of))
}

/// The count comes first: so the keys are read twice, to count them and to answer them, of shards of this node from one
/// snapshot. Pages of shards elsewhere are each of a moment of their own: of these the keys are collected.
fn keys(call: &mut StoreCall<'_>) -> Result<StoreRest, Error> {
    let (chosen, of) = counted(call.shards, call.args, 2)?;
    let wanted = Wanted::new(call.args[1], of);
    if !chosen.iter().all(|i| call.shards.is_here(*i)) {
        collect_keys(call, &wanted, &chosen)?;
        return Ok(Vec::new());
    }
    let mut count = 0;
    for &i in &chosen {
        let mut after = None;
        while let Some((keys, last)) = wanted.page(call.shards.space(i), after.as_deref())? {
            count += keys.len();
            after = Some(last);
            go_on(call.shards)?;
        }
    }
    call.reply.array(count);
    let left = |shard: usize| {
        let steps = Box::new(KeysLeft { shard, pattern: call.args[1].to_vec(), of, after: None });
        PartLeft { shards: vec![shard], steps }
    };
    Ok(chosen.into_iter().map(left).collect())
}

fn collect_keys(call: &mut StoreCall<'_>, wanted: &Wanted<'_>, chosen: &[usize]) -> Outcome {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut left: Vec<(usize, Vec<u8>)> = chosen.iter().map(|i| (*i, wanted.prefix.clone())).collect();
    // The next page of every shard at the same time.
    while !left.is_empty() {
        go_on(call.shards)?;
        let mut asked = Vec::with_capacity(left.len());
        for (i, start) in &left {
            asked.push((*i, RecordRange::heads(start, &wanted.end, CHUNK)));
        }
        let mut rest = Vec::new();
        for ((i, _), rows) in left.iter().zip(call.shards.heads(&asked)) {
            let rows = rows?;
            if let Some((last, _)) = rows.last().filter(|_| rows.len() == CHUNK) {
                rest.push((*i, successor(last)));
            }
            let keys = rows.into_iter().map(|(key, _)| key).filter(|key| wanted.includes(key));
            keys.for_each(|key| {
                bytes += key.len();
                found.push(key);
            });
            if bytes > KEYS_BYTES_MAX {
                return Err(TOO_MANY_KEYS.into());
            }
        }
        left = rest;
    }
    call.reply.array(found.len());
    found.iter().for_each(|key| call.reply.bulk(client_key(key)));
    Ok(())
}

/// The keys of a shard after one are still to be answered.
struct KeysLeft {
    shard: usize,
    pattern: Vec<u8>,
    of: Option<Namespace>,
    after: Option<Slice>,
}

impl StoreSteps for KeysLeft {
    fn step(&mut self, shards: &mut dyn ShardSpaces, reply: &mut Reply) -> Result<Progress, Error> {
        let (wanted, space) = (Wanted::new(&self.pattern, self.of), shards.space(self.shard));
        let mut looked_at = 0;
        let mut step = Step::begin(reply);
        while let Some((keys, last)) = wanted.page(space, self.after.as_deref())? {
            self.after = Some(last);
            looked_at += CHUNK;
            keys.iter().for_each(|key| reply.bulk(client_key(key)));
            if looked_at >= STREAM_STEP_ITEMS_MAX || !step.goes_on(reply) {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }
}

fn dbsize(call: &mut StoreCall<'_>) -> Outcome {
    let (which, of) = counted(call.shards, call.args, 1)?;
    let mut each = which.iter();
    let count: u64 = match of {
        Some(Namespace::Database(database)) => {
            each.map(|i| call.shards.space(*i).keys_in_database(database)).sum::<Result<u64, Fault>>()?
        }
        Some(Namespace::Cluster(database)) => each.try_fold(0, |sum, i| {
            Ok::<_, Fault>(sum + call.shards.space(*i).keys_in_cluster_database(database, None)?)
        })?,
        None => call.shards.key_counts(&which, Need::Each).into_iter().sum::<Result<u64, Fault>>()?,
    };
    call.reply.int(count as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ScanCursors;
    use super::super::testspace::{TestShards, run_on_store};
    use super::*;
    use crate::command::test_walk::{Event, Walk};
    use crate::{Kind, WriteSpace};
    use resp::Proto;

    #[test]
    fn transcript() {
        super::super::transcript::check("scan");
    }

    #[test]
    fn a_scan_meets_every_key_that_stays() {
        use Event::{LastKeyDeleted, Nothing, Restart, Split};
        for (events, count) in [
            (&[Nothing][..], "10"),
            (&[Split], "7"),
            (&[Restart], "100"),
            (&[Split, Restart], "10"),
            (&[LastKeyDeleted], "3"),
            (&[Nothing, Restart, Split, LastKeyDeleted], "13"),
        ] {
            Walk::new("SCAN", scan, 3).meets_every_key(events, count);
        }
    }

    #[test]
    fn a_forgotten_cursor_whose_key_is_gone_begins_its_shard_again() {
        let mut walk = Walk::new("SCAN", scan, 1);
        (0..20).for_each(|i| walk.put(&format!("key{i:02}")));
        let (cursor, _) = walk.step("0", &[]);
        // Whether key09 is gone, whether the node has forgotten the cursor, and the first key of the next step.
        for (is_gone, is_forgotten, first) in
            [(false, false, "key10"), (true, false, "key10"), (false, true, "key10"), (true, true, "key00")]
        {
            if is_gone {
                walk.delete("key09");
            } else {
                walk.put("key09");
            }
            if is_forgotten {
                walk.cursors = ScanCursors::default();
            }
            assert_eq!(walk.step(&cursor, &[]).1[0], first, "gone: {is_gone}, forgotten: {is_forgotten}");
        }
    }

    #[test]
    fn a_walk_of_all_keys_ends_when_its_client_has_left() {
        let mut shards = TestShards::new(2);
        for i in 0..2000 {
            let key = format!("key{i}");
            shards.owner(key.as_bytes()).put(key.as_bytes(), Record::new(Kind::STRING, None, &[])).unwrap();
        }
        let cases: [(&[&[u8]], bool); 4] = [
            // No key has that hash.
            (&[b"SCAN", b"1"], false),
            (&[b"KEYS", b"*x"], false),
            (&[b"KEYS", b"*x", b"STORE"], true),
            (&[b"CLUSTERSCAN", b"s16383-{06S}-1"], false),
        ];
        for (args, is_elsewhere) in cases {
            shards.elsewhere = is_elsewhere.then_some(1).into_iter().collect();
            for is_abandoned in [false, true] {
                shards.is_abandoned = is_abandoned;
                let mut reply = Reply::new(Proto::Resp2);
                let done = run_on_store(&mut shards, &ScanCursors::default(), args, &mut reply);
                assert_eq!(done.is_err(), is_abandoned, "{args:?}");
            }
        }
    }

    #[test]
    fn a_pattern_reads_only_where_its_keys_are() {
        let mut walk = Walk::new("SCAN", scan, 1);
        (0..5000).for_each(|i| walk.put(&format!("{}{i}", if i % 500 == 0 { "rare:" } else { "much:" })));
        let (cursor, found) = walk.step("0", &["MATCH", "rare:*", "COUNT", "100"]);
        assert_eq!((&cursor[..], found.len()), ("0", 10));
        let (cursor, found) = walk.step("0", &["MATCH", "*:4500", "COUNT", "100"]);
        assert!(cursor != "0" && found.is_empty(), "COUNT bounds the work");
        for (prefix, end) in [(&b""[..], &b""[..]), (b"a", b"b"), (b"a\xff\xff", b"b"), (b"\xff", b"")] {
            assert_eq!(prefix_end(prefix), end);
        }
    }
}

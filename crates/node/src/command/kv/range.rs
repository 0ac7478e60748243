//! KV.RANGE: keys of the whole store in order, a page at a time.
//!
//! `KV.RANGE start end [LIMIT n] [KEYS|VALUES] [REVERSE]` → `[token, [row, …]]`
//!
//! A bound is `[key` (inclusive), `(key` (exclusive), `-` (before all keys) or `+` (after all keys); start is the
//! lower one, with REVERSE too. Rows come in rising order of their keys, as bytes; with REVERSE in falling order.
//! A row is `[key, value, version]`; with VALUES `[key, value]`; with KEYS the key alone. The value of a hash is a
//! flat array of its fields and values, or null if that is more than a page: HSCAN reads such a hash; that of a stream is null. The token is null after the last row of the range; else it is the bound to
//! give as start (with REVERSE: as end) for the next page. A page ends after LIMIT rows (100 if not given), or earlier once
//! its keys have 1 MiB. Each shard is read at a moment of its own.
//!
//! Where all shards are read on this node, the rows behind the first MiB are listed by their keys, and what they hold is read
//! from the same snapshots as the client takes it. Else the page ends there.
//!
//! With `DATABASE number` behind it all it is over the keys of one database, by the leader of its shard: bounds, rows and the token have
//! the names that clients use.

use crate::command::args::{NOT_INTEGER, SYNTAX, is_word, within_namespace};
use crate::command::call::{Error, HandlerRow, Others, Outcome, StoreCall, store_in_steps};
use crate::command::hash::{Stored, value_of};
use crate::command::list::{List, Side};
use crate::command::scan::{NOT_SERVED, slot_of_database};
use crate::command::steps::{PartLeft, Progress, Step, StoreRest, StoreSteps};
use crate::format::keys::successor;
use crate::{Fault, ReadSpace, Record, RecordRange, Records, ShardSpaces, Shards, Type};
use resp::Reply;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use storage::Slice;
use vocab::limits::{RANGE_BYTES_SOFT, RANGE_PAGE_BYTES_SOFT, RANGE_ROWS_MAX};
use vocab::{Database, Namespace, client_key};

const LIMIT: usize = 100;
const VANISHED: &str = "ERR a key is gone from a snapshot: this is a fault of the store, report it";
/// What a row's frames take in a reply, about.
const ROW_OVERHEAD_BYTES: usize = 64;

pub(in crate::command) const ROWS: &[HandlerRow] =
    &[store_in_steps("KV.RANGE", range, slot_of_database).awaits(Others::Awaited)];

/// What a row shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    Keys,
    Values,
    All,
}

/// How a row is shown.
#[derive(Clone, Copy)]
struct Shown {
    columns: Columns,
    /// Keys have the names that clients of their database use.
    by_client_name: bool,
}

impl Shown {
    fn key(self, stored: &[u8]) -> &[u8] {
        if self.by_client_name { client_key(stored) } else { stored }
    }
}

struct Options {
    limit: usize,
    columns: Columns,
    reverse: bool,
}

impl Options {
    fn parse(words: &[&[u8]]) -> Result<Self, Error> {
        let mut options = Self { limit: LIMIT, columns: Columns::All, reverse: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let plain = options.columns == Columns::All;
            if is_word(word, "LIMIT") {
                let limit = resp::parse_integer(words.next().ok_or(SYNTAX)?).ok_or(NOT_INTEGER)?;
                let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
                options.limit = limit.ok_or("ERR LIMIT must be positive")?.min(RANGE_ROWS_MAX);
            } else if is_word(word, "KEYS") && plain {
                options.columns = Columns::Keys;
            } else if is_word(word, "VALUES") && plain {
                options.columns = Columns::Values;
            } else if is_word(word, "REVERSE") {
                options.reverse = true;
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(options)
    }
}

/// A range of keys as `RecordRange` has it: `start` inclusive, `end` exclusive and, if empty, unbounded.
struct Span {
    start: Vec<u8>,
    end: Vec<u8>,
    /// No key lies within.
    empty: bool,
}

impl Span {
    fn parse(start: &[u8], end: &[u8]) -> Result<Self, Error> {
        const INVALID: &str = "ERR min or max not valid string range item";
        let mut span = Self { start: Vec::new(), end: Vec::new(), empty: false };
        match start {
            b"-" => {}
            b"+" => span.empty = true,
            [b'[', key @ ..] => span.start = key.to_vec(),
            [b'(', key @ ..] => span.start = successor(key),
            _ => return Err(INVALID.into()),
        }
        match end {
            b"+" => {}
            b"-" => span.empty = true,
            [b'[', key @ ..] => span.end = successor(key),
            [b'(', key @ ..] => {
                span.end = key.to_vec();
                // Nothing is before the empty key, and an empty end would mean another thing.
                span.empty |= key.is_empty();
            }
            _ => return Err(INVALID.into()),
        }
        Ok(span)
    }

    /// The same keys of a database, under the names that are stored.
    fn within(self, database: Database) -> Self {
        let stored = |name: &[u8]| [&database.prefix(), name].concat();
        let start = stored(&self.start);
        let end = if self.end.is_empty() { database.end().to_vec() } else { stored(&self.end) };
        Self { empty: self.empty || start >= end, start, end }
    }
}

/// What a request is about.
struct Asked {
    span: Span,
    options: Options,
    /// The one shard that has all of it, where it is about a database.
    only: Option<usize>,
}

impl Asked {
    fn parse(shards: &dyn Shards, args: &[&[u8]]) -> Result<Self, Error> {
        let span = Span::parse(args[1], args[2])?;
        let (words, of) = within_namespace(&args[3..])?;
        let options = Options::parse(words)?;
        match of {
            None => Ok(Self { span, options, only: None }),
            Some(Namespace::Database(database)) => {
                let (shard, _) = shards.run_from(database.slot().0).ok_or(NOT_SERVED)?;
                Ok(Self { span: span.within(database), options, only: Some(shard) })
            }
            // Their keys lie by slots, in no order of names.
            Some(Namespace::Cluster(_)) => Err(SYNTAX.into()),
        }
    }

    fn range(&self) -> RecordRange<'_> {
        RecordRange {
            start: &self.span.start,
            end: &self.span.end,
            reverse: self.options.reverse,
            payloads: self.options.columns != Columns::Keys,
            limit: self.options.limit + 1,
        }
    }

    /// The records of each shard that is asked.
    fn records<'a>(&self, shards: &'a mut dyn Shards) -> Result<Vec<Box<dyn Records + 'a>>, Fault> {
        match self.only {
            _ if self.span.empty => Ok(Vec::new()),
            Some(shard) => Ok(vec![shards.space(shard).records(&self.range())?]),
            None => Ok(shards.records(&self.range())),
        }
    }

    fn shown(&self) -> Shown {
        Shown { columns: self.options.columns, by_client_name: self.only.is_some() }
    }

    /// Whether all shards that are asked are read on this node.
    fn is_here(&self, shards: &dyn Shards) -> bool {
        match self.only {
            Some(shard) => shards.is_here(shard),
            None => (0..shards.count()).all(|i| shards.is_here(i)),
        }
    }
}

/// The live rows of all shards merged into one order. Reads no more of a shard than the rows that are asked for, and
/// the key of the next one.
struct Merge<'a> {
    shards: Vec<Box<dyn Records + 'a>>,
    /// The number of the first of them.
    first: usize,
    reverse: bool,
    keys_only: bool,
    /// The key that each shard is at, but for those that have no more, and the one in `spent`. No key is in two shards.
    heads: BTreeMap<Slice, usize>,
    /// The shard whose row was given last.
    spent: Option<usize>,
}

impl<'a> Merge<'a> {
    fn new(shards: &'a mut dyn Shards, asked: &Asked) -> Result<Self, Fault> {
        let mut merge = Self {
            shards: asked.records(shards)?,
            first: asked.only.unwrap_or(0),
            reverse: asked.options.reverse,
            keys_only: asked.options.columns == Columns::Keys,
            heads: BTreeMap::new(),
            spent: None,
        };
        (0..merge.shards.len()).try_for_each(|i| merge.advance(i))?;
        Ok(merge)
    }

    fn advance(&mut self, i: usize) -> Result<(), Fault> {
        if let Some(key) = self.shards[i].advance()? {
            self.heads.insert(key, i);
        }
        Ok(())
    }

    /// The next row; without what a large record holds if only keys are wanted.
    fn next(&mut self) -> Result<Option<Row>, Fault> {
        loop {
            if let Some(i) = self.spent.take() {
                self.advance(i)?;
            }
            let head = if self.reverse { self.heads.pop_last() } else { self.heads.pop_first() };
            let Some((key, shard)) = head else { return Ok(None) };
            self.spent = Some(shard);
            let records = &mut self.shards[shard];
            if let Some(record) = if self.keys_only { records.head()? } else { records.record()? } {
                return Ok(Some(Row { shard: self.first + shard, key, record }));
            }
        }
    }
}

struct Row {
    shard: usize,
    key: Slice,
    record: Record,
}

/// What one request answers.
struct Page {
    /// The first rows, whole. They are in memory together.
    rows: Vec<Row>,
    /// The rows behind them, by their keys, each with the number of its shard: what they hold is read when it is answered.
    later: VecDeque<(Slice, usize)>,
    /// There are rows behind these.
    more: bool,
}

impl Page {
    /// `reads_later`: what a row holds may be read anew, of the same moment.
    fn read(shards: &mut dyn Shards, asked: &Asked, reads_later: bool) -> Result<Self, Fault> {
        let mut merge = Merge::new(shards, asked)?;
        let mut page = Self { rows: Vec::new(), later: VecDeque::new(), more: false };
        let (mut bytes, mut key_bytes) = (0, 0);
        while page.len() < asked.options.limit && key_bytes < RANGE_PAGE_BYTES_SOFT {
            let is_later = bytes >= RANGE_PAGE_BYTES_SOFT;
            if is_later && !reads_later {
                break;
            }
            merge.keys_only |= is_later;
            let Some(row) = merge.next()? else { return Ok(page) };
            key_bytes += row.key.len();
            if is_later {
                page.later.push_back((row.key, row.shard));
            } else {
                bytes += row.key.len() + if merge.keys_only { 0 } else { about_bytes(&row) };
                page.rows.push(row);
            }
        }
        page.more = merge.next()?.is_some();
        Ok(page)
    }

    fn len(&self) -> usize {
        self.rows.len() + self.later.len()
    }

    /// Leaves out the last rows; there are at least `rows` whole ones.
    fn shorten(&mut self, rows: usize) {
        self.more |= rows < self.len();
        self.rows.truncate(rows);
        self.later.clear();
    }

    /// The head of the reply: what comes before the rows.
    fn write_head(&self, shown: Shown, reply: &mut Reply) {
        let last = self.later.back().map(|(key, _)| key).or(self.rows.last().map(|row| &row.key));
        reply.array(2);
        match last {
            Some(last) if self.more => reply.bulk(&[b"(", shown.key(last)].concat()),
            _ => reply.null(),
        }
        reply.array(self.len());
    }
}

fn range(call: &mut StoreCall<'_>) -> Result<StoreRest, Error> {
    let asked = Asked::parse(call.shards, call.args)?;
    let shown = asked.shown();
    let reads_later = call.streams && shown.columns != Columns::Keys && asked.is_here(call.shards);
    let mut page = Page::read(call.shards, &asked, reads_later)?;
    if reads_later {
        return write_first(call, page, shown);
    }
    // How long large collections are is known once they are written.
    let mut body = Reply::new(call.reply.proto);
    let mut written = 0;
    while written < page.rows.len() && body.buf.len() < RANGE_PAGE_BYTES_SOFT {
        write_row(call.shards, &page.rows[written], shown, &mut body)?;
        written += 1;
    }
    page.shorten(written);
    page.write_head(shown, call.reply);
    call.reply.spend(body.spent());
    call.reply.raw(&body.buf);
    Ok(StoreRest::new())
}

/// Writes the first rows, and leaves the others.
fn write_first(call: &mut StoreCall<'_>, page: Page, shown: Shown) -> Result<StoreRest, Error> {
    page.write_head(shown, call.reply);
    let mut step = Step::begin(call.reply);
    let mut rows = page.rows.into_iter();
    for row in rows.by_ref() {
        write_row(call.shards, &row, shown, call.reply)?;
        if !step.goes_on(call.reply) {
            break;
        }
    }
    let mut left: VecDeque<(Slice, usize)> = rows.map(|row| (row.key, row.shard)).collect();
    left.extend(page.later);
    if left.is_empty() {
        return Ok(StoreRest::new());
    }
    let shards: BTreeSet<usize> = left.iter().map(|(_, shard)| *shard).collect();
    Ok(vec![PartLeft { shards: shards.into_iter().collect(), steps: Box::new(RowsLeft { rows: left, shown }) }])
}

/// Rows that are still to be answered, by their keys and the numbers of their shards.
struct RowsLeft {
    rows: VecDeque<(Slice, usize)>,
    shown: Shown,
}

impl StoreSteps for RowsLeft {
    fn step(&mut self, shards: &mut dyn ShardSpaces, reply: &mut Reply) -> Result<Progress, Error> {
        let mut step = Step::begin(reply);
        while let Some((key, shard)) = self.rows.pop_front() {
            let record = shards.space(shard).get(&key)?.ok_or(VANISHED)?;
            write_row(shards, &Row { shard, key, record }, self.shown, reply)?;
            if !step.goes_on(reply) {
                break;
            }
        }
        Ok(if self.rows.is_empty() { Progress::Done } else { Progress::More })
    }
}

/// About how many bytes a row takes: of a large collection only the number of elements is known before it is read.
fn about_bytes(row: &Row) -> usize {
    let elements = row.record.view().rows(&row.key).map_or(0, |rows| rows.count);
    row.record.bytes().len() + usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(ROW_OVERHEAD_BYTES)
}

fn write_row(shards: &mut dyn ShardSpaces, row: &Row, shown: Shown, reply: &mut Reply) -> Outcome {
    let columns = shown.columns;
    if columns == Columns::Keys {
        reply.bulk(shown.key(&row.key));
        return Ok(());
    }
    let (view, space) = (row.record.view(), shards.space(row.shard));
    reply.array(if columns == Columns::All { 3 } else { 2 });
    reply.bulk(shown.key(&row.key));
    match view.kind.ty {
        Type::String => reply.bulk(view.payload),
        Type::List => write_list(space, &List::of(&row.key, row.record.clone())?, reply)?,
        Type::Hash | Type::Set => {
            let now_ms = space.now_ms();
            write_hash(space, &Stored::of(&row.key, row.record.clone(), now_ms)?, reply)?;
        }
        // The row says that the key is there; commands of its type read it.
        Type::SortedSet | Type::Stream => reply.null_array(),
    }
    if columns == Columns::All {
        reply.int(view.version as i64);
    }
    Ok(())
}

/// The members of a set, or the fields of a hash with their values; null if they are more than a page: HSCAN reads them.
fn write_hash(space: &mut dyn ReadSpace, hash: &Stored<'_>, reply: &mut Reply) -> Outcome {
    let mark = reply.buf.len();
    let (ty, is_set) = (hash.ty(), hash.is_set());
    reply.array(if is_set { 1 } else { 2 } * hash.seen(space)? as usize);
    let done = hash.each(space, |_, field, value| {
        if reply.buf.len() - mark > RANGE_BYTES_SOFT {
            return Err(Error::Fault(Fault::WouldBlock));
        }
        reply.bulk(field);
        if !is_set {
            value_of(ty, value, reply);
        }
        Ok(())
    });
    match done {
        Err(Error::Fault(Fault::WouldBlock)) => {
            reply.buf.truncate(mark);
            reply.null_array();
            Ok(())
        }
        done => done,
    }
}

/// The elements of a list; null if they are more than a page.
fn write_list(space: &mut dyn ReadSpace, list: &List<'_>, reply: &mut Reply) -> Outcome {
    let mark = reply.buf.len();
    let count = list.count()?;
    reply.array(count as usize);
    let mut walk = list.walk(0, count, Side::Left);
    while !walk.is_over() {
        if reply.buf.len() - mark > RANGE_BYTES_SOFT {
            reply.buf.truncate(mark);
            reply.null_array();
            break;
        }
        walk.step(list, space, |_, element| {
            reply.bulk(element);
            Ok(true)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::command::ScanCursors;
    use crate::command::call::StoreCall;
    use crate::command::steps::Progress;
    use crate::command::testspace::TestShards;
    use crate::{Kind, Record, WriteSpace};
    use resp::{Proto, Reply, Value};
    use vocab::Database;
    use vocab::limits::{RANGE_PAGE_BYTES_SOFT, STREAM_STEP_BYTES_SOFT};

    #[test]
    fn transcript() {
        crate::command::transcript::check("kv_range");
    }

    /// A page's keys and, if there is one, its token, of a KV.RANGE … KEYS.
    fn page(shards: &mut TestShards, args: &[&str]) -> (Option<String>, Vec<String>) {
        let mut reply = Reply::new(Proto::Resp2);
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let cursors = ScanCursors::default();
        super::range(&mut StoreCall { args: &args, shards, streams: false, cursors: &cursors, reply: &mut reply })
            .unwrap();
        let text = String::from_utf8(reply.buf).unwrap();
        let mut lines = text.lines().skip(1);
        let token = (lines.next().unwrap() != "$-1").then(|| lines.next().unwrap().to_owned());
        lines.next();
        (token, lines.filter(|line| !line.starts_with('$')).map(str::to_owned).collect())
    }

    #[test]
    fn pages_join_to_the_whole_in_order() {
        let mut shards = TestShards::new(5);
        let mut keys: Vec<String> = (0..700).map(|i| format!("key:{}", i * 7919 % 10_000)).collect();
        for key in &keys {
            shards.owner(key.as_bytes()).put(key.as_bytes(), Record::new(Kind::STRING, None, &[])).unwrap();
        }
        keys.sort();
        for (limit, reverse) in [("1", false), ("7", true), ("100", false), ("700", true), ("5000", false)] {
            let mut expected = keys.clone();
            let (mut start, mut end) = ("-".to_owned(), "+".to_owned());
            let mut all = Vec::new();
            loop {
                let mut args = vec!["KV.RANGE", &start, &end, "LIMIT", limit, "KEYS"];
                args.extend(reverse.then_some("REVERSE"));
                let (token, rows) = page(&mut shards, &args);
                all.extend(rows);
                let Some(token) = token else { break };
                *if reverse { &mut end } else { &mut start } = token;
            }
            if reverse {
                expected.reverse();
            }
            assert_eq!(all, expected, "LIMIT {limit}");
        }
    }

    /// The token and the rows of a KV.RANGE, and the longest part in which they came.
    fn answer(shards: &mut TestShards, args: &[&[u8]], streams: bool) -> (Value, Vec<Value>, usize) {
        let (mut reply, cursors) = (Reply::new(Proto::Resp2), ScanCursors::default());
        let call = &mut StoreCall { args, shards, streams, cursors: &cursors, reply: &mut reply };
        let left = super::range(call).unwrap();
        assert!(streams || left.is_empty());
        let mut longest = if streams { reply.buf.len() } else { 0 };
        for mut part in left {
            loop {
                let before = reply.buf.len();
                let progress = part.steps.step(shards, &mut reply).unwrap();
                longest = longest.max(reply.buf.len() - before);
                if progress == Progress::Done {
                    break;
                }
            }
        }
        let (value, length) = resp::decode(&reply.buf).unwrap().unwrap();
        assert_eq!(length, reply.buf.len());
        let Value::Array(parts) = value else { panic!("{value:?}") };
        let [token, Value::Array(rows)] = &parts[..] else { panic!("{parts:?}") };
        (token.clone(), rows.clone(), longest)
    }

    #[test]
    fn a_database_is_walked_alone_by_the_names_of_its_clients() {
        let mut shards = TestShards::new(4);
        let [of, other] = [3, 4].map(|number| Database::of_number(number).unwrap());
        for i in 0..120 {
            for prefix in [&of.prefix()[..], &other.prefix(), b""] {
                let key = [prefix, format!("key:{i:03}").as_bytes()].concat();
                let ours = prefix == &of.prefix()[..] && i < 100;
                if ours || prefix != &of.prefix()[..] {
                    shards.owner(&key).put(&key, Record::new(Kind::STRING, None, &[b"v"])).unwrap();
                }
            }
        }
        let names = |from: usize, to: usize| (from..to).map(|i| format!("key:{i:03}")).collect::<Vec<_>>();
        let mut ask = |line: &str| {
            let words: Vec<&str> = line.split(' ').chain(["DATABASE", "3"]).collect();
            page(&mut shards, &words)
        };
        for (line, token, found) in [
            ("KV.RANGE - + KEYS", None, names(0, 100)),
            ("KV.RANGE [key:090 + KEYS", None, names(90, 100)),
            ("KV.RANGE (key:090 + KEYS", None, names(91, 100)),
            ("KV.RANGE - (key:002 KEYS", None, names(0, 2)),
            ("KV.RANGE - [key:002 KEYS LIMIT 3", None, names(0, 3)),
            ("KV.RANGE - + LIMIT 2 KEYS", Some("(key:001"), names(0, 2)),
            ("KV.RANGE - ( KEYS", None, names(0, 0)),
            ("KV.RANGE + - KEYS", None, names(0, 0)),
            ("KV.RANGE [key:050 [key:010 KEYS", None, names(0, 0)),
        ] {
            assert_eq!(ask(line), (token.map(str::to_owned), found), "{line}");
        }
        let (token, mut found) = ask("KV.RANGE - + LIMIT 2 KEYS REVERSE");
        found.reverse();
        assert_eq!((token.as_deref(), found), (Some("(key:098"), names(98, 100)));
        for streams in [false, true] {
            let args: Vec<&[u8]> = [&b"KV.RANGE"[..], b"[key:099", b"+", b"DATABASE", b"3"].into_iter().collect();
            let (token, rows, _) = answer(&mut shards, &args, streams);
            let row = [Value::Bulk(b"key:099".to_vec()), Value::Bulk(b"v".to_vec())];
            assert_eq!(token, Value::Null);
            assert!(matches!(&rows[..], [Value::Array(shown)] if shown[..2] == row), "{rows:?}");
        }
    }

    #[test]
    fn a_long_page_is_streamed_and_a_page_with_shards_elsewhere_ends_early() {
        let mut shards = TestShards::new(3);
        let value = vec![b'v'; 20_000];
        for i in 0..200 {
            let key = format!("key:{i:03}");
            shards.owner(key.as_bytes()).put(key.as_bytes(), Record::new(Kind::STRING, None, &[&value])).unwrap();
        }
        for words in [&["VALUES"][..], &["REVERSE"]] {
            let ask = |start: &[u8], end: &[u8], shards: &mut TestShards, streams| {
                let args: Vec<&[u8]> = [b"KV.RANGE", start, end, b"LIMIT", b"190"].into_iter().collect();
                let args = [args, words.iter().map(|word| word.as_bytes()).collect()].concat();
                answer(shards, &args, streams)
            };
            let (token, streamed, longest) = ask(b"-", b"+", &mut shards, true);
            assert_eq!(streamed.len(), 190);
            assert!(longest < STREAM_STEP_BYTES_SOFT + value.len() + 64, "{longest}");
            let Value::Bulk(token) = token else { panic!("there are ten more") };
            // The same in pages, some of whose shards are elsewhere.
            shards.elsewhere.insert(1);
            let (mut start, mut end, mut joined) = (b"-".to_vec(), b"+".to_vec(), Vec::new());
            loop {
                let (next, rows, _) = ask(&start, &end, &mut shards, true);
                assert!(rows.len() * value.len() < RANGE_PAGE_BYTES_SOFT + 2 * value.len());
                joined.extend(rows);
                let Value::Bulk(next) = next else { break };
                *(if words[0] == "REVERSE" { &mut end } else { &mut start }) = next;
            }
            assert_eq!(joined.len(), 200);
            assert!(joined[..190] == streamed[..], "{words:?}");
            shards.elsewhere.clear();
            let (start, end) = if words[0] == "REVERSE" { (&b"-"[..], &token[..]) } else { (&token[..], &b"+"[..]) };
            assert_eq!(ask(start, end, &mut shards, true).1.len(), 10, "{words:?}");
        }
    }
}

//! KV.RANGE: keys of the whole store in order, a page at a time.
//!
//! `KV.RANGE start end [LIMIT n] [KEYS|VALUES] [REVERSE]` → `[token, [row, …]]`
//!
//! A bound is `[key` (inclusive), `(key` (exclusive), `-` (before all keys) or `+` (after all keys); start is the
//! lower one, with REVERSE too. Rows come in rising order of their keys, as bytes; with REVERSE in falling order.
//! A row is `[key, value, version]`; with VALUES `[key, value]`; with KEYS the key alone. The value of a hash is a
//! flat array of its fields and values, or null if that is more than a page: HSCAN reads such a hash; that of a stream is null. The token is null after the last row of the range; else it is the bound to
//! give as start (with REVERSE: as end) for the next page. A page ends after LIMIT rows (100 if not given), or
//! earlier once its rows are large. Each shard is read at a moment of its own.

use crate::command::args::{NOT_INTEGER, SYNTAX, is_word};
use crate::command::call::{Error, HandlerRow, Outcome, StoreCall, store};
use crate::command::hash::{Stored, value_of};
use crate::command::list::{List, Side};
use crate::command::scan::successor;
use crate::{Fault, Kind, ReadSpace, Record, RecordRange, Records, Shards, Type};
use resp::Reply;
use std::collections::BTreeMap;
use storage::Slice;
use vocab::limits::{RANGE_BYTES_SOFT, RANGE_ROWS_MAX};

const LIMIT: usize = 100;
/// What a row's frames take in a reply, about.
const ROW_OVERHEAD_BYTES: usize = 64;

pub(in crate::command) const ROWS: &[HandlerRow] = &[store("KV.RANGE", range)];

/// What a row shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    Keys,
    Values,
    All,
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
}

/// The live rows of all shards merged into one order. Reads no more of a shard than the rows that are asked for, and
/// the key of the next one.
struct Merge<'a> {
    shards: Vec<Box<dyn Records + 'a>>,
    reverse: bool,
    keys_only: bool,
    /// The key that each shard is at, but for those that have no more, and the one in `spent`. No key is in two shards.
    heads: BTreeMap<Slice, usize>,
    /// The shard whose row was given last.
    spent: Option<usize>,
}

impl<'a> Merge<'a> {
    fn new(shards: &'a mut dyn Shards, span: &Span, options: &Options) -> Result<Self, Fault> {
        let range = RecordRange {
            start: &span.start,
            end: &span.end,
            reverse: options.reverse,
            payloads: options.columns != Columns::Keys,
            limit: options.limit + 1,
        };
        let shards = if span.empty { Vec::new() } else { shards.records(&range) };
        let mut merge = Self {
            shards,
            reverse: options.reverse,
            keys_only: options.columns == Columns::Keys,
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
                return Ok(Some(Row { shard, key, record }));
            }
        }
    }
}

struct Row {
    shard: usize,
    key: Slice,
    record: Record,
}

fn range(call: &mut StoreCall<'_>) -> Outcome {
    let span = Span::parse(call.args[1], call.args[2])?;
    let options = Options::parse(&call.args[3..])?;
    let mut merge = Merge::new(call.shards, &span, &options)?;
    let mut rows: Vec<Row> = Vec::new();
    let mut bytes = 0;
    while rows.len() < options.limit && bytes < RANGE_BYTES_SOFT {
        let Some(row) = merge.next()? else { break };
        bytes += row.key.len() + if options.columns == Columns::Keys { 0 } else { about_bytes(&row) };
        rows.push(row);
    }
    let mut more = merge.next()?.is_some();
    drop(merge);
    let mut body = Reply::new(call.reply.proto);
    // Lengths and line ends come on top: if that is not enough, it grows.
    body.buf.reserve(bytes.min(RANGE_BYTES_SOFT) / 4 * 5 + rows.len() * ROW_OVERHEAD_BYTES);
    let (mut written, mut last) = (0, None);
    for row in rows {
        if body.buf.len() >= RANGE_BYTES_SOFT {
            more = true;
            break;
        }
        last = Some(row.key.clone());
        written += 1;
        write_row(call.shards, row, options.columns, &mut body)?;
    }
    call.reply.array(2);
    match last {
        Some(last) if more => call.reply.bulk(&[b"(", &last[..]].concat()),
        _ => call.reply.null(),
    }
    call.reply.array(written);
    call.reply.raw(&body.buf);
    Ok(())
}

/// About how many bytes a row takes: of a large collection only the number of elements is known before it is read.
fn about_bytes(row: &Row) -> usize {
    let elements = row.record.view().rows(&row.key).map_or(0, |rows| rows.count);
    row.record.bytes().len() + usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(ROW_OVERHEAD_BYTES)
}

fn write_row(shards: &mut dyn Shards, row: Row, columns: Columns, reply: &mut Reply) -> Outcome {
    if columns == Columns::Keys {
        reply.bulk(&row.key);
        return Ok(());
    }
    let version = row.record.view().version;
    reply.array(if columns == Columns::All { 3 } else { 2 });
    reply.bulk(&row.key);
    if row.record.view().kind == Kind::STRING {
        reply.bulk(row.record.view().payload);
    } else if row.record.view().kind.ty == Type::List {
        write_list(shards.space(row.shard), &List::of(&row.key, row.record)?, reply)?;
    } else if !matches!(row.record.view().kind.ty, Type::Hash | Type::Set) {
        // The row says that the key is there; commands of its type read it.
        reply.null_array();
    } else {
        let hash = Stored::of(&row.key, row.record)?;
        let mark = reply.buf.len();
        let (ty, is_set) = (hash.ty(), hash.is_set());
        reply.array(if is_set { 1 } else { 2 } * hash.count()? as usize);
        let done = hash.each(shards.space(row.shard), |_, field, value| {
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
            // One value would be more than a page: the row says that the key is there, and HSCAN reads it.
            Err(Error::Fault(Fault::WouldBlock)) => {
                reply.buf.truncate(mark);
                reply.null_array();
            }
            done => done?,
        }
    }
    if columns == Columns::All {
        reply.int(version as i64);
    }
    Ok(())
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
    use crate::command::testspace::TestShards;
    use crate::{Kind, Record, WriteSpace};
    use resp::{Proto, Reply};

    #[test]
    fn transcript() {
        crate::command::transcript::check("kv_range");
    }

    /// A page's keys and, if there is one, its token, of a KV.RANGE … KEYS.
    fn page(shards: &mut TestShards, args: &[&str]) -> (Option<String>, Vec<String>) {
        let mut reply = Reply::new(Proto::Resp2);
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let cursors = ScanCursors::default();
        super::range(&mut StoreCall { args: &args, shards, cursors: &cursors, reply: &mut reply }).unwrap();
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
}

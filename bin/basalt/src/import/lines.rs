//! Lines of NDJSON, put together to whole keys.

use crate::lines::{Key, KeyPlace, Line, Part, part_of};
use rdb::{StreamBuilder, Value};
use std::io::{BufRead, Read};
use vocab::limits::{BULK_BYTES_MAX, RESTORED_BYTES_MAX};

/// A stream is in memory whole.
const STREAM_BYTES_MAX: usize = RESTORED_BYTES_MAX;
/// A character of a string may be written as six.
const LINE_BYTES_MAX: u64 = 6 * BULK_BYTES_MAX as u64 + (1 << 20);

/// What is read next.
#[derive(Debug, PartialEq)]
pub(super) enum Record {
    Key {
        place: KeyPlace,
        key: Vec<u8>,
        expire_at_ms: Option<u64>,
        /// Its value, or a part of it.
        value: Value,
        /// The next record is the next part.
        more: bool,
    },
    Library(Vec<u8>),
    /// A stream that is too large to be in memory.
    TooLarge {
        place: KeyPlace,
        key: Vec<u8>,
    },
}

/// Reads keys one after the other.
pub(super) struct Lines<R> {
    input: R,
    /// Bytes that were read.
    position: u64,
    /// Lines that were read.
    number: u64,
    /// Whether the first line says that there will be a last one.
    is_export: bool,
    /// The last line was read.
    is_over: bool,
    keys: u64,
    /// The key of which more is to come, and its database.
    open: Option<(Vec<u8>, KeyPlace)>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, position: 0, number: 0, is_export: false, is_over: false, keys: 0, open: None }
    }

    /// How many bytes were read.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The next key, part or library; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Record>, String> {
        loop {
            let line = self.line()?;
            if let Some(open) = &self.open
                && !matches!(&line, Some(Line::Key(line)) if line.key.0 == open.0 && line.place() == open.1)
            {
                return Err(format!("line {}: it should go on with the key of the line before", self.number));
            }
            let Some(line) = line else {
                let is_cut = self.is_export && !self.is_over;
                let number = self.number;
                let text = format!("it ends after line {number}, without the line that ends an export: it was cut off");
                return if is_cut { Err(text) } else { Ok(None) };
            };
            match line {
                Line::Head(_) => self.is_export = true,
                Line::Tail(tail) if tail.keys != self.keys => {
                    return Err(format!("line {}: {} keys came, not {}", self.number, self.keys, tail.keys));
                }
                Line::Tail(_) => self.is_over = true,
                Line::Library(library) => return Ok(Some(Record::Library(library.library.0))),
                Line::Key(line) => return self.key(*line).map(Some),
            }
        }
    }

    /// The next line that is not empty.
    fn line(&mut self) -> Result<Option<Line>, String> {
        loop {
            let mut text = Vec::new();
            let read = (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut text);
            let read = read.map_err(|e| e.to_string())? as u64;
            self.position += read;
            self.number += 1;
            if read == 0 {
                return Ok(None);
            }
            if read == LINE_BYTES_MAX && text.last() != Some(&b'\n') {
                return Err(format!("line {}: it has more than {LINE_BYTES_MAX} bytes", self.number));
            }
            if !text.trim_ascii().is_empty() {
                return Line::read(text.trim_ascii(), self.number).map(Some);
            }
        }
    }

    /// The key of a line. A stream is put together.
    fn key(&mut self, mut line: Key) -> Result<Record, String> {
        let named = |number: u64, why: String| format!("line {number}: {why}");
        let (place, key, expire_at_ms) = (line.place(), line.key.0.clone(), line.expire_at_ms);
        let mut more = line.more;
        self.keys += u64::from(self.open.is_none());
        let mut items = match part_of(line).map_err(|why| named(self.number, why))? {
            Part::Value(value) => {
                self.open = more.then(|| (key.clone(), place));
                return Ok(Record::Key { place, key, expire_at_ms, value, more });
            }
            Part::Items(items) => items,
        };
        let (mut stream, mut bytes) = (StreamBuilder::default(), 0);
        loop {
            bytes += items.iter().flatten().map(Vec::len).sum::<usize>();
            if bytes > STREAM_BYTES_MAX {
                // Its other lines are passed over.
                stream = StreamBuilder::default();
            } else {
                let added = items.into_iter().try_for_each(|item| stream.add(item));
                added.ok_or_else(|| named(self.number, "an item of a stream cannot be read".to_owned()))?;
            }
            if !more && bytes > STREAM_BYTES_MAX {
                return Ok(Record::TooLarge { place, key });
            }
            if !more {
                let value = Value::Stream(Box::new(stream.into_stream()));
                return Ok(Record::Key { place, key, expire_at_ms, value, more });
            }
            line = match self.line()? {
                Some(Line::Key(next)) if next.key.0 == key && next.place() == place => *next,
                _ => return Err(named(self.number, "it should go on with the key of the line before".to_owned())),
            };
            more = line.more;
            items = match part_of(line).map_err(|why| named(self.number, why))? {
                Part::Items(items) => items,
                Part::Value(_) => {
                    return Err(named(self.number, "its value is of another type than before".to_owned()));
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn all(text: &str) -> Result<Vec<Record>, String> {
        let mut lines = Lines::new(text.as_bytes());
        let mut found = Vec::new();
        while let Some(record) = lines.next()? {
            found.push(record);
        }
        assert_eq!(lines.position(), text.len() as u64);
        Ok(found)
    }

    const HEAD: &str = r#"{"basalt_export":1,"at_ms":1,"store":"s"}"#;

    fn key(name: &str, value: Value, more: bool) -> Record {
        Record::Key { place: KeyPlace::Cluster, key: name.into(), expire_at_ms: None, value, more }
    }

    #[test]
    fn keys_come_as_they_were_written() {
        let text = format!(
            "{HEAD}\n{}\n\n{}\n{}\n{}\n{}\n{}\n",
            r#"{"key":"l","list":["a"],"more":true}"#,
            r#"{"key":"l","list":["b"]}"#,
            r#"{"key":"s","string":"v"}"#,
            r#"{"key":"x","stream":[["E","1-1","f","v"]],"more":true}"#,
            r#"{"key":"x","stream":[["S","1-1","0-0","1"],["G","g","1-1","-1"]]}"#,
            r#"{"end":true,"keys":3}"#
        );
        let list = |element: &str| Value::List(vec![element.into()]);
        let mut records = all(&text).unwrap();
        let Some(Record::Key { value: Value::Stream(stream), more: false, .. }) = records.pop() else {
            panic!("no stream")
        };
        assert_eq!((stream.entries.len(), stream.groups.len(), stream.added), (1, 1, 1));
        let string = key("s", Value::String(b"v".to_vec()), false);
        assert_eq!(records, [key("l", list("a"), true), key("l", list("b"), false), string]);
        assert_eq!(all(r#"{"key":"s","string":"v"}"#).unwrap().len(), 1, "lines made by hand have no head");
    }

    #[test]
    fn what_is_cut_off_or_mixed_is_an_error() {
        for text in [
            format!("{HEAD}\n"),
            format!("{HEAD}\n{}\n", r#"{"end":true,"keys":1}"#),
            r#"{"key":"l","list":["a"],"more":true}"#.to_owned(),
            format!("{}\n{}", r#"{"key":"l","list":["a"],"more":true}"#, r#"{"key":"m","list":["b"]}"#),
            format!("{}\n{}", r#"{"key":"x","stream":[],"more":true}"#, r#"{"key":"x","set":["b"]}"#),
        ] {
            assert!(all(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn fuzz_lines() {
        let text = format!(
            "{HEAD}\n{}\n{}\n{}\n{}\n",
            r#"{"key":{"base64":"/wA="},"zset":[["m","1.5"]],"more":true}"#,
            r#"{"key":{"base64":"/wA="},"zset":[["n","-inf"]]}"#,
            r#"{"key":"x","stream":[["E","1-1","f","v"],["S","1-1","0-0","1"],["G","g","1-1","-1"]]}"#,
            r#"{"end":true,"keys":2}"#
        );
        vocab::fuzz::rounds(64, |prng| {
            let mut changed = text.clone().into_bytes();
            vocab::fuzz::mutate(&mut changed, 4, prng);
            let mut lines = Lines::new(&changed[..]);
            while let Ok(Some(_)) = lines.next() {}
            assert!(lines.position() <= changed.len() as u64);
        });
    }
}

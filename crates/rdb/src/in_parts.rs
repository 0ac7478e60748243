//! Keys whose values come in parts, because they are too large to be in memory whole.
//!
//! In the format the number of elements stands before them. So the elements wait in a spool until all have come.

use crate::file::put_key_head;
use crate::format::{VERSION, value as ty};
use crate::reader::Reader;
use crate::stream::{self, StreamId};
use crate::writer::{put_length, put_score, put_string};
use crate::{FileWriter, StreamBuilder, StreamItem, Value, field_ttl, field_ttls_head, put_hash_field};
use std::io::{BufReader, Error, Read, Result, Seek, SeekFrom, Write};

const COPIED_BYTES: usize = 64 * 1024;

/// A key of which parts have come.
pub struct KeyInParts<S> {
    key: Vec<u8>,
    expire_at_ms: Option<u64>,
    /// The type of the parts.
    of: Option<u8>,
    /// Elements, or packed lists of a stream's entries.
    count: u64,
    /// The elements as they are in the format; fields of a hash have their expiry before them, whether they expire or not.
    spool: S,
    /// No field of a hash expires before this time, in milliseconds since 1970.
    fields_since_ms: u64,
    has_field_ttls: bool,
    stream: StreamInParts,
}

/// A stream of which entries have come.
#[derive(Default)]
struct StreamInParts {
    /// The entries of the list that is not yet full; what else is known of the stream.
    open: StreamBuilder,
    entries: u64,
    first: Option<StreamId>,
}

impl<S: Read + Write + Seek> KeyInParts<S> {
    /// A key without elements. `spool` is empty. No field of a hash expires before `fields_since_ms`.
    pub fn new(key: Vec<u8>, expire_at_ms: Option<u64>, fields_since_ms: u64, spool: S) -> Self {
        let stream = StreamInParts::default();
        Self { key, expire_at_ms, of: None, count: 0, spool, fields_since_ms, has_field_ttls: false, stream }
    }

    /// Its name.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    fn check_type(&mut self, of: u8) -> Result<()> {
        if *self.of.get_or_insert(of) == of {
            Ok(())
        } else {
            Err(Error::other("the parts of a value are of two types"))
        }
    }

    /// Takes elements of a list, a set, a sorted set or a hash.
    pub fn push(&mut self, part: &Value) -> Result<()> {
        let mut piece = Vec::new();
        let of = match part {
            Value::List(strings) | Value::Set(strings) => {
                strings.iter().for_each(|string| put_string(&mut piece, string));
                self.count += strings.len() as u64;
                if matches!(part, Value::List(_)) { ty::LIST } else { ty::SET }
            }
            Value::SortedSet(members) => {
                for (member, score) in members {
                    put_string(&mut piece, member);
                    put_score(&mut piece, *score);
                }
                self.count += members.len() as u64;
                ty::SORTED_SET
            }
            Value::Hash(fields) => {
                for field in fields {
                    self.has_field_ttls |= field.expire_at_ms.is_some();
                    let ttl = field_ttl(self.fields_since_ms, field.expire_at_ms);
                    put_hash_field(&mut piece, ttl, &field.name, &field.value);
                }
                self.count += fields.len() as u64;
                ty::HASH
            }
            Value::String(_) | Value::Stream(_) | Value::Module(_) => {
                return Err(Error::other("a value that has no parts"));
            }
        };
        self.check_type(of)?;
        self.spool.write_all(&piece)
    }

    /// Takes items of a stream.
    pub fn push_items(&mut self, items: Vec<StreamItem>) -> Result<()> {
        self.check_type(ty::STREAM_2)?;
        let stream = &mut self.stream;
        let before = stream.open.stream().entries.len();
        for item in items {
            stream.open.add(item).ok_or_else(|| Error::other("an item of a stream cannot be read"))?;
        }
        let entries = &stream.open.stream().entries;
        stream.entries += (entries.len() - before) as u64;
        stream.first = stream.first.or(entries.first().map(|entry| entry.id));
        self.write_nodes(false)
    }

    /// Writes the lists of a stream's entries that are full, or all.
    fn write_nodes(&mut self, all: bool) -> Result<()> {
        let mut entries = std::mem::take(self.stream.open.entries_mut());
        let nodes = stream::nodes(&entries);
        let full = if all { nodes.len() } else { nodes.len().saturating_sub(1) };
        let mut piece = Vec::new();
        nodes[..full].iter().for_each(|node| stream::put_node(&mut piece, node));
        self.count += full as u64;
        let written: usize = nodes[..full].iter().map(|node| node.len()).sum();
        entries.drain(..written);
        *self.stream.open.entries_mut() = entries;
        self.spool.write_all(&piece)
    }

    /// All parts have come: writes the key.
    pub fn finish<W: Write>(mut self, file: &mut FileWriter<W>) -> Result<()> {
        let Some(of) = self.of else { return Ok(()) };
        if of == ty::STREAM_2 {
            self.write_nodes(true)?;
        }
        let of = if of == ty::HASH && self.has_field_ttls { ty::HASH_TTLS } else { of };
        let mut head = Vec::new();
        put_key_head(&mut head, of, &self.key, self.expire_at_ms);
        match of {
            ty::HASH_TTLS => field_ttls_head(&mut head, self.fields_since_ms, self.count),
            _ => put_length(&mut head, self.count),
        }
        file.write_raw(&head)?;
        self.spool.seek(SeekFrom::Start(0))?;
        if of == ty::HASH {
            return self.write_plain_fields(file);
        }
        let mut piece = vec![0; COPIED_BYTES];
        loop {
            match self.spool.read(&mut piece)? {
                0 => break,
                read => file.write_raw(&piece[..read])?,
            }
        }
        if of == ty::STREAM_2 {
            let mut tail = Vec::new();
            let StreamInParts { open, entries, first } = &self.stream;
            stream::put_tail(&mut tail, open.stream(), *entries, first.unwrap_or_default());
            file.write_raw(&tail)?;
        }
        Ok(())
    }

    /// Writes the fields of a hash of which none expires.
    fn write_plain_fields<W: Write>(self, file: &mut FileWriter<W>) -> Result<()> {
        let mut spool = Reader::new(BufReader::with_capacity(COPIED_BYTES, self.spool), VERSION, usize::MAX);
        let mut piece = Vec::new();
        for _ in 0..self.count {
            let mut next = || -> std::result::Result<_, crate::Error> {
                spool.length()?;
                Ok((spool.string()?, spool.string()?))
            };
            let (name, value) = next().map_err(Error::other)?;
            put_string(&mut piece, &name);
            put_string(&mut piece, &value);
            if piece.len() >= COPIED_BYTES {
                file.write_raw(&piece)?;
                piece.clear();
            }
        }
        file.write_raw(&piece)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Consumer, FileReader, Group, HashField, Item, Pending, Stream, StreamEntry, items_of};
    use std::io::Cursor;

    fn field(n: u64, expire_at_ms: Option<u64>) -> HashField {
        HashField { name: format!("f{n}").into_bytes(), value: vec![b'v'; 3], expire_at_ms }
    }

    fn stream() -> Stream {
        let id = |ms| StreamId { ms, seq: 1 };
        let entry = |ms| StreamEntry { id: id(ms), fields: vec![(b"n".to_vec(), ms.to_string().into_bytes())] };
        let pending = vec![Pending { id: id(3), delivered_ms: 5, deliveries: 2 }];
        let consumers = vec![Consumer { name: b"c".to_vec(), seen_ms: 7, active_ms: Some(7), pending }];
        let groups = vec![Group { name: b"g".to_vec(), last_id: id(9), read: Some(4), consumers, released: vec![] }];
        let entries = (1..350).map(entry).collect();
        Stream { entries, last_id: id(400), max_deleted_id: id(0), added: 390, groups }
    }

    /// The values that a file holds whose keys were written in these parts.
    fn written(keys: Vec<Vec<Value>>) -> Vec<Value> {
        let mut file = FileWriter::new(Vec::new(), true).unwrap();
        for parts in keys {
            let mut key = KeyInParts::new(b"key".to_vec(), Some(1 << 50), 100, Cursor::new(Vec::new()));
            for part in parts {
                match &part {
                    Value::Stream(stream) => {
                        items_of(stream).chunks(37).for_each(|items| key.push_items(items.to_vec()).unwrap());
                    }
                    _ => key.push(&part).unwrap(),
                }
            }
            key.finish(&mut file).unwrap();
        }
        let bytes = file.finish().unwrap();
        let mut reader = FileReader::new(&bytes[..], 1 << 20).unwrap();
        let mut values = Vec::new();
        while let Some(item) = reader.next_item().unwrap() {
            let Item::Key { value, lifetime, .. } = item else { panic!("{item:?}") };
            assert_eq!(lifetime.expire_at_ms, Some(1 << 50));
            values.push(value);
        }
        values
    }

    #[test]
    fn values_in_parts_are_written_whole() {
        let list = |n: u8| Value::List(vec![vec![n; 100], vec![n]]);
        let scored = |n: f64| Value::SortedSet(vec![(vec![n as u8], n)]);
        let hash = |fields: Vec<HashField>| Value::Hash(fields);
        let keys = vec![
            vec![list(1), list(2)],
            vec![Value::Set(vec![b"a".to_vec()]), Value::Set(vec![b"b".to_vec()])],
            vec![scored(1.5), scored(2.0)],
            vec![hash(vec![field(1, None)]), hash(vec![field(2, None)])],
            vec![hash(vec![field(1, None)]), hash(vec![field(2, Some(100)), field(3, Some(7000))])],
        ];
        let whole = keys.iter().map(|parts| {
            let mut parts = parts.clone().into_iter();
            let mut value = parts.next().unwrap();
            assert!(parts.all(|part| value.append(part)));
            value
        });
        let mut whole: Vec<Value> = whole.collect();
        whole.push(Value::Stream(Box::new(stream())));
        let keys = keys.into_iter().chain([vec![Value::Stream(Box::new(stream()))]]).collect();
        assert_eq!(written(keys), whole);
    }

    #[test]
    fn parts_of_two_types_are_refused() {
        let mut key = KeyInParts::new(b"key".to_vec(), None, 0, Cursor::new(Vec::new()));
        key.push(&Value::List(Vec::new())).unwrap();
        assert!(key.push(&Value::Set(Vec::new())).is_err());
        assert!(key.push(&Value::String(Vec::new())).is_err());
        assert!(key.push_items(vec![vec![b"E".to_vec()]]).is_err());
    }
}

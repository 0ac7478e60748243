//! What stands in a line.

use super::bytes::Bytes;
use crate::moment::{BackupRow, RowValue};
use rdb::{HashField, StreamItem, Value};
use serde::{Deserialize, Serialize};
use vocab::Namespace;

/// The format that is written, and the only one that is read.
const FORMAT: u64 = 1;

/// A line.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Line {
    Head(Head),
    Tail(Tail),
    Library(Library),
    Key(Box<Key>),
}

impl Line {
    /// The line of a library of functions.
    pub(crate) fn library(source: Vec<u8>) -> Self {
        Self::Library(Library { library: Bytes(source) })
    }

    /// What a line holds; `number` is that of the line.
    pub(crate) fn read(text: &[u8], number: u64) -> Result<Self, String> {
        let wrong = |why: String| format!("line {number}: {why}");
        // The kind of a line is told by its first name, so that an error names what is wrong with that kind.
        let name = text.trim_ascii_start().strip_prefix(b"{").map_or(&[][..], <[u8]>::trim_ascii_start);
        let begins = |word: &str| name.strip_prefix(b"\"").is_some_and(|rest| rest.starts_with(word.as_bytes()));
        let line = if begins("basalt_export") {
            serde_json::from_slice(text).map(Line::Head)
        } else if begins("end") {
            serde_json::from_slice(text).map(Line::Tail)
        } else if begins("library") {
            serde_json::from_slice(text).map(Line::Library)
        } else {
            serde_json::from_slice(text).map(Line::Key)
        };
        let line = line.map_err(|e| wrong(e.to_string()))?;
        match &line {
            Self::Head(head) if head.basalt_export != FORMAT => {
                Err(wrong(format!("format {}; this version of basalt reads {FORMAT}", head.basalt_export)))
            }
            _ => Ok(line),
        }
    }
}

/// The first line of an export.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// The format's number.
    basalt_export: u64,
    /// The moment that the export shows, in ms since the epoch.
    at_ms: u64,
    /// The id of the store.
    store: String,
}

impl Head {
    pub(crate) fn new(at_ms: u64, store: String) -> Self {
        Self { basalt_export: FORMAT, at_ms, store }
    }
}

/// The last line of an export: without it the export was cut off.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tail {
    end: bool,
    /// Keys before it.
    pub(crate) keys: u64,
}

impl Tail {
    pub(crate) fn new(keys: u64) -> Self {
        Self { end: true, keys }
    }
}

/// A library of functions.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Library {
    /// Its source.
    pub(crate) library: Bytes,
}

/// A key with its value, or a part of it. One of the types has a value.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    pub(crate) key: Bytes,
    /// Which database; none: the keys of cluster clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) database: Option<u64>,
    /// Which database of cluster clients, if it is another one than 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cluster_database: Option<u64>,
    /// When it expires, in ms since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expire_at_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    string: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<Vec<Bytes>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<Vec<Bytes>>,
    /// Members and scores; these are texts, so that no reader rounds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zset: Option<Vec<(Bytes, String)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<Vec<Field>>,
    /// Items of a stream, each a list of words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stream: Option<Vec<Vec<Bytes>>>,
    /// The value goes on in the next line.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) more: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Key {
    /// Which clients name it, and in which database.
    pub(crate) fn place(&self) -> KeyPlace {
        match (self.database, self.cluster_database) {
            (_, Some(number)) => KeyPlace::ClusterDatabase(number),
            (Some(number), None) => KeyPlace::Database(number),
            (None, None) => KeyPlace::Cluster,
        }
    }
}

/// Which clients name the key of a line, and in which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPlace {
    /// Those of a cluster, in database 0.
    Cluster,
    /// Those of a cluster, in another one.
    ClusterDatabase(u64),
    /// Those that know no clusters.
    Database(u64),
}

/// A field of a hash: its name, its value, and when it expires, if it does.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Field {
    Plain(Bytes, Bytes),
    Expiring(Bytes, Bytes, u64),
}

/// The line of a row.
pub(crate) fn of_row(of: Option<Namespace>, key: &[u8], row: BackupRow, more: bool) -> Line {
    let number = |namespace: Namespace| u64::from(namespace.number());
    let is_of_cluster = |namespace: &Namespace| matches!(namespace, Namespace::Cluster(_));
    let database = of.filter(|namespace| !is_of_cluster(namespace)).map(number);
    let cluster_database = of.filter(is_of_cluster).map(number);
    let expire_at_ms = (row.expire_at_ms > 0).then_some(row.expire_at_ms);
    let mut line = Key { key: Bytes(key.to_vec()), database, cluster_database, expire_at_ms, more, ..Key::default() };
    let all = |strings: Vec<Vec<u8>>| Some(strings.into_iter().map(Bytes).collect());
    match row.value {
        RowValue::String(string) => line.string = Some(Bytes(string)),
        RowValue::List { elements, .. } => line.list = all(elements),
        RowValue::Set(members) => line.set = all(members),
        RowValue::SortedSet(members) => {
            line.zset = Some(members.into_iter().map(|(member, score)| (Bytes(member), score.to_string())).collect());
        }
        RowValue::Hash(fields) => {
            let fields = fields.into_iter().map(|(name, value)| Field::Plain(Bytes(name), Bytes(value)));
            line.hash = Some(fields.collect());
        }
        RowValue::Expiring(fields) => {
            let field = |f: crate::moment::ExpiringField| Field::Expiring(Bytes(f.field), Bytes(f.value), f.at_ms);
            line.hash = Some(fields.into_iter().map(field).collect());
        }
        RowValue::Stream { items, .. } => {
            let words = |item: Vec<Vec<u8>>| item.into_iter().map(Bytes).collect();
            line.stream = Some(items.into_iter().map(words).collect());
        }
    }
    Line::Key(Box::new(line))
}

/// A value, or a part of it.
pub(crate) enum Part {
    Value(Value),
    Items(Vec<StreamItem>),
}

/// What a line says that its key holds.
pub(crate) fn part_of(line: Key) -> Result<Part, String> {
    let all = |strings: Vec<Bytes>| strings.into_iter().map(|bytes| bytes.0).collect();
    let mut parts = Vec::new();
    parts.extend(line.string.map(|string| Part::Value(Value::String(string.0))));
    parts.extend(line.list.map(|elements| Part::Value(Value::List(all(elements)))));
    parts.extend(line.set.map(|members| Part::Value(Value::Set(all(members)))));
    if let Some(members) = line.zset {
        let scored = members.into_iter().map(|(member, score)| {
            let score = score.parse::<f64>().ok().filter(|score| !score.is_nan());
            score.map(|score| (member.0, score)).ok_or("a score that is not a number")
        });
        parts.push(Part::Value(Value::SortedSet(scored.collect::<Result<_, _>>()?)));
    }
    if let Some(fields) = line.hash {
        let field = |field| match field {
            Field::Plain(name, value) => HashField { name: name.0, value: value.0, expire_at_ms: None },
            Field::Expiring(name, value, at) => HashField { name: name.0, value: value.0, expire_at_ms: Some(at) },
        };
        parts.push(Part::Value(Value::Hash(fields.into_iter().map(field).collect())));
    }
    parts.extend(line.stream.map(|items| Part::Items(items.into_iter().map(all).collect())));
    match (parts.pop(), parts.is_empty()) {
        (Some(part), true) => Ok(part),
        _ => Err("a key has one of string, list, set, zset, hash and stream".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::moment::ExpiringField;

    fn written(row: BackupRow) -> String {
        serde_json::to_string(&of_row(None, &row.key.clone(), row, false)).unwrap()
    }

    fn value_of(text: &str) -> Result<Value, String> {
        let Line::Key(key) = Line::read(text.as_bytes(), 1)? else { return Err("no key".to_owned()) };
        match part_of(*key)? {
            Part::Value(value) => Ok(value),
            Part::Items(items) => Err(format!("{items:?}")),
        }
    }

    #[test]
    fn rows_are_lines_and_back() {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let row = |value| BackupRow { key: bytes("k"), expire_at_ms: 0, value };
        let field = |expire_at_ms| HashField { name: bytes("f"), value: bytes("v"), expire_at_ms };
        let expiring = ExpiringField { field: bytes("f"), value: bytes("v"), at_ms: 7 };
        for (row, text, value) in [
            (row(RowValue::String(bytes("a\n"))), r#"{"key":"k","string":"a\n"}"#, Value::String(bytes("a\n"))),
            (
                row(RowValue::String(vec![0xff, 0])),
                r#"{"key":"k","string":{"base64":"/wA="}}"#,
                Value::String(vec![0xff, 0]),
            ),
            (
                row(RowValue::List { start: 0, elements: vec![bytes("a")] }),
                r#"{"key":"k","list":["a"]}"#,
                Value::List(vec![bytes("a")]),
            ),
            (
                row(RowValue::SortedSet(vec![(bytes("m"), 0.1), (bytes("n"), f64::NEG_INFINITY)])),
                r#"{"key":"k","zset":[["m","0.1"],["n","-inf"]]}"#,
                Value::SortedSet(vec![(bytes("m"), 0.1), (bytes("n"), f64::NEG_INFINITY)]),
            ),
            (
                row(RowValue::Hash(vec![(bytes("f"), bytes("v"))])),
                r#"{"key":"k","hash":[["f","v"]]}"#,
                Value::Hash(vec![field(None)]),
            ),
            (
                row(RowValue::Expiring(vec![expiring])),
                r#"{"key":"k","hash":[["f","v",7]]}"#,
                Value::Hash(vec![field(Some(7))]),
            ),
        ] {
            assert_eq!(written(row), text);
            assert_eq!(value_of(text).unwrap(), value, "{text}");
        }
        let items = vec![vec![b"E".to_vec(), b"1-1".to_vec(), vec![0xfe], b"v".to_vec()]];
        let text = written(row(RowValue::Stream { is_first: true, items: items.clone() }));
        assert_eq!(value_of(&text), Err(format!("{items:?}")));
    }

    #[test]
    fn what_is_no_line_is_an_error_that_names_it() {
        for text in [
            "",
            "{}",
            r#"{"key":"k"}"#,
            r#"{"key":"k","string":"a","list":[]}"#,
            r#"{"key":"k","string":{"base64":"!"}}"#,
            r#"{"key":"k","zset":[["m","nan"]]}"#,
            r#"{"key":"k","strnig":"a"}"#,
            r#"{"basalt_export":2,"at_ms":1,"store":"s"}"#,
        ] {
            assert!(value_of(text).is_err(), "{text}");
        }
        let error = Line::read(b"{\"key\":1}", 12).unwrap_err();
        assert!(error.starts_with("line 12: "), "{error}");
    }
}

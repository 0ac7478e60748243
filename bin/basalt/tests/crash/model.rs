//! What one writer knows of one group of keys: the state that is certain, and the writes that may or may not be in.
//!
//! The keys of a group share a hash tag, so one shard orders their writes, and one connection sends them. Whatever a
//! crash does, the group must afterwards look as after some prefix of the writes sent that holds all acknowledged
//! ones: nothing lost, nothing torn, nothing twice, nothing that was never written.

use crate::common::{Connection, Random};
use std::collections::BTreeMap;

type Bytes = Vec<u8>;

/// One write. Values are unique, so that a value tells which write it is from.
#[derive(Clone, Debug)]
pub enum Write {
    Set(Bytes),
    Pair(Bytes),
    Increment,
    Append(Bytes),
    Fields(Vec<(Bytes, Bytes)>),
    RemoveField(Bytes),
    Transaction(Bytes, Bytes),
    RemoveAll,
}

/// What the keys of a group hold.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct State {
    first: Option<Bytes>,
    second: Option<Bytes>,
    counter: i64,
    appended: Bytes,
    hash: BTreeMap<Bytes, Bytes>,
}

/// A group of keys of one writer.
pub struct Group {
    tag: String,
    certain: State,
    sent: Vec<Write>,
}

impl Write {
    /// A random one.
    pub fn random(random: &mut Random) -> Self {
        let token = format!("{:016x}.", random.next()).into_bytes();
        let field = |random: &mut Random| format!("f{}", random.below(400)).into_bytes();
        match random.below(100) {
            0..30 => Self::Set(value(random, token)),
            30..45 => Self::Pair(value(random, token)),
            45..60 => Self::Increment,
            60..70 => Self::Append(token),
            70..85 => {
                let count = if random.below(10) == 0 { 50 } else { 1 };
                let fields: BTreeMap<Bytes, Bytes> = (0..count).map(|_| (field(random), token.clone())).collect();
                Self::Fields(fields.into_iter().collect())
            }
            85..88 => Self::RemoveField(field(random)),
            88..99 => Self::Transaction(value(random, token), field(random)),
            _ => Self::RemoveAll,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Set(_) => "SET",
            Self::Pair(_) => "MSET",
            Self::Increment => "INCR",
            Self::Append(_) => "APPEND",
            Self::Fields(_) => "HSET",
            Self::RemoveField(_) => "HDEL",
            Self::Transaction(..) => "EXEC",
            Self::RemoveAll => "DEL",
        }
    }

    /// Its requests; the last one's answer acknowledges it.
    fn requests(&self, tag: &str) -> Vec<Vec<Bytes>> {
        let key = |name: &str| format!("{{{tag}}}{name}").into_bytes();
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        match self {
            Self::Set(value) => vec![words(&[b"SET", &key("first"), value])],
            Self::Pair(value) => vec![words(&[b"MSET", &key("first"), value, &key("second"), value])],
            Self::Increment => vec![words(&[b"INCR", &key("counter")])],
            Self::Append(token) => vec![words(&[b"APPEND", &key("appended"), token])],
            Self::Fields(fields) => {
                let mut request = words(&[b"HSET", &key("hash")]);
                request.extend(fields.iter().flat_map(|(field, value)| [field.clone(), value.clone()]));
                vec![request]
            }
            Self::RemoveField(field) => vec![words(&[b"HDEL", &key("hash"), field])],
            Self::Transaction(value, field) => vec![
                words(&[b"MULTI"]),
                words(&[b"SET", &key("second"), value]),
                words(&[b"INCR", &key("counter")]),
                words(&[b"HSET", &key("hash"), field, b"transaction"]),
                words(&[b"EXEC"]),
            ],
            Self::RemoveAll => {
                let names = ["first", "second", "counter", "appended", "hash"];
                vec![std::iter::once(b"DEL".to_vec()).chain(names.map(key)).collect()]
            }
        }
    }

    /// The requests as bytes, and how many answers they have.
    pub fn encode(&self, tag: &str) -> (Bytes, usize) {
        let requests = self.requests(tag);
        (requests.iter().flat_map(|request| Connection::encode(request)).collect(), requests.len())
    }
}

fn value(random: &mut Random, token: Bytes) -> Bytes {
    let length = match random.below(100) {
        0..50 => 10 + random.below(100),
        50..92 => 1_000 + random.below(4_000),
        _ => 16_000 + random.below(120_000),
    };
    let mut value = token;
    value.extend(random.bytes(length as usize));
    value
}

impl State {
    fn apply(&mut self, write: &Write) {
        match write {
            Write::Set(value) => self.first = Some(value.clone()),
            Write::Pair(value) => (self.first, self.second) = (Some(value.clone()), Some(value.clone())),
            Write::Increment => self.counter += 1,
            Write::Append(token) => self.appended.extend_from_slice(token),
            Write::Fields(fields) => self.hash.extend(fields.iter().cloned()),
            Write::RemoveField(field) => drop(self.hash.remove(field)),
            Write::Transaction(value, field) => {
                self.second = Some(value.clone());
                self.counter += 1;
                self.hash.insert(field.clone(), b"transaction".to_vec());
            }
            Write::RemoveAll => *self = Self::default(),
        }
    }

    fn read(connection: &mut Connection, tag: &str) -> Self {
        let mut get = |name: &str| connection.call(&format!("GET {{{tag}}}{name}")).bytes().map(<[u8]>::to_vec);
        let (first, second, counter, appended) = (get("first"), get("second"), get("counter"), get("appended"));
        let pairs = connection.call(&format!("HGETALL {{{tag}}}hash"));
        let bytes: Vec<Bytes> = pairs.items().iter().map(|item| item.bytes().unwrap().to_vec()).collect();
        let hash: BTreeMap<Bytes, Bytes> = bytes.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        assert_eq!(hash.len() * 2, bytes.len(), "{tag}: HGETALL names a field twice");
        let length = connection.call(&format!("HLEN {{{tag}}}hash")).int();
        assert_eq!(length as usize, hash.len(), "{tag}: HLEN and HGETALL differ");
        let counter = counter.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap());
        Self { first, second, counter, appended: appended.unwrap_or_default(), hash }
    }

    /// Short enough to read.
    fn outline(&self) -> String {
        let show = |value: &Option<Bytes>| {
            value.as_ref().map_or("none".to_owned(), |v| format!("{}… ({})", v[..16].escape_ascii(), v.len()))
        };
        let (first, second) = (show(&self.first), show(&self.second));
        let sum: usize = self.hash.values().map(Vec::len).sum();
        let (counter, appended, fields) = (self.counter, self.appended.len(), self.hash.len());
        format!(
            "first {first}, second {second}, counter {counter}, appended {appended}, {fields} fields of {sum} bytes"
        )
    }
}

impl Group {
    pub fn new(tag: String) -> Self {
        Self { tag, certain: State::default(), sent: Vec::new() }
    }

    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Before its bytes go out.
    pub fn sending(&mut self, write: Write) {
        self.sent.push(write);
    }

    /// The oldest write that was under way is acknowledged.
    pub fn acknowledged(&mut self) {
        let write = self.sent.remove(0);
        self.certain.apply(&write);
    }

    /// Compares with what the server has now, and takes that for certain.
    pub fn verify(&mut self, connection: &mut Connection) -> Result<(), String> {
        let seen = State::read(connection, &self.tag);
        let mut candidate = self.certain.clone();
        let mut outlines = vec![candidate.outline()];
        let mut found = candidate == seen;
        for write in self.sent.drain(..) {
            if found {
                break;
            }
            candidate.apply(&write);
            outlines.push(format!("{} after {}", candidate.outline(), write.name()));
            found = candidate == seen;
        }
        if !found {
            let tag = &self.tag;
            return Err(format!("{tag} holds\n  {}\nand not any of\n  {}", seen.outline(), outlines.join("\n  ")));
        }
        self.certain = seen;
        Ok(())
    }
}

//! What a hostile client sends: the largest transactions, collections and values that limits allow, in small.
//!
//! A seed must be fast, so sizes are scaled: the largest request has `BulkShape::bytes`, and links and disks are so slow that
//! it takes as long as a request of 256 MiB does on real ones.

use crate::request::key_name;
use node::request::{check, check_item};
use node::{EncodedCommand, EngineVersion, ScriptContext, ScriptDatabases, Write, key_hash, script_command};
use resp::Value;
use resp::table::resolve;
use vocab::limits::FIELD_BYTES_MAX;
use vocab::{Slot, slot_of};

/// How large what hostile clients send is, and what carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkShape {
    /// Hostile clients.
    pub clients: usize,
    /// Bytes of the largest request.
    pub bytes: usize,
    /// Bytes of bulk that a link and a log carry in a millisecond.
    pub bytes_per_ms: u64,
    /// Nothing fails: bulk alone must cause no election and keep no other client waiting.
    pub is_calm: bool,
}

impl BulkShape {
    /// How long an ordinary client waits at the most, where nothing fails, in ms: what all hostile clients have under way goes
    /// before it over a link and into two logs, and so does what they sent while that was so. A write that asks for acks of
    /// all replicas may besides be told after 5 s that not all have it.
    #[must_use]
    pub fn wait_ms_max(&self) -> u64 {
        let each_ms = self.bytes as u64 / self.bytes_per_ms;
        8000 + 8 * self.clients as u64 * each_ms
    }
}

/// A type of collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkType {
    /// Fields with values.
    Hash,
    /// Elements in their order.
    List,
    /// Members.
    Set,
    /// Members with scores.
    SortedSet,
    /// Entries.
    Stream,
}

impl BulkType {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Hash, Self::List, Self::Set, Self::SortedSet, Self::Stream];

    /// In which order they are.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        ["hash", "list", "set", "zset", "stream"][self.index()]
    }

    /// What reads all of it, behind the key.
    fn reading(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Hash => ("HGETALL", &[]),
            Self::List => ("LRANGE", &["0", "-1"]),
            Self::Set => ("SMEMBERS", &[]),
            Self::SortedSet => ("ZRANGE", &["-inf", "+inf", "BYSCORE"]),
            Self::Stream => ("XRANGE", &["-", "+"]),
        }
    }

    /// Whether filling it again adds nothing to what is there.
    #[must_use]
    pub fn keeps_names(self) -> bool {
        !matches!(self, Self::List | Self::Stream)
    }
}

/// What a client is told that a limit has stopped.
const FORBIDDEN: [&str; 3] =
    ["ERR key is too long", "ERR the script ran more instructions", "ERR the script needed more memory"];

/// The most members that a request adds.
const MEMBERS_MAX: usize = 1000;

/// How many members of the copy of a set are popped.
const POPPED: usize = 40;

/// Scripts that do not end before a budget does: each writes first, then does much in few instructions, or in many.
pub const RUNAWAYS: [&str; 6] = [
    "local s=('x'):rep(100000) while true do local t=s..'y' end",
    "local s=('x'):rep(100000) local t=s..'y' while true do local is=s<t end",
    "local t={} for i=1,1e9 do t[i]=i end",
    "while true do redis.pcall('SET',KEYS[1],('.'):rep(10000)) end",
    "return ('a'):rep(300):find('(.-)(.-)(.-)(.-)(.-)b')",
    "while true do pcall(function() local t=('y'):rep(1e5):upper():gsub('Y','zz') end) end",
];
/// What the budgets of such a script are.
const INSTRUCTIONS_MAX: u64 = 200_000;
const MEMORY_BYTES_MAX: u64 = 4 << 20;

/// What a hostile client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkKind {
    /// MULTI of SETs that fill an entry.
    Sets(usize),
    /// A value as long as may be.
    Value,
    /// As many elements as one request carries: a list or a stream anew, of the others what is not there.
    Fill(BulkType, usize),
    /// DEL of the collection.
    Delete(BulkType),
    /// RENAME of the collection, forth or back.
    Rename(BulkType),
    /// COPY of the collection, within MULTI; of a set, members of the copy are popped.
    Copy(BulkType),
    /// MULTI of all of the collection and GETs: the largest answer.
    ReadAll(BulkType, usize),
    /// WATCH of many keys.
    Watch(usize),
    /// A key that is too long, within MULTI: it must be refused.
    LongKey(usize),
    /// A script that does not end: it must be refused, and what it has written taken back.
    Runaway(usize),
}

impl BulkKind {
    /// Whether a limit forbids it.
    #[must_use]
    pub fn is_forbidden(self) -> bool {
        matches!(self, Self::LongKey(_) | Self::Runaway(_))
    }
}

/// One request of a hostile client.
#[derive(Clone, Debug)]
pub struct BulkRequest {
    /// Which client.
    pub client: usize,
    /// Its number there.
    pub number: u64,
    /// Of which group of keys: it shares slot, shard and log with what ordinary clients ask of it.
    pub group: usize,
    /// What.
    pub kind: BulkKind,
    /// Bytes of the largest request.
    pub bytes: usize,
}

/// What a hostile client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkAnswer {
    /// It was done. How many elements the collection has, where that was asked.
    Done(Option<usize>),
    /// It was not done.
    Refused,
    /// A limit forbids it, so it was not done.
    Forbidden,
    /// That is unknown.
    Unknown,
}

impl BulkRequest {
    /// The slot of its keys.
    #[must_use]
    pub fn slot(&self) -> Slot {
        slot_of(&key_name(self.group, 0))
    }

    fn key(&self, name: &str) -> Vec<u8> {
        // Beside the keys of ordinary clients, in the same slot.
        let tag = key_name(self.group, 0);
        let end = tag.iter().position(|byte| *byte == b'}').map_or(tag.len(), |end| end + 1);
        [&tag[..end], format!("bulk{}{name}", self.client).as_bytes()].concat()
    }

    /// Bytes that are no number of a value, whatever follows.
    fn filler(bytes: usize) -> Vec<u8> {
        let mut filler = vec![b'.'; bytes.max(1)];
        filler[0] = b':';
        filler
    }

    /// Its commands, in order.
    #[must_use]
    pub fn commands(&self) -> Vec<Vec<Vec<u8>>> {
        let both = |of: BulkType| (self.key(of.name()), self.key(&format!("other-{}", of.name())));
        let word = |text: &str| text.as_bytes().to_vec();
        match self.kind {
            BulkKind::Sets(count) => (0..count)
                .map(|n| vec![word("SET"), self.key(&format!("v{n}")), Self::filler(self.bytes / count)])
                .collect(),
            BulkKind::Value => vec![vec![word("SET"), self.key("v0"), Self::filler(self.bytes)]],
            BulkKind::Fill(of, elements) => self.filling(of, elements),
            BulkKind::Delete(of) => {
                let (key, other) = both(of);
                vec![vec![word("DEL"), key, other]]
            }
            BulkKind::Rename(of) => {
                let (key, other) = both(of);
                vec![vec![word("RENAME"), key.clone(), other.clone()], vec![word("RENAME"), other, key]]
            }
            BulkKind::Copy(of) => {
                let (key, other) = both(of);
                let pops = if of == BulkType::Set { POPPED } else { 0 };
                let pop = vec![word("SPOP"), other.clone()];
                let copy = vec![word("COPY"), key, other, word("REPLACE")];
                std::iter::once(copy).chain(std::iter::repeat_n(pop, pops)).collect()
            }
            BulkKind::ReadAll(of, values) => {
                let gets = (0..values).map(|n| vec![word("GET"), self.key(&format!("v{n}"))]);
                let (name, rest) = of.reading();
                let read = [word(name), both(of).0].into_iter().chain(rest.iter().map(|text| word(text))).collect();
                let all = vec![read, vec![word("SET"), self.key("read"), word(":")]];
                all.into_iter().chain(gets).collect()
            }
            BulkKind::Watch(_) => vec![vec![word("SET"), self.key("watched"), word(":")]],
            BulkKind::LongKey(bytes) => {
                let mut key = self.key("long");
                key.resize(bytes, b'k');
                vec![vec![word("SET"), self.key("short"), word(":")], vec![word("SET"), key, word(":")]]
            }
            BulkKind::Runaway(which) => vec![self.runaway(RUNAWAYS[which])],
        }
    }

    /// As an entry has it.
    fn runaway(&self, script: &str) -> Vec<Vec<u8>> {
        let context = ScriptContext {
            engine: EngineVersion::NEWEST,
            slot: self.slot(),
            wider: None,
            namespace: None,
            chooses: false,
            databases: ScriptDatabases::default(),
            instructions_max: INSTRUCTIONS_MAX,
            memory_bytes_max: MEMORY_BYTES_MAX,
            user: None,
        };
        let source = format!("redis.call('SET',KEYS[1],':') {script}");
        let key = self.key("runaway");
        let command = script_command(source.as_bytes(), &[b"EVAL", b"", b"1", &key], &context, false);
        command.args().iter().map(|arg| arg.to_vec()).collect()
    }

    fn filling(&self, of: BulkType, elements: usize) -> Vec<Vec<Vec<u8>>> {
        let word = |text: &str| text.as_bytes().to_vec();
        let (key, value) = (self.key(of.name()), Self::filler(self.bytes / elements));
        // A member is part of the name of a row, and the same one however many there are.
        let padding = Self::filler((self.bytes / MEMBERS_MAX).min(FIELD_BYTES_MAX / 2));
        let member = |n: usize| [format!("member{n}").as_bytes(), &padding].concat();
        let of_name = |name: &str, each: &dyn Fn(usize) -> Vec<Vec<u8>>| {
            [word(name), key.clone()].into_iter().chain((0..elements).flat_map(each)).collect::<Vec<_>>()
        };
        let anew = || vec![word("DEL"), key.clone()];
        match of {
            BulkType::Hash => vec![of_name("HSET", &|n| vec![format!("field{n}").into_bytes(), value.clone()])],
            BulkType::Set => vec![of_name("SADD", &|n| vec![member(n)])],
            BulkType::SortedSet => vec![of_name("ZADD", &|n| vec![format!("{n}.5").into_bytes(), member(n)])],
            BulkType::List => vec![anew(), of_name("RPUSH", &|_| vec![value.clone()])],
            BulkType::Stream => {
                let entry = vec![word("XADD"), key.clone(), word("*"), word("field"), value.clone()];
                std::iter::once(anew()).chain(std::iter::repeat_n(entry, elements)).collect()
            }
        }
    }

    /// Keys that it watches, which are absent.
    fn watches(&self) -> Vec<(Vec<u8>, u64)> {
        let BulkKind::Watch(count) = self.kind else { return Vec::new() };
        (0..count).map(|n| (self.key(&format!("absent{n}")), 0)).collect()
    }

    /// What the gate before the log says; `None`: it may pass.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let write = self.write();
        let each = self.commands().into_iter().find_map(|args| {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            match resolve(&args) {
                Ok(spec) => check(spec, &args).err().map(|text| text.to_string()),
                Err(text) => Some(text),
            }
        });
        each.or_else(|| check_item(write.bytes()).err().map(|text| text.to_string()))
    }

    /// As a shard takes it.
    #[must_use]
    pub fn write(&self) -> Write {
        let encode = |args: &Vec<Vec<u8>>| EncodedCommand::new(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let commands = self.commands();
        let write = match self.kind {
            BulkKind::Value | BulkKind::Delete(_) | BulkKind::Runaway(_) => Write::Command(encode(&commands[0])),
            BulkKind::Fill(of, _) if of.keeps_names() => Write::Command(encode(&commands[0])),
            _ => Write::Transaction { watches: self.watches(), commands: commands.iter().map(encode).collect() },
        };
        // Some are encoded before they come to their shard, as by the thread for large requests.
        if self.bytes.is_multiple_of(2) { write.prepared() } else { write }
    }

    /// About how many bytes of stored values its answer holds.
    #[must_use]
    pub fn reply_bytes(&self) -> usize {
        match self.kind {
            BulkKind::ReadAll(_, values) => self.bytes * (1 + values),
            _ => 0,
        }
    }

    /// Hashes of its keys.
    #[must_use]
    pub fn key_hashes(&self) -> Vec<u64> {
        if let BulkKind::Runaway(_) = self.kind {
            return vec![key_hash(&self.key("runaway"))];
        }
        self.commands().iter().filter_map(|args| args.get(1)).map(|key| key_hash(key)).collect()
    }

    /// Reads the answer; an error is one that the store should never give.
    pub fn answer(&self, reply: &[u8]) -> Result<BulkAnswer, String> {
        let decoded = resp::decode(reply).map_err(|e| format!("{:?}: a reply that is none ({e})", self.kind))?;
        let Some((value, length)) = decoded else { return Err(format!("{:?}: a reply cut short", self.kind)) };
        if length != reply.len() {
            return Err(format!("{:?}: more than one reply", self.kind));
        }
        if let Some(text) = value.as_error() {
            return match crate::request::refused(text) {
                Some(crate::history::Answer::Refused) => Ok(BulkAnswer::Refused),
                Some(_) => Ok(BulkAnswer::Unknown),
                None if FORBIDDEN.iter().any(|words| text.starts_with(words)) => Ok(BulkAnswer::Forbidden),
                None => Err(format!("{:?} was answered: {text}", self.kind)),
            };
        }
        let elements = match (&self.kind, &value) {
            (BulkKind::ReadAll(of, _), Value::Array(parts)) => match parts.first() {
                Some(Value::Array(all)) if *of == BulkType::Hash => Some(all.len() / 2),
                Some(Value::Array(all) | Value::Set(all)) => Some(all.len()),
                Some(Value::Map(all)) => Some(all.len()),
                _ => return Err(format!("{of:?} within MULTI was answered: {:?}", parts.first())),
            },
            _ => None,
        };
        Ok(BulkAnswer::Done(elements))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn request(kind: BulkKind) -> BulkRequest {
        BulkRequest { client: 2, number: 1, group: 3, kind, bytes: 10_000 }
    }

    #[test]
    fn all_keys_are_of_one_slot_and_only_what_is_too_long_is_refused() {
        let kinds = [
            BulkKind::Sets(7),
            BulkKind::Value,
            BulkKind::Watch(100),
            BulkKind::LongKey(32_000),
            BulkKind::LongKey(32_001),
        ];
        let of_type = |of| {
            [
                BulkKind::Fill(of, 300),
                BulkKind::Delete(of),
                BulkKind::Rename(of),
                BulkKind::Copy(of),
                BulkKind::ReadAll(of, 3),
            ]
        };
        for kind in kinds.into_iter().chain(BulkType::ALL.into_iter().flat_map(of_type)) {
            let request = request(kind);
            for args in request.commands() {
                assert_eq!(slot_of(&args[1]), request.slot(), "{kind:?}");
                assert!(args.iter().all(|arg| crate::request::value_number(arg).is_none()), "{kind:?}");
            }
            let refusal = request.refusal();
            assert_eq!(refusal.is_some(), kind == BulkKind::LongKey(32_001), "{kind:?}: {refusal:?}");
            assert!(request.write().bytes() > 0);
        }
    }

    #[test]
    fn a_runaway_is_a_script_about_one_key_of_the_same_slot() {
        for which in 0..RUNAWAYS.len() {
            let request = request(BulkKind::Runaway(which));
            let args = &request.commands()[0];
            assert!(args[0] == b"EVAL" && slot_of(&args[3]) == request.slot() && request.refusal().is_none());
            assert!(ScriptContext::decode(args.last().unwrap()).is_some() && request.kind.is_forbidden());
            assert_eq!(request.key_hashes(), [key_hash(&args[3])]);
        }
    }

    #[test]
    fn answers_are_told_apart() {
        let read = request(BulkKind::ReadAll(BulkType::Hash, 1));
        let cases: [(&[u8], Option<BulkAnswer>); 6] = [
            (
                b"*3\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n+OK\r\n$-1\r\n",
                Some(BulkAnswer::Done(Some(2))),
            ),
            (b"-MOVED 7 a:1\r\n", Some(BulkAnswer::Refused)),
            (b"-TIMEOUT it may be made\r\n", Some(BulkAnswer::Unknown)),
            (b"-ERR key is too long (32001 bytes, 32000 are allowed)\r\n", Some(BulkAnswer::Forbidden)),
            (b"-ERR the script ran more instructions than it may\r\n", Some(BulkAnswer::Forbidden)),
            (b"-ERR no such thing\r\n", None),
        ];
        for (reply, expected) in cases {
            assert_eq!(read.answer(reply).ok(), expected, "{}", String::from_utf8_lossy(reply));
        }
    }
}

//! What clients of collections ask: few keys and few members, so that they meet, and now and then a large collection.

use super::request::{CollectionRequest, collection_key, tag_key, tag_word, timeout_word};
use super::way::{Way, Words};
use crate::chance::Chance;
use node::command::handler;
use resp::table;
use vocab::Prng;

/// Keys of a group.
pub const KEYS: usize = 10;
/// Members that most commands choose from.
const MEMBERS: u64 = 8;
/// Members of a large collection: so many are no longer kept in one row.
const LARGE: u64 = 300;
/// How many commands of a thousand add a large part of such a collection.
const LARGE_PER_MILLE: u64 = 40;

/// How many commands of a thousand on a list or a sorted set wait if they find nothing.
const BLOCKING_PER_MILLE: u64 = 150;

/// How many requests of a thousand that write are a script's.
const SCRIPT_PER_MILLE: u64 = 150;

/// Draws requests.
pub struct Draw {
    prng: Prng,
    groups: usize,
    /// Keys may expire.
    expires: bool,
    /// What commands are of; those on keys of any type last.
    types: Vec<Kind>,
    tags: u64,
}

/// What a command is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Keys of any type.
    Any,
    Set,
    List,
    SortedSet,
    Stream,
    /// A string, some of which are long.
    Text,
}

/// The types that the store has, with a command that only they have.
const TYPES: &[(Kind, &[u8])] = &[
    (Kind::Set, b"SADD"),
    (Kind::List, b"RPUSH"),
    (Kind::SortedSet, b"ZADD"),
    (Kind::Stream, b"XADD"),
    (Kind::Text, b"SETBIT"),
];

/// A command, and whether it may change something and can bear a tag as its last argument.
struct Drawn {
    words: Words,
    writes: bool,
    tag: Tag,
}

/// What the last argument of a command may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    /// One more member or element: the command wants one.
    Member,
    /// The same, behind a score.
    Scored,
    /// One more key, which is absent.
    Key,
    /// A timeout of so many ms.
    Timeout(u64),
    /// Nothing more.
    None,
}

impl Draw {
    /// Over so many groups of keys.
    #[must_use]
    pub fn new(groups: usize, expires: bool, prng: Prng) -> Self {
        let has = |name: &[u8]| table::lookup(name).and_then(handler).is_some();
        let of_type = TYPES.iter().filter(|(_, name)| has(name)).map(|(kind, _)| *kind);
        Self { prng, groups, expires, types: of_type.chain([Kind::Any]).collect(), tags: 0 }
    }

    /// The next request of a client.
    pub fn request(&mut self, client: usize) -> CollectionRequest {
        let group = self.prng.below(self.groups as u64) as usize;
        self.tags += 1;
        let tag = self.tags;
        let count = if self.prng.happens(150) { self.prng.between(2, 4) } else { 1 };
        let mut drawn: Vec<Drawn> = (0..count).map(|_| self.command(group)).collect();
        let is_read = drawn.iter().all(|one| !one.writes) && count == 1;
        let way = self.way(&drawn, is_read);
        for one in &mut drawn {
            match one.tag {
                Tag::Member => one.words.push(tag_word(tag)),
                Tag::Scored => one.words.extend([word("1"), tag_word(tag)]),
                Tag::Key => one.words.push(tag_key(group, tag)),
                Tag::Timeout(ms) => one.words.push(timeout_word(ms, tag)),
                Tag::None => {}
            }
        }
        let commands = drawn.into_iter().map(|one| one.words).collect();
        CollectionRequest { client, tag, group, commands, way, writes: !is_read }
    }

    /// How commands reach their shard: what bears no tag is in MULTI, or a script runs it.
    fn way(&mut self, drawn: &[Drawn], is_read: bool) -> Way {
        let waits = drawn.iter().any(|one| matches!(one.tag, Tag::Timeout(_)));
        if !is_read && !waits && self.prng.happens(SCRIPT_PER_MILLE) {
            return *self.prng.pick(&[Way::Script, Way::Script, Way::Function, Way::ReversingFunction, Way::Runaway]);
        }
        let is_tagged = drawn.len() == 1 && (is_read || drawn[0].tag != Tag::None);
        if is_tagged { Way::Plain } else { Way::Transaction }
    }

    /// A read of a key as a whole, by which a run ends: of the types that it may have, one after the other.
    pub fn last_read(&mut self, client: usize, group: usize, key: usize, turn: usize) -> CollectionRequest {
        self.tags += 1;
        let key = collection_key(group, key);
        let words = match self.types[turn % self.types.len()] {
            Kind::Any => vec![word("TYPE"), key],
            Kind::Set => vec![word("SMEMBERS"), key],
            Kind::List => vec![word("LRANGE"), key, word("0"), word("-1")],
            Kind::SortedSet => vec![word("ZRANGE"), key, word("0"), word("-1"), word("WITHSCORES")],
            Kind::Stream => vec![word("XRANGE"), key, word("-"), word("+")],
            Kind::Text => vec![word("GET"), key],
        };
        CollectionRequest { client, tag: self.tags, group, commands: vec![words], way: Way::Plain, writes: false }
    }

    /// How many reads tell all of a key.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.types.len()
    }

    fn command(&mut self, group: usize) -> Drawn {
        // Commands on any type come half as often as those on one.
        let turn = self.prng.below(2 * self.types.len() as u64 - 1) as usize / 2;
        match self.types[turn] {
            Kind::Any => self.any_command(group),
            Kind::Set => self.set_command(group),
            Kind::List => self.list_command(group),
            Kind::SortedSet => self.sorted_set_command(group),
            Kind::Stream => self.stream_command(group),
            Kind::Text => self.text_command(group),
        }
    }

    /// A command on keys of any type.
    fn any_command(&mut self, group: usize) -> Drawn {
        let (key, other) = self.two_keys(group, Kind::Any);
        match self.prng.below(100) {
            0..20 => writes(vec![word("DEL"), key], Tag::Key),
            20..37 => writes(vec![word("RENAME"), key, other], Tag::None),
            37..54 => {
                let replaces = self.prng.happens(700).then(|| word("REPLACE"));
                writes([word("COPY"), key, other].into_iter().chain(replaces).collect(), Tag::None)
            }
            54..70 if self.expires => {
                writes(vec![word("PEXPIRE"), key, self.one_of(&["1", "30", "300", "3000"])], Tag::None)
            }
            54..75 => writes(vec![word("PERSIST"), key], Tag::None),
            75..85 => reads(vec![word("EXISTS"), key, other]),
            85..93 => reads(vec![word("TYPE"), key]),
            _ => reads(vec![word("PEXPIRETIME"), key]),
        }
    }

    fn list_command(&mut self, group: usize) -> Drawn {
        let (key, other) = self.two_keys(group, Kind::List);
        let index = self.one_of(&["0", "1", "2", "-1", "-2"]);
        if self.prng.happens(LARGE_PER_MILLE) {
            let elements = (0..LARGE).map(member).collect();
            return writes([vec![self.one_of(&["LPUSH", "RPUSH"]), key], elements].concat(), Tag::Member);
        }
        let end = |draw: &mut Self| draw.one_of(&["LEFT", "RIGHT"]);
        if self.prng.happens(BLOCKING_PER_MILLE) {
            let timeout = self.timeout();
            return match self.prng.below(10) {
                0..6 => writes(vec![self.one_of(&["BLPOP", "BRPOP"]), key], timeout),
                6..8 => writes(vec![self.one_of(&["BLPOP", "BRPOP"]), key, other], timeout),
                _ => writes(vec![word("BLMOVE"), key, other, end(self), end(self)], timeout),
            };
        }
        match self.prng.below(100) {
            0..20 => {
                let name = self.one_of(&["LPUSH", "RPUSH", "LPUSHX", "RPUSHX"]);
                writes([vec![name, key], self.members()].concat(), Tag::Member)
            }
            20..34 => writes(vec![self.one_of(&["LPOP", "RPOP"]), key], Tag::None),
            34..38 => {
                let name = self.one_of(&["LPOP", "RPOP"]);
                writes(vec![name, key, self.one_of(&["2", "1000"])], Tag::None)
            }
            38..46 => writes(vec![word("LMOVE"), key, other, end(self), end(self)], Tag::None),
            46..48 => writes(vec![word("RPOPLPUSH"), key, other], Tag::None),
            48..54 => writes(vec![word("LSET"), key, index], Tag::Member),
            54..60 => {
                let side = self.one_of(&["BEFORE", "AFTER"]);
                writes(vec![word("LINSERT"), key, side, self.member()], Tag::Member)
            }
            60..65 => {
                let count = self.one_of(&["0", "1", "-1"]);
                writes(vec![word("LREM"), key, count, self.member()], Tag::None)
            }
            65..68 => writes(vec![word("LTRIM"), key, index, word("-1")], Tag::None),
            68..74 => reads(vec![word("LLEN"), key]),
            74..80 => reads(vec![word("LINDEX"), key, index]),
            80..85 => reads(vec![word("LRANGE"), key, index, word("2")]),
            _ => reads(vec![word("LRANGE"), key, word("0"), word("-1")]),
        }
    }

    fn sorted_set_command(&mut self, group: usize) -> Drawn {
        let (key, other) = self.two_keys(group, Kind::SortedSet);
        let (low, high) = (self.score(), self.one_of(&["2", "5", "9"]));
        if self.prng.happens(LARGE_PER_MILLE) {
            let members = (0..LARGE).flat_map(|n| [self.score(), member(n)]).collect();
            return writes([vec![word("ZADD"), key], members].concat(), Tag::Scored);
        }
        if self.prng.happens(BLOCKING_PER_MILLE) {
            let name = self.one_of(&["BZPOPMIN", "BZPOPMAX"]);
            let keys = if self.prng.happens(200) { vec![key, other] } else { vec![key] };
            return writes([vec![name], keys].concat(), self.timeout());
        }
        match self.prng.below(100) {
            0..20 => {
                let flag = *self.prng.pick(&[None, None, None, Some("NX"), Some("XX"), Some("CH")]);
                let pairs = self.members().into_iter().flat_map(|member| [self.score(), member]).collect();
                writes([vec![word("ZADD"), key], flag.map(word).into_iter().collect(), pairs].concat(), Tag::Scored)
            }
            20..28 => writes(vec![word("ZINCRBY"), key, self.score(), self.member()], Tag::None),
            28..38 => writes([vec![word("ZREM"), key], self.members()].concat(), Tag::Member),
            38..46 => writes(vec![self.one_of(&["ZPOPMIN", "ZPOPMAX"]), key], Tag::None),
            46..48 => writes(vec![word("ZPOPMIN"), key, self.one_of(&["2", "1000"])], Tag::None),
            48..51 => writes(vec![word("ZREMRANGEBYRANK"), key, word("0"), word("1")], Tag::None),
            51..54 => writes(vec![word("ZREMRANGEBYSCORE"), key, low, high], Tag::None),
            54..60 => {
                let name = self.one_of(&["ZUNIONSTORE", "ZINTERSTORE"]);
                writes(vec![name, key.clone(), word("2"), key, other], Tag::None)
            }
            60..64 => reads(vec![word("ZCARD"), key]),
            64..69 => reads(vec![word("ZSCORE"), key, self.member()]),
            69..76 => reads(vec![self.one_of(&["ZRANK", "ZREVRANK"]), key, self.member()]),
            76..80 => reads(vec![word("ZCOUNT"), key, low, high]),
            80..85 => reads(vec![word("ZRANGEBYSCORE"), key, low, high, word("WITHSCORES")]),
            85..88 => reads(vec![word("ZRANGE"), key, word("1"), word("-2"), word("WITHSCORES")]),
            _ => reads(vec![word("ZRANGE"), key, word("0"), word("-1"), word("WITHSCORES")]),
        }
    }

    /// How long a blocking command waits.
    fn timeout(&mut self) -> Tag {
        Tag::Timeout(*self.prng.pick(&[50, 500, 3_000, 1_000_000]))
    }

    fn stream_command(&mut self, group: usize) -> Drawn {
        let (key, _) = self.two_keys(group, Kind::Stream);
        let (name, consumer) = (self.one_of(&["g", "g", "h"]), self.one_of(&["a", "b", "c"]));
        let subcommand = |subcommand: &str| vec![word("XGROUP"), word(subcommand), key.clone(), name.clone()];
        match self.prng.below(100) {
            0..24 => {
                let length = if self.prng.happens(200) { vec![word("MAXLEN"), word("6")] } else { Vec::new() };
                // Streams of every other key have ids by the clock, the others such as `ids` draws.
                let by_clock = key.last().is_some_and(|digit| digit.is_multiple_of(2));
                let id = if by_clock { word("*") } else { word(&self.tags.to_string()) };
                writes([vec![word("XADD"), key], length, vec![id, self.member()]].concat(), Tag::Member)
            }
            24..26 => writes(vec![word("XTRIM"), key, word("MAXLEN"), self.one_of(&["0", "2", "4"])], Tag::None),
            26..32 => writes([vec![word("XDEL"), key], self.ids()].concat(), Tag::None),
            32..38 => {
                let from = self.one_of(&["0", "$"]);
                writes([subcommand("CREATE"), vec![from, word("MKSTREAM")]].concat(), Tag::None)
            }
            38..40 => writes(subcommand("DESTROY"), Tag::None),
            40..43 => writes([subcommand("SETID"), vec![self.one_of(&["0", "$"])]].concat(), Tag::None),
            43..45 => writes([subcommand("DELCONSUMER"), vec![consumer]].concat(), Tag::None),
            45..60 => {
                let how = self.one_of(&["1", "3"]);
                let no_ack = if self.prng.happens(100) { vec![word("NOACK")] } else { Vec::new() };
                let from = self.one_of(&[">", ">", ">", "0"]);
                let begin = vec![word("XREADGROUP"), word("GROUP"), name, consumer, word("COUNT"), how];
                writes([begin, no_ack, vec![word("STREAMS"), key, from]].concat(), Tag::None)
            }
            60..67 => writes([vec![word("XACK"), key, name], self.ids()].concat(), Tag::None),
            67..72 => {
                let idle = self.one_of(&["0", "0", "300"]);
                writes([vec![word("XCLAIM"), key, name, consumer, idle], self.ids()].concat(), Tag::None)
            }
            72..79 => {
                let (idle, count) = (self.one_of(&["0", "0", "300"]), self.one_of(&["1", "2", "100"]));
                let words = vec![word("XAUTOCLAIM"), key, name, consumer, idle, word("0"), word("COUNT"), count];
                writes(words, Tag::None)
            }
            79..83 => reads(vec![word("XLEN"), key]),
            83..87 => reads(vec![word("XREAD"), word("COUNT"), word("2"), word("STREAMS"), key, word("0")]),
            87..93 => reads(vec![word("XPENDING"), key, name]),
            93..96 => reads(vec![word("XREVRANGE"), key, word("+"), word("-")]),
            _ => reads(vec![word("XRANGE"), key, word("-"), word("+")]),
        }
    }

    /// Ids that entries may have got lately, where they have none by the clock.
    fn ids(&mut self) -> Words {
        (0..10).map(|_| word(&self.tags.saturating_sub(self.prng.below(80)).to_string())).collect()
    }

    /// A command on parts of a string: the last places make it one in pieces.
    fn text_command(&mut self, group: usize) -> Drawn {
        let (key, _) = self.two_keys(group, Kind::Text);
        let (bit, byte) = (
            self.one_of(&["1", "9", "32767", "32768", "262000", "262143", "300001", "330000"]),
            self.one_of(&["0", "4094", "8190", "36000", "41000"]),
        );
        match self.prng.below(100) {
            0..30 => writes(vec![word("SETBIT"), key, bit, self.one_of(&["0", "1"])], Tag::None),
            30..48 => writes(vec![word("SETRANGE"), key, byte], Tag::Member),
            48..58 => writes(vec![word("APPEND"), key], Tag::Member),
            58..70 => reads(vec![word("GETBIT"), key, bit]),
            70..80 => reads(vec![word("BITCOUNT"), key]),
            80..90 => reads(vec![word("STRLEN"), key]),
            90..97 => reads(vec![word("GETRANGE"), key, byte, word("8200")]),
            _ => reads(vec![word("GET"), key]),
        }
    }

    fn score(&mut self) -> Vec<u8> {
        self.one_of(&["0", "1", "2", "3", "7"])
    }

    fn set_command(&mut self, group: usize) -> Drawn {
        let (key, other) = self.two_keys(group, Kind::Set);
        if self.prng.happens(LARGE_PER_MILLE) {
            let members = (0..LARGE).filter(|_| self.prng.happens(800)).map(member).collect::<Vec<_>>();
            return writes([vec![word("SADD"), key], members].concat(), Tag::Member);
        }
        match self.prng.below(100) {
            0..24 => writes([vec![word("SADD"), key], self.members()].concat(), Tag::Member),
            24..36 => writes([vec![word("SREM"), key], self.members()].concat(), Tag::Member),
            36..44 => writes(vec![word("SPOP"), key], Tag::None),
            44..47 => writes(vec![word("SPOP"), key, self.one_of(&["2", "1000"])], Tag::None),
            47..55 => writes(vec![word("SMOVE"), key, other, self.member()], Tag::None),
            55..62 => {
                let name = self.one_of(&["SUNIONSTORE", "SDIFFSTORE"]);
                let (one, two) = self.two_keys(group, Kind::Set);
                writes(vec![name, key, one, two], Tag::Key)
            }
            62..64 => writes(vec![word("SINTERSTORE"), key.clone(), key, other], Tag::None),
            64..80 => reads(vec![word("SMEMBERS"), key]),
            80..84 => reads(vec![word("SCARD"), key]),
            84..88 => reads(vec![word("SISMEMBER"), key, self.member()]),
            88..90 => reads([vec![word("SMISMEMBER"), key], self.members()].concat()),
            90..92 => reads(vec![word("SRANDMEMBER"), key]),
            92..93 => reads(vec![word("SRANDMEMBER"), key, word("3")]),
            93..99 => reads(vec![self.one_of(&["SUNION", "SINTER", "SDIFF"]), key, other]),
            _ => reads(vec![word("SINTERCARD"), word("2"), key, other]),
        }
    }

    /// Two keys of a group that differ; mostly such as commands on that type have written.
    fn two_keys(&mut self, group: usize, kind: Kind) -> (Vec<u8>, Vec<u8>) {
        let all = KEYS as u64;
        let (first, count) = match kind {
            Kind::Set if self.prng.happens(850) => (0, 2),
            Kind::List if self.prng.happens(850) => (2, 2),
            Kind::SortedSet if self.prng.happens(850) => (4, 2),
            Kind::Stream if self.prng.happens(850) => (6, 2),
            Kind::Text if self.prng.happens(850) => (8, 2),
            _ => (0, all),
        };
        let at = self.prng.below(count);
        let other = (at + 1 + self.prng.below(count - 1)) % count;
        let key = |at: u64| collection_key(group, (first + at) as usize);
        (key(at), key(other))
    }

    /// One of some words.
    fn one_of(&mut self, words: &[&str]) -> Vec<u8> {
        let one: &&str = self.prng.pick(words);
        word(one)
    }

    fn member(&mut self) -> Vec<u8> {
        member(self.prng.below(MEMBERS))
    }

    fn members(&mut self) -> Words {
        let count = self.prng.between(1, 4);
        (0..count).map(|_| self.member()).collect()
    }
}

fn word(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn reads(words: Words) -> Drawn {
    Drawn { words, writes: false, tag: Tag::None }
}

fn writes(words: Words, tag: Tag) -> Drawn {
    Drawn { words, writes: true, tag }
}

fn member(number: u64) -> Vec<u8> {
    format!("m{number}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::any_type::UNKNOWN;
    use crate::collections::{Keyspace, after};

    #[test]
    fn the_model_knows_every_command_that_is_drawn_and_the_log_every_write() {
        let mut draw = Draw::new(2, true, Prng::new(7));
        let mut state = Keyspace::default();
        let unknown = resp::Value::Error(UNKNOWN.to_owned());
        for _ in 0..3000 {
            let request = draw.request(0);
            assert!(request.writes || request.way == Way::Plain, "{request:?}");
            let (tag, digits) = (tag_word(request.tag), format!("{:07}", request.tag).into_bytes());
            let mut ends = [tag, digits].into_iter();
            let has_tag = request.commands[0].last().is_some_and(|word| ends.any(|end| word.ends_with(&end)));
            assert!(request.way != Way::Plain || has_tag == request.writes, "{request:?}");
            for words in &request.commands {
                assert!(after(&state, words, 0, Some(&unknown)).is_empty(), "{words:?}");
                if let Some(next) = after(&state, words, 0, None).pop() {
                    state = next;
                }
            }
        }
    }
}

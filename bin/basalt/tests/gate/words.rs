//! What stands at one place of a request: what is right there, as its name tells, or what is hostile.

use crate::common::Random;
use crate::grammar::{Argument, Kind};
use crate::keys::{key_for, member};
use std::time::{SystemTime, UNIX_EPOCH};

/// Words that some command takes for an option.
const OPTIONS: [&str; 30] = [
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "NX",
    "XX",
    "GT",
    "LT",
    "GET",
    "KEEPTTL",
    "PERSIST",
    "REPLACE",
    "ABSTTL",
    "DB",
    "MATCH",
    "COUNT",
    "TYPE",
    "STORE",
    "LIMIT",
    "KEYS",
    "VALUES",
    "REVERSE",
    "RETURN",
    "IFVERSION",
    "TTL",
    "REQUEST",
    "DURABILITY",
    "WITHVALUES",
    "FIELDS",
    "SLOT",
];

/// Numbers at the ends of what numbers are.
const EXTREMES: [&str; 16] = [
    "0",
    "-1",
    "-2",
    "16383",
    "16384",
    "65536",
    "1048576",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
];

const ID: &[&str] =
    &["0", "0-0", "1-0", "5", "100-0", "100-*", "300-1", "599-0", "18446744073709551615-18446744073709551615"];
const RANK: &[&str] = &["0", "-1", "1", "-3", "100", "-100", "2999", "10000"];
const SCORE: &[&str] = &["-inf", "+inf", "inf", "(5", "0", "100", "(2999", "-1.5", "1e308", "-1e308", "1e-308", "nan"];
const LEX: &[&str] = &["-", "+", "[m1", "(m1", "[m2999", "(", "["];
const SPAN: &[&str] = &["1", "20", "500", "100000", "2000000000"];

/// What arguments of a name may be, in any chapter.
const TEXTS: &[(&str, &[&str])] = &[
    ("group", &["g0", "g1", "g2"]),
    ("consumer", &["c0", "c1", "c2"]),
    ("id", ID),
    ("lastid", ID),
    ("last-id", ID),
    ("max-deleted-id", ID),
    ("threshold", &["0", "1", "100", "1000", "50-0", "300"]),
    ("min-idle-time", &["0", "1", "10000"]),
    ("cursor", &["0", "0", "1", "77", "18446744073709551615"]),
    ("type", &["string", "hash", "list", "set", "zset", "stream"]),
    ("longitude", &["0", "13.361389", "-180", "180", "100.5"]),
    ("latitude", &["0", "38.115556", "85.05", "-85.05", "50.25"]),
    ("radius", &["0", "1", "200", "20000", "1e300"]),
    ("width", &["0", "1", "200", "20000", "1e300"]),
    ("height", &["0", "1", "200", "20000", "1e300"]),
    ("level", &["SYNC", "NOSYNC"]),
    ("acks", &["MAJORITY", "ALL", "NONE"]),
    ("version", &["0", "1", "17", "100000"]),
    ("token", &["0", "1", "17"]),
    ("timeout", &["0.001", "0.01", "0.05"]),
    ("database", &["0", "1", "15"]),
    ("db", &["0", "1", "15", "16"]),
    ("destination-db", &["0", "1", "15", "16"]),
    ("index1", &["0", "1", "15"]),
    ("index2", &["0", "1", "15"]),
    ("operation", &["AND", "OR", "XOR", "NOT", "ONE", "DIFF", "ANDOR", "DIFF1"]),
    ("bit", &["0", "1"]),
    ("by-pattern", &["nosort", "{t}string*", "*", "{t}hash*->m1"]),
    ("get-pattern", &["#", "{t}string*", "{t}hash*->m1"]),
    ("digest", &["0000000000000000", "b6acb9d84a38ff74"]),
    ("protover", &["2", "3", "4"]),
    ("numlocal", &["0", "1"]),
    ("numreplicas", &["0", "1", "2", "3"]),
    ("client-id", &["1", "5", "40", "72057594037927937"]),
    ("slot", &["0", "16383", "16384", "13017"]),
    ("command", &["SET", "EVAL", "XREAD", "ZUNIONSTORE", "KV.EXEC"]),
    ("command-name", &["set", "client|id", "nothing"]),
    ("section", &["all", "everything", "basalt", "memory"]),
    ("parameter", &["*", "max*", "list-max-listpack-size"]),
    ("library-name", &["wrap", "other"]),
    ("library-name-pattern", &["*", "wrap"]),
    ("function", &["wrap_call", "wrap_loop", "nothing"]),
    ("channel", &["ch0", "ch1", "__keyspace@0__:{t}string0"]),
    ("shardchannel", &["{t}ch0", "{t}ch1"]),
    ("message", &["hello"]),
    ("unix-time-seconds", &["1", "4000000000"]),
];

/// What a word is drawn for: the command and its chapter.
pub struct Place<'a> {
    pub command: &'a str,
    pub group: &'a str,
    /// Digests of scripts that the store knows.
    pub digests: &'a [Vec<u8>],
    /// What DUMP has answered.
    pub dumped: &'a [u8],
}

impl Place<'_> {
    /// A word that is right for an argument, mostly.
    pub fn word(&self, argument: &Argument, random: &mut Random) -> Vec<u8> {
        if random.below(25) == 0 {
            return hostile(random, self.dumped);
        }
        match argument.kind {
            Kind::Key => key_for(self.group, random),
            Kind::Pattern => one(random, &["*", "{t}*", "{t}[hs]*", "m1*", "m?", "*9*", "ch*"]),
            Kind::UnixTime => time(&argument.name, random),
            _ => self.named(&argument.name, argument.kind, random),
        }
    }

    fn named(&self, name: &str, kind: Kind, random: &mut Random) -> Vec<u8> {
        match name {
            "start" | "end" | "stop" | "min" | "max" => {
                let by = random.below(3);
                one(random, self.bounds(by))
            }
            "milliseconds" if self.group == "stream" => one(random, &["1", "5", "20"]),
            "seconds" | "milliseconds" | "ms" | "ttl" | "idle" => one(random, SPAN),
            "field" | "member" | "member1" | "member2" | "element" | "pivot" => member(random),
            "value" | "arg" => value(random),
            "script" => crate::scripts::any(random).as_bytes().to_vec(),
            "function-code" => crate::scripts::library(),
            "sha1" if !self.digests.is_empty() => random.pick(self.digests).clone(),
            "serialized-value" => damaged(random, self.dumped),
            "offset" if self.group == "bitmap" => one(random, &["0", "7", "100", "1048576", "8388608"]),
            "offset" => one(random, &["0", "1", "100", "100000"]),
            _ => match TEXTS.iter().find(|(known, _)| *known == name) {
                Some((_, choices)) => one(random, choices),
                None if kind == Kind::String => member(random),
                None if kind == Kind::Double => one(random, SCORE),
                None => number(random),
            },
        }
    }

    /// The ends of a range.
    fn bounds(&self, by: u64) -> &'static [&'static str] {
        match self.group {
            "stream" if by == 0 => &["-", "+", "(1-0", "(599-0"],
            "stream" => ID,
            "sorted-set" if self.command.contains("LEX") => LEX,
            "sorted-set" if self.command.contains("SCORE") || self.command.contains("COUNT") => SCORE,
            "sorted-set" => [RANK, SCORE, LEX][by as usize],
            _ => RANK,
        }
    }
}

fn one(random: &mut Random, words: &[&str]) -> Vec<u8> {
    random.pick(words).as_bytes().to_vec()
}

/// A small number, mostly.
fn number(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => one(random, &EXTREMES),
        1 => one(random, &["-1", "-5", "0"]),
        2 => random.below(5000).to_string().into_bytes(),
        _ => (1 + random.below(20)).to_string().into_bytes(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => Vec::new(),
        1 => random.bytes(40_000),
        2 | 3 => number(random),
        4 => one(random, &["1.5", "1e308", "-1e308", "inf", "nan", "9223372036854775807"]),
        _ => member(random),
    }
}

/// A time of the wall clock, in the unit that the name tells.
fn time(name: &str, random: &mut Random) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let unit = if name.contains("milli") { now.as_millis() } else { u128::from(now.as_secs()) };
    match random.below(5) {
        0 => one(random, &EXTREMES),
        1 => (unit - 1).to_string().into_bytes(),
        _ => (unit + u128::from(*random.pick(&[1u64, 2, 100, 100_000]))).to_string().into_bytes(),
    }
}

/// What DUMP has answered, damaged somewhere at times.
fn damaged(random: &mut Random, dumped: &[u8]) -> Vec<u8> {
    let mut dumped = dumped.to_vec();
    if !dumped.is_empty() && random.below(2) == 0 {
        let at = random.below(dumped.len() as u64) as usize;
        dumped[at] ^= 1 << random.below(8);
    }
    dumped
}

/// What a client might send where something else is expected.
pub fn hostile(random: &mut Random, dumped: &[u8]) -> Vec<u8> {
    match random.below(16) {
        0 => Vec::new(),
        1..=3 => one(random, &OPTIONS),
        4 | 5 => one(random, &EXTREMES),
        6 => one(random, &["nan", "inf", "-inf", "1e400", "0x10", " 1", "1 ", "+1", "1.5"]),
        7 => one(random, &["*", "[", "\\", "[^", "{", "}", "{}", "(", "-", "+", "[a", "0-{t}-0"]),
        8 => vec![b'k'; *random.pick(&[31_999, 32_000, 32_001, 65_534, 65_535, 65_536])],
        9 => {
            let length = random.below(64) as usize;
            random.bytes(length)
        }
        10 => damaged(random, dumped),
        11 => vec![b'v'; random.below(100_000) as usize],
        _ => key_for("", random),
    }
}

//! Seeded random commands to Basalt and to redis-server: every answer must be the same, to the byte.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

#[path = "differential/commands.rs"]
mod commands;
mod common;

use commands::{FAMILIES, GENERAL};
use common::{Connection, Dir, Random, Server, Setup, Value, installed, number, skip};
use std::time::{Duration, Instant};

const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "7",
    "-3",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "4611686018427387904",
    "abc",
    "",
    "1.5",
    " 1",
    "1 ",
    "01",
    "+1",
    "-0",
    "0x10",
    "1e3",
    "999999999999999999999999",
];
const FLOATS: &[&str] = &[
    "0",
    "1",
    "-1.5",
    "0.1",
    "0.2",
    "1e3",
    "1e-3",
    "3.0e10",
    "123456789.123456789",
    "inf",
    "-inf",
    "nan",
    "abc",
    "",
    " 1",
    "1 ",
    "1e17",
    "1e400",
    "1e-400",
    "0.000001",
    "5e-324",
    "-0",
    ".5",
    "5.",
    "0x1p3",
    "1e",
    "1,5",
    "17976931348623157",
    "3.3",
];
const TTLS: &[&str] =
    &["100000", "999999", "0", "-1", "-100000", "9223372036854775807", "99999999999", "abc", "", "10.5"];
const TIMES: &[&str] = &["1", "0", "-1", "33177117420", "33177117420000", "9223372036854775807", "abc"];
const OFFSETS: &[&str] = &["0", "1", "5", "40", "-1", "abc", "99999999999", "536870912"];
const OPTIONS: &[&str] = &["NX", "XX", "GET", "KEEPTTL", "nx", "xx", "FOO", "EX", "PX", "PERSIST"];
const CONDITIONS: &[&str] = &["NX", "XX", "GT", "LT", "nx", "FOO"];

const SCORES: &[&str] =
    &["0", "1", "1", "2", "2.5", "-3", "1e10", "0.1", "-0.1", "3.0", "-0", "inf", "-inf", "nan", "abc"];
const SCORE_BOUNDS: &[&str] = &["-inf", "+inf", "0", "(0", "1", "(1", "2.5", "(2.5", "-3", "1e10", "abc", "("];
const MEMBER_BOUNDS: &[&str] = &["-", "+", "[m1", "(m1", "[m3", "(m3", "[m2", "[", "m1"];
const SIDES: &[&str] = &["LEFT", "RIGHT", "left", "right", "LEFT", "RIGHT", "MIDDLE"];
const INDEXES: &[&str] = &["0", "1", "2", "5", "15", "16", "17", "100", "-1", "-2", "-6", "-17", "-100", "abc"];
const COUNTS: &[&str] = &["0", "1", "1", "2", "3", "10", "16", "50", "-1", "abc"];
const BITS: &[&str] = &["0", "1", "7", "8", "15", "63", "100", "1000", "4000", "-1", "abc"];

/// The settings that say from which size on a collection is stored in another way, and what seeds set them to in turn: low
/// ones, Redis's own, and those with which hardly anything is small.
const SIZES: &[(&str, [&str; 3])] = &[
    ("hash-max-listpack-entries", ["16", "128", "1"]),
    ("set-max-intset-entries", ["16", "512", "1"]),
    ("list-max-listpack-size", ["8", "-2", "1"]),
    ("stream-node-max-entries", ["4", "100", "1"]),
];

/// What a seed sends.
struct Sender {
    random: Random,
    /// Most commands are about one type.
    family: &'static [&'static str],
    /// How many fields or members there are: few, so that requests meet, or so many that collections are large.
    names: u64,
    /// Which of `SIZES` are set.
    sizes: usize,
}

impl Sender {
    fn of(seed: u64) -> Self {
        let family = FAMILIES[(seed / 2 % FAMILIES.len() as u64) as usize];
        let names = [8, 40, 400][(seed / 14 % 3) as usize];
        Self { random: Random::new(seed), family, names, sizes: (seed / 42 % 3) as usize }
    }

    /// One request, filled in.
    fn request(&mut self) -> Vec<Vec<u8>> {
        let template = loop {
            let other = self.random.below(FAMILIES.len() as u64) as usize;
            let commands = match self.random.below(20) {
                0 => FAMILIES[other],
                1..=4 => GENERAL,
                _ => self.family,
            };
            let template = self.random.pick(commands);
            // Redis answers HSCAN and the like of a large collection in an order, and with a cursor, of its own.
            if self.names < 16 || !template.contains("SCAN") {
                break template;
            }
        };
        let mut words = Vec::new();
        for word in template.split(' ') {
            let (count, parts): (u64, &[&str]) = match word {
                "M" => (self.names / 4, &["H", "V"]),
                "N" => (self.names / 8, &["H"]),
                "P" => (self.names / 3, &["X"]),
                "Q" => (self.names / 3, &["Y"]),
                "W" => (self.names / 3, &["1", "X"]),
                _ => (1, &[word]),
            };
            (0..count.max(1)).for_each(|_| parts.iter().for_each(|part| words.push(self.fill(part))));
        }
        words
    }

    fn fill(&mut self, word: &str) -> Vec<u8> {
        // What stands before or behind a word of the table stays.
        if let Some(rest) = word.strip_prefix(['(', '#']).filter(|rest| rest.len() == 1) {
            return [&word.as_bytes()[..1], &self.fill(rest)].concat();
        }
        if let Some(first) = word.strip_suffix("-*") {
            return [&self.fill(first)[..], b"-*"].concat();
        }
        let names = self.names;
        let random = &mut self.random;
        let text = |choices: &[&str], random: &mut Random| random.pick(choices).as_bytes().to_vec();
        match word {
            "K" => format!("{{d}}k{}", random.below(6)).into_bytes(),
            "H" => format!("f{}", random.below(names)).into_bytes(),
            "X" => match random.below(40) {
                0 => Vec::new(),
                1 => vec![b'y'; 60 + random.below(10) as usize],
                2 => text(INTEGERS, random),
                _ => format!("m{}", random.below(names)).into_bytes(),
            },
            "Y" => (random.below(names) as i64 - 5).to_string().into_bytes(),
            "D" => match random.below(12) {
                0 => b"x".to_vec(),
                1 => b"0-0".to_vec(),
                2 => random.below(30).to_string().into_bytes(),
                _ => format!("{}-{}", random.below(30), random.below(3)).into_bytes(),
            },
            "Z" => text(SCORES, random),
            "B" => text(SCORE_BOUNDS, random),
            "R" => text(MEMBER_BOUNDS, random),
            "L" => text(SIDES, random),
            "J" => text(INDEXES, random),
            "C" => text(COUNTS, random),
            "G" => text(BITS, random),
            "I" => text(INTEGERS, random),
            "F" => text(FLOATS, random),
            "T" => text(TTLS, random),
            "A" => text(TIMES, random),
            "S" => text(OFFSETS, random),
            "O" => text(OPTIONS, random),
            "E" => text(CONDITIONS, random),
            "V" => match random.below(6) {
                0 => text(INTEGERS, random),
                1 => text(FLOATS, random),
                2 => b"a\r\nb\0c\xff".to_vec(),
                3 => vec![b'x'; random.below(300) as usize],
                _ => format!("value{}", random.below(100)).into_bytes(),
            },
            literal => literal.as_bytes().to_vec(),
        }
    }
}

/// Minus zero as a score: a sorted set that was large once shows it in Redis, and here one that is large.
fn one_zero(name: &[u8], value: Value) -> Value {
    if !name.starts_with(b"Z") && !name.starts_with(b"BZ") {
        return value;
    }
    let all = |items: Vec<Value>| items.into_iter().map(|item| one_zero(name, item)).collect();
    match value {
        Value::Bulk(score) if score == b"-0" => Value::Bulk(b"0".to_vec()),
        Value::Other(kind, score) if score == b"-0" => Value::Other(kind, b"0".to_vec()),
        Value::Array(items) => Value::Array(all(items)),
        value => value,
    }
}

/// Answers whose order is a matter of chance are put in order, by the request's name.
fn ordered(name: &[u8], value: Value) -> Value {
    let pairs = |items: Vec<Value>| {
        let mut pairs: Vec<Vec<Value>> = items.chunks(2).map(<[Value]>::to_vec).collect();
        pairs.sort_by_key(|pair| format!("{pair:?}"));
        pairs.concat()
    };
    let sorted = |mut items: Vec<Value>| {
        items.sort_by_key(|item| format!("{item:?}"));
        items
    };
    match (name, one_zero(name, value)) {
        (b"HGETALL", Value::Array(items)) => Value::Array(pairs(items)),
        (b"HGETALL", Value::Map(items)) => Value::Map(pairs(items)),
        // Which ones is a matter of chance, but not how many.
        (b"RANDOM", Value::Array(items)) => Value::Int(items.len() as i64),
        (b"RANDOM", Value::Bulk(_)) => Value::Simple("one".to_owned()),
        // Fields and values: of RESP3 two by two already.
        (b"HRANDFIELD WITHVALUES" | b"ZRANDMEMBER WITHVALUES", Value::Array(items)) => match items.first() {
            Some(Value::Array(_)) => Value::Array(sorted(items)),
            _ => Value::Array(pairs(items)),
        },
        (
            b"HKEYS" | b"HVALS" | b"KEYS" | b"SMEMBERS" | b"SUNION" | b"SINTER" | b"SDIFF" | b"SPOP" | b"SRANDMEMBER"
            | b"HRANDFIELD" | b"ZRANDMEMBER",
            Value::Array(items) | Value::Set(items),
        ) => Value::Array(sorted(items)),
        (b"HSCAN" | b"ZSCAN" | b"SSCAN" | b"SCAN", Value::Array(items)) => match &items[..] {
            [cursor, Value::Array(found)] if name == b"SSCAN" || name == b"SCAN" => {
                Value::Array(vec![cursor.clone(), Value::Array(sorted(found.clone()))])
            }
            [cursor, Value::Array(found)] => Value::Array(vec![cursor.clone(), Value::Array(pairs(found.clone()))]),
            _ => Value::Array(items),
        },
        (b"XPENDING" | b"XINFO", value) => timeless(value),
        (_, value) => value,
    }
}

/// What XPENDING and XINFO tell, without times and what says how rows are kept. Redis 7.0 does not tell `inactive`, and counts otherwise than
/// 7.4.3 what a group has read of a stream that was trimmed.
fn timeless(value: Value) -> Value {
    const LEFT_OUT: [&[u8]; 8] = [
        b"idle",
        b"inactive",
        b"seen-time",
        b"active-time",
        b"radix-tree-keys",
        b"radix-tree-nodes",
        b"entries-read",
        b"lag",
    ];
    let left_out = |name: &Value| matches!(name, Value::Bulk(name) if LEFT_OUT.contains(&&name[..]));
    let all = |items: Vec<Value>| items.into_iter().map(timeless).collect::<Vec<_>>();
    let facts = |items: Vec<Value>| {
        let told = items.chunks(2).filter(|fact| !left_out(&fact[0]));
        told.flatten().cloned().map(timeless).collect::<Vec<_>>()
    };
    match value {
        Value::Map(items) => Value::Map(facts(items)),
        Value::Array(items) if items.len() % 2 == 0 && items.iter().any(left_out) => Value::Array(facts(items)),
        Value::Array(items) => match &items[..] {
            // An entry that is pending: how long ago it was delivered.
            [id @ Value::Bulk(_), owner @ Value::Bulk(_), Value::Int(_), times @ Value::Int(_)] => {
                Value::Array(vec![id.clone(), owner.clone(), times.clone()])
            }
            [id @ Value::Bulk(_), Value::Int(_), times @ Value::Int(_)] => {
                Value::Array(vec![id.clone(), times.clone()])
            }
            _ => Value::Array(all(items)),
        },
        value => value,
    }
}

/// The word by which the answer to a request is put in order.
fn order_name(request: &[Vec<u8>]) -> Vec<u8> {
    let all = |word: &Vec<u8>| word == b"100000";
    match &request[0][..] {
        b"SRANDMEMBER" | b"HRANDFIELD" | b"ZRANDMEMBER" if !request.get(2).is_some_and(all) => b"RANDOM".to_vec(),
        name @ (b"HRANDFIELD" | b"ZRANDMEMBER") if request.len() == 4 => [name, b" WITHVALUES"].concat(),
        name => name.to_vec(),
    }
}

/// Both servers' clocks are the same one, but not the moment: a remaining time may differ by one second.
fn same(name: &[u8], ours: &Value, theirs: &Value) -> bool {
    match (name, ours, theirs) {
        (b"TTL", Value::Int(a), Value::Int(b)) => a == b || (*a > 0 && *b > 0 && a.abs_diff(*b) <= 1),
        // The deadline was computed from the moment of the command.
        (b"EXPIRETIME" | b"PEXPIRETIME", Value::Int(a), Value::Int(b)) => {
            a == b || (*a > 0 && *b > 0 && a.abs_diff(*b) <= 2_000)
        }
        // Redis looks at an old `errno`: a number that was too large for an earlier command is an error here.
        (b"SORT" | b"SORT_RO", _, Value::Error(why)) if why.contains("converted into double") => true,
        // A transaction that is wrong in two ways is refused; which of them is named may differ.
        (b"EXEC", Value::Error(_), Value::Error(_)) => true,
        _ => ours == theirs,
    }
}

fn ask(server: &mut Connection, request: &[Vec<u8>]) -> Result<Value, String> {
    server.try_call(request).map_err(|error| error.to_string())
}

/// What a scan finds from the first cursor to the last, each once and in order.
fn walk(server: &mut Connection, scan: &str) -> Result<Vec<String>, String> {
    let (mut found, mut cursor) = (Vec::new(), b"0".to_vec());
    loop {
        let mut request: Vec<Vec<u8>> = scan.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let at = if request[0] == b"SCAN" { 1 } else { 2 };
        request.insert(at, cursor);
        let answer = ask(server, &request)?;
        let Value::Array(parts) = &answer else { return Err(format!("{scan}: {answer:?}")) };
        let [Value::Bulk(next), Value::Array(items)] = &parts[..] else { return Err(format!("{scan}: {answer:?}")) };
        let width = if scan.starts_with("HSCAN") || scan.starts_with("ZSCAN") { 2 } else { 1 };
        let shown = |item: &[Value]| format!("{:?}", one_zero(b"ZSCAN", Value::Array(item.to_vec())));
        found.extend(items.chunks(width).map(shown));
        if next == b"0" {
            found.sort();
            found.dedup();
            return Ok(found);
        }
        cursor = next.clone();
    }
}

/// One connection's history on both servers.
struct Pair {
    ours: Connection,
    theirs: Connection,
    history: Vec<String>,
    /// The names of what MULTI has queued: EXEC answers for each.
    queued: Option<Vec<Vec<u8>>>,
}

impl Pair {
    fn call(&mut self, request: &[Vec<u8>]) -> Result<(), String> {
        let name = order_name(request);
        // A key that is absent at WATCH and at EXEC has the same version, 0, whatever it was between; Redis tells.
        if self.queued.is_none() && name == b"WATCH" {
            self.call(&[b"SETNX".to_vec(), request[1].clone(), b"watched".to_vec()])?;
        }
        // In Basalt a transaction is one shard's: it holds no command over the whole store. And
        // which of two reasons to refuse is named, another slot or a watched key, may differ.
        let other_slot = request.iter().any(|word| word == b"{b}other");
        if self.queued.is_some() && (name == b"KEYS" || name == b"SCAN" || name == b"XSETID" || other_slot) {
            return Ok(());
        }
        let ours = self.ours.try_call(request).map_err(|error| format!("basalt: {error}"))?;
        let theirs = self.theirs.try_call(request).map_err(|error| format!("redis: {error}"))?;
        // As in Redis 7.2; 7.0 goes back behind entries that were deleted, and the key is another one from there on.
        let is_later = |text: &str| text.ends_with("smaller than current max_deleted_entry_id");
        if theirs == Value::ok() && matches!(&ours, Value::Error(text) if is_later(text)) {
            return self.call(&[b"DEL".to_vec(), request[1].clone()]);
        }
        let shown: Vec<String> = request.iter().map(|word| format!("\"{}\"", word.escape_ascii())).collect();
        self.history.push(format!("{}  →  {theirs:?}", shown.join(" ")));
        if !self.equal(&name, ours.clone(), theirs.clone()) {
            let tail = self.history.len().saturating_sub(25);
            return Err(format!("{}\nbut basalt: {ours:?}", self.history[tail..].join("\n")));
        }
        self.follow(&name, &theirs);
        Ok(())
    }

    /// Compares what scans find from beginning to end.
    fn scan(&mut self) -> Result<(), String> {
        let keys = (0..6).map(|n| format!("{{d}}k{n}"));
        let mut scans = vec!["SCAN COUNT 2".to_owned()];
        for key in keys {
            match ask(&mut self.theirs, &[b"TYPE".to_vec(), key.clone().into_bytes()])? {
                Value::Simple(ty) if ty == "hash" => scans.push(format!("HSCAN {key} COUNT 7")),
                Value::Simple(ty) if ty == "set" => scans.push(format!("SSCAN {key} COUNT 7 MATCH *1*")),
                Value::Simple(ty) if ty == "zset" => scans.push(format!("ZSCAN {key} COUNT 7")),
                _ => {}
            }
        }
        for scan in scans {
            let (ours, theirs) = (walk(&mut self.ours, &scan)?, walk(&mut self.theirs, &scan)?);
            if ours != theirs {
                return Err(format!("{scan}\n{theirs:?}\nbut basalt: {ours:?}"));
            }
        }
        Ok(())
    }

    /// Has each server dump its keys for the other: what is restored is the same again.
    fn exchange(&mut self) -> Result<(), String> {
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        for key in (0..6).map(|n| format!("{{d}}k{n}")) {
            let read = match self.theirs.call(&format!("TYPE {key}")) {
                Value::Simple(ty) => match &ty[..] {
                    "string" => "GET {d}copy",
                    "hash" => "HGETALL {d}copy",
                    "list" => "LRANGE {d}copy 0 -1",
                    "set" => "SMEMBERS {d}copy",
                    "zset" => "ZRANGE {d}copy 0 -1 WITHSCORES",
                    "stream" => "XINFO STREAM {d}copy FULL COUNT 0",
                    _ => continue,
                },
                other => return Err(format!("TYPE {key}: {other:?}")),
            };
            let dump = words(&format!("DUMP {key}"));
            let dumps = (ask(&mut self.ours, &dump)?, ask(&mut self.theirs, &dump)?);
            let (Value::Bulk(of_ours), Value::Bulk(of_theirs)) = dumps else { return Err(format!("{dumps:?}")) };
            let mut restore = words("RESTORE {d}copy 0 dump REPLACE");
            for (server, dump) in [(&mut self.ours, of_theirs), (&mut self.theirs, of_ours)] {
                restore[3] = dump;
                let restored = ask(server, &restore)?;
                if restored != Value::ok() {
                    return Err(format!("{key} of the other: {restored:?}"));
                }
            }
            self.call(&words(read))?;
        }
        Ok(())
    }

    fn equal(&self, name: &[u8], ours: Value, theirs: Value) -> bool {
        if let (b"EXEC", Some(names), Value::Array(a), Value::Array(b)) = (name, &self.queued, &ours, &theirs) {
            return a.len() == b.len()
                && names.iter().zip(a.iter().zip(b)).all(|(name, (a, b))| {
                    let (a, b) = (ordered(name, a.clone()), ordered(name, b.clone()));
                    same(name, &a, &b)
                });
        }
        same(name, &ordered(name, ours), &ordered(name, theirs))
    }

    fn follow(&mut self, name: &[u8], answer: &Value) {
        match (name, &mut self.queued) {
            (b"MULTI", None) => self.queued = Some(Vec::new()),
            (b"EXEC" | b"DISCARD", _) => self.queued = None,
            (_, Some(names)) if *answer == Value::Simple("QUEUED".to_owned()) => names.push(name.to_vec()),
            _ => {}
        }
    }
}

#[test]
fn random_commands_answer_as_redis_does() {
    if !installed("redis-server") {
        skip("redis", "redis-server is not installed");
        return;
    }
    let dir = Dir::new("differential");
    // A Redis Cluster has one database.
    let setup = Setup::new(&dir.join("ours")).with("--durability", "nosync").with("--set", "cluster-databases=1");
    let ours = Server::start(&setup);
    let theirs = Server::start_peer(&Setup::new(&dir.join("theirs")));
    let first = number("BASALT_DIFFERENTIAL_SEED", 1);
    let (seeds, seconds) = (number("BASALT_DIFFERENTIAL_SEEDS", 28), number("BASALT_DIFFERENTIAL_SECONDS", 0));
    let begun = Instant::now();
    let mut failures = Vec::new();
    for seed in first.. {
        if seed - first >= seeds && begun.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        let mut sender = Sender::of(seed);
        for (name, values) in SIZES {
            let set = format!("CONFIG SET {name} {}", values[sender.sizes]);
            for server in [&ours, &theirs] {
                assert_eq!(server.connect().call(&set), Value::ok());
            }
        }
        let (ours, theirs) = (ours.connect(), theirs.connect());
        let mut pair = Pair { ours, theirs, history: Vec::new(), queued: None };
        let begin = if seed % 2 == 0 { "RESET" } else { "HELLO 3" };
        pair.ours.call(begin);
        pair.theirs.call(begin);
        pair.call(&[b"FLUSHALL".to_vec()]).unwrap();
        let outcome = (0..1_500)
            .try_for_each(|_| pair.call(&sender.request()))
            .and_then(|()| pair.call(&[b"DISCARD".to_vec()]))
            .and_then(|()| pair.scan())
            .and_then(|()| pair.exchange());
        failures.extend(outcome.err().map(|why| format!("BASALT_DIFFERENTIAL_SEED={seed}\n{why}")));
    }
    assert!(failures.is_empty(), "{} seeds:\n{}", failures.len(), failures.join("\n\n"));
}

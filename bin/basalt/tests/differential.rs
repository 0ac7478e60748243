//! Seeded random commands to Basalt and to redis-server: every answer must be the same, to the byte.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Random, Server, Setup, Value, installed, number, skip};

/// What is sent. `K` is a key, `V` a value, `H` a field, `I` an integer or what looks like one, `F` a float or what
/// looks like one, `T` a time to live that is over at once or not soon, `A` a time in the past or the far future,
/// `M` many fields with values, `O` and `E` an option or a wrong one; all else stands for itself. Left out are commands whose answer is a matter of
/// chance or of the moment.
const COMMANDS: &[&str] = &[
    "SET K V",
    "SET K V",
    "SET K I",
    "SET K V O",
    "SET K V O O",
    "SET K V EX T",
    "SET K V PX T",
    "SET K V PXAT A GET",
    "SET K V EXAT A",
    "SET K V KEEPTTL GET",
    "SET K F",
    "GET K",
    "GET K",
    "SETNX K V",
    "SETEX K T V",
    "PSETEX K T V",
    "GETSET K V",
    "GETDEL K",
    "GETEX K",
    "GETEX K PERSIST",
    "GETEX K EX T",
    "GETEX K PXAT A",
    "GETEX K O",
    "MGET K K K",
    "MSET K V K V",
    "MSET K V K",
    "MSETNX K V K V",
    "APPEND K V",
    "STRLEN K",
    "GETRANGE K I I",
    "SUBSTR K I I",
    "SETRANGE K S V",
    "INCR K",
    "DECR K",
    "INCRBY K I",
    "DECRBY K I",
    "INCRBYFLOAT K F",
    "INCRBYFLOAT K F",
    "LCS K K",
    "LCS K K LEN",
    "LCS K K IDX",
    "LCS K K IDX WITHMATCHLEN MINMATCHLEN I",
    "HSET K H V",
    "HSET K H I H V",
    "HSET K H F",
    "HSET K H",
    "HSET K M",
    "HDEL K N",
    "HSETNX K H V",
    "HMSET K H V H V",
    "HGET K H",
    "HMGET K H H H",
    "HGETALL K",
    "HDEL K H",
    "HDEL K H H",
    "HEXISTS K H",
    "HLEN K",
    "HKEYS K",
    "HVALS K",
    "HSTRLEN K H",
    "HINCRBY K H I",
    "HINCRBYFLOAT K H F",
    "HSCAN K 0",
    "HSCAN K 0 COUNT 1000 MATCH f*",
    "DEL K",
    "DEL K K",
    "UNLINK K",
    "EXISTS K K",
    "TYPE K",
    "TTL K",
    "PERSIST K",
    "EXPIRE K T",
    "EXPIRE K T E",
    "EXPIRE K T E E",
    "PEXPIRE K T",
    "EXPIREAT K A",
    "PEXPIREAT K A E",
    "EXPIRETIME K",
    "PEXPIRETIME K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K",
    "COPY K K REPLACE",
    "TOUCH K K",
    "KEYS *",
    "KEYS {d}k[0-3]",
    "OBJECT ENCODING {d}missing",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH K",
    "UNWATCH",
    "GET",
    "HGET K",
    "FOO K",
    "GET other",
    "MGET K other",
    "RENAME K other",
    "PING",
    "PING V",
    "ECHO V",
    "SELECT I",
    "CLUSTER KEYSLOT K",
    "COMMAND GETKEYS SET K V",
    "BITCOUNTX K",
    "SETRANGE K I V",
];

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

/// How many fields a hash may have: few, so that requests meet, or so many that it spreads.
type Fields = u64;

/// One request, filled in.
fn request(random: &mut Random, fields: Fields) -> Vec<Vec<u8>> {
    let template = loop {
        let template = random.pick(COMMANDS);
        // Redis answers HSCAN of a large hash in an order, and with a cursor, of its own.
        if fields < 100 || !template.starts_with("HSCAN") {
            break template;
        }
    };
    let mut words = Vec::new();
    for word in template.split(' ') {
        match word {
            "M" => (0..fields / 4).for_each(|_| words.extend(["H", "V"].map(|part| fill(part, random, fields)))),
            "N" => (0..fields / 8).for_each(|_| words.push(fill("H", random, fields))),
            word => words.push(fill(word, random, fields)),
        }
    }
    words
}

fn fill(word: &str, random: &mut Random, fields: Fields) -> Vec<u8> {
    let text = |choices: &[&str], random: &mut Random| random.pick(choices).as_bytes().to_vec();
    match word {
        "K" => format!("{{d}}k{}", random.below(6)).into_bytes(),
        "H" => format!("f{}", random.below(fields)).into_bytes(),
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
    match (name, value) {
        (b"HGETALL", Value::Array(items)) => Value::Array(pairs(items)),
        (b"HGETALL", Value::Map(items)) => Value::Map(pairs(items)),
        (b"HKEYS" | b"HVALS" | b"KEYS", Value::Array(items)) => Value::Array(sorted(items)),
        (b"HSCAN", Value::Array(items)) => match &items[..] {
            [cursor, Value::Array(found)] => Value::Array(vec![cursor.clone(), Value::Array(pairs(found.clone()))]),
            _ => Value::Array(items),
        },
        (_, value) => value,
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
        // A transaction that is wrong in two ways is refused; which of them is named may differ.
        (b"EXEC", Value::Error(_), Value::Error(_)) => true,
        _ => ours == theirs,
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
        let name = request[0].clone();
        // A key that is absent at WATCH and at EXEC has the same version, 0, whatever it was between; Redis tells.
        if self.queued.is_none() && name == b"WATCH" {
            self.call(&[b"SETNX".to_vec(), request[1].clone(), b"watched".to_vec()])?;
        }
        // In Basalt a transaction is one shard's: it holds no command over the whole store. And
        // which of two reasons to refuse is named, another slot or a watched key, may differ.
        let other_slot = request.iter().any(|word| word == b"other");
        if self.queued.is_some() && (name == b"KEYS" || other_slot) {
            return Ok(());
        }
        let ours = self.ours.try_call(request).map_err(|error| format!("basalt: {error}"))?;
        let theirs = self.theirs.try_call(request).map_err(|error| format!("redis: {error}"))?;
        let shown: Vec<String> = request.iter().map(|word| format!("\"{}\"", word.escape_ascii())).collect();
        self.history.push(format!("{}  →  {theirs:?}", shown.join(" ")));
        if !self.equal(&name, ours.clone(), theirs.clone()) {
            let tail = self.history.len().saturating_sub(25);
            return Err(format!("{}\nbut basalt: {ours:?}", self.history[tail..].join("\n")));
        }
        self.follow(&name, &theirs);
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
    let ours = Server::start(&Setup::new(&dir.join("ours")).with("--durability", "nosync"));
    let theirs = Server::start_peer(&Setup::new(&dir.join("theirs")));
    let first = number("BASALT_DIFFERENTIAL_SEED", 1);
    let mut failures = Vec::new();
    for seed in first..first + number("BASALT_DIFFERENTIAL_SEEDS", 8) {
        let mut random = Random::new(seed);
        let (ours, theirs) = (ours.connect(), theirs.connect());
        let mut pair = Pair { ours, theirs, history: Vec::new(), queued: None };
        let begin = if seed % 2 == 0 { "RESET" } else { "HELLO 3" };
        pair.ours.call(begin);
        pair.theirs.call(begin);
        pair.call(&[b"FLUSHALL".to_vec()]).unwrap();
        let fields = if seed % 4 == 3 { 400 } else { 8 };
        let outcome = (0..1_500).try_for_each(|_| pair.call(&request(&mut random, fields)));
        failures.extend(outcome.err().map(|why| format!("BASALT_DIFFERENTIAL_SEED={seed}\n{why}")));
    }
    assert!(failures.is_empty(), "{} seeds:\n{}", failures.len(), failures.join("\n\n"));
}

//! Hostile clients against three nodes: random commands with hostile arguments, in every wrapping that there is. Whatever
//! they send, no node ends, all replicas stay alike, and what they left behind is flushed, read and replayed.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Nodes, Random, Value, announce, number};
use std::thread;
use std::time::{Duration, Instant};

/// Commands that are told by other means than their first arguments, or that end the test.
const LEFT_OUT: [&str; 12] = [
    "SHUTDOWN",
    "QUIT",
    "RESET",
    "MONITOR",
    "DEBUG",
    "CLIENT",
    "CONFIG",
    "KV.ADMIN",
    "KV.BACKUP",
    "WAIT",
    "WAITAOF",
    "AUTH",
];

/// Words that some command takes for an option.
const WORDS: [&str; 30] = [
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

/// What a client might send where something else is expected.
fn hostile(random: &mut Random, dumped: &[u8]) -> Vec<u8> {
    let numbers =
        ["0", "1", "-1", "16383", "16384", "9223372036854775807", "-9223372036854775808", "18446744073709551615"];
    match random.below(16) {
        0 => Vec::new(),
        1..=3 => random.pick(&WORDS).as_bytes().to_vec(),
        4 | 5 => random.pick(&numbers).as_bytes().to_vec(),
        6 => random.pick(&["nan", "inf", "-inf", "1e400", "0x10", " 1", "1 ", "+1", "1.5"]).as_bytes().to_vec(),
        7 => random.pick(&["*", "[", "\\", "[^", "{", "}", "{}", "(", "-", "+", "[a", "0-{t}-0"]).as_bytes().to_vec(),
        8 => vec![b'k'; *random.pick(&[31_999, 32_000, 32_001, 65_534, 65_535, 65_536])],
        9 => {
            let length = random.below(64) as usize;
            random.bytes(length)
        }
        10 => {
            // What DUMP has answered, damaged somewhere.
            let mut dumped = dumped.to_vec();
            if !dumped.is_empty() && random.below(2) == 0 {
                let at = random.below(dumped.len() as u64) as usize;
                dumped[at] ^= 1 << random.below(8);
            }
            dumped
        }
        11 => vec![b'v'; random.below(100_000) as usize],
        _ => key(random),
    }
}

/// One of a few keys, most of them of one slot.
fn key(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => format!("other{}", random.below(4)).into_bytes(),
        1 => [&b"{t}"[..], &vec![b'l'; *random.pick(&[31_997, 31_998, 65_533])]].concat(),
        _ => format!("{{t}}{}", random.below(6)).into_bytes(),
    }
}

/// A command of about the right length, whose arguments are right, or nearly, or not at all.
fn command(random: &mut Random, names: &[(String, i64)], dumped: &[u8]) -> Vec<Vec<u8>> {
    let (name, arity) = random.pick(names);
    let mut arguments: Vec<Vec<u8>> = name.split('|').map(|word| word.as_bytes().to_vec()).collect();
    let least = arity.unsigned_abs() as usize;
    let more = if *arity < 0 { random.below(5) as usize } else { usize::from(random.below(20) == 0) };
    while arguments.len() < least + more {
        // Most commands begin with a key.
        let wanted = arguments.len() == 1 && random.below(4) > 0;
        arguments.push(if wanted { key(random) } else { hostile(random, dumped) });
    }
    arguments
}

/// KV.EXEC with operations that are about right.
fn exec(random: &mut Random, dumped: &[u8]) -> Vec<Vec<u8>> {
    let operations = 1 + random.below(4);
    let mut arguments = vec![b"KV.EXEC".to_vec(), operations.to_string().into_bytes()];
    for _ in 0..operations {
        let mut words = vec![random.pick(&["GET", "PUT", "DEL", "CHECK"]).as_bytes().to_vec(), key(random)];
        (0..random.below(4)).for_each(|_| words.push(hostile(random, dumped)));
        arguments.push(words.len().to_string().into_bytes());
        arguments.extend(words);
    }
    arguments
}

/// A command of few bytes, or of small arguments, that makes a node read and write much: strings that grow, sets that are united,
/// hundreds of members.
fn heavy(random: &mut Random) -> Vec<Vec<u8>> {
    let offsets = ["0", "7", "1048576", "8388608", "16777216", "67108863", "67108864", "536870911", "536870912"];
    // The longest are rare: each is written by three nodes of one machine.
    let most = if random.below(10) == 0 { offsets.len() } else { 5 };
    let offset = any(random, &offsets[..most]);
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let many = *random.pick(&[1, 2, 50, 200, 3_000]);
    let with = |first: Vec<Vec<u8>>, more: &mut dyn FnMut(u64) -> Vec<u8>| {
        first.into_iter().chain((0..many).map(more)).collect::<Vec<_>>()
    };
    let (one, other) = (key(random), key(random));
    let named = |name: &str, rest: &[&str]| [vec![name.as_bytes().to_vec(), one.clone()], words(rest)].concat();
    match random.below(14) {
        0 => named("SETBIT", &[offset, any(random, &["0", "1"])]),
        1 => named("SETRANGE", &[offset, "value"]),
        2 => named("APPEND", &["value"]),
        3 => named(
            "BITFIELD",
            &["INCRBY", "i64", offset, "3", "GET", "u7", "5", "OVERFLOW", "FAIL", "SET", "u8", "#3", "77"],
        ),
        4 => {
            let operation = any(random, &["AND", "OR", "XOR", "NOT", "ONE", "DIFF", "ANDOR"]);
            with([words(&["BITOP", operation]), vec![one]].concat(), &mut |_| other.clone())
        }
        5 => with(named(any(random, &["SADD", "SREM", "SMISMEMBER"]), &[]), &mut |n| n.to_string().into_bytes()),
        6 => with(named(any(random, &["HDEL", "HMGET"]), &[]), &mut |n| n.to_string().into_bytes()),
        7 => with(named("HSET", &["f", "v"]), &mut |n| (n / 2).to_string().into_bytes()),
        8 => {
            let name = any(random, &["SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE"]);
            let keys: Vec<Vec<u8>> = (0..1 + random.below(4)).map(|_| key(random)).collect();
            named(name, &[]).into_iter().chain(keys).collect()
        }
        9 => named("SPOP", &[any(random, &["0", "1", "100", "70000"])]),
        10 => [words(&[any(random, &["COPY", "RENAME", "RENAMENX"])]), vec![one, other]].concat(),
        11 => with(words(&["DEL"]), &mut |n| format!("{{t}}gone{n}").into_bytes()),
        12 => with(words(&["MSET"]), &mut |n| format!("{{t}}gone{}", n / 2).into_bytes()),
        _ => named(any(random, &["PEXPIRE", "EXPIRE"]), &[any(random, &["1", "500", "100000"])]),
    }
}

fn any<'a>(random: &mut Random, words: &[&'a str]) -> &'a str {
    words[random.below(words.len() as u64) as usize]
}

/// One client that does its worst to all nodes in turn.
struct Hostile<'a> {
    nodes: &'a Nodes,
    random: Random,
    names: &'a [(String, i64)],
    /// The node that leads most of the keys.
    home: usize,
    connections: Vec<Option<Connection>>,
    dumped: Vec<u8>,
    requests: u64,
}

impl Hostile<'_> {
    /// Sends requests at once and reads as many answers; a connection that the node has closed is opened again.
    fn send(&mut self, requests: &[Vec<Vec<u8>>]) {
        // Mostly where the keys are led: others only redirect.
        let any = self.random.below(self.nodes.count() as u64) as usize;
        let n = if self.random.below(4) == 0 { any } else { self.home };
        let connection = self.connections[n].get_or_insert_with(|| self.nodes.connect(n));
        let bytes: Vec<u8> = requests.iter().flat_map(|request| Connection::encode(request)).collect();
        let mut sent = connection.send(&bytes).map(|()| None);
        for _ in requests {
            sent = sent.and_then(|_| connection.read().map(Some));
        }
        self.requests += requests.len() as u64;
        match sent {
            Ok(Some(Value::Bulk(dumped))) if requests[0][0] == b"DUMP" => self.dumped = dumped,
            Ok(_) => {}
            Err(_) => self.connections[n] = None,
        }
    }

    fn step(&mut self) {
        let one = |this: &mut Self| match this.random.below(8) {
            0 => exec(&mut this.random, &this.dumped),
            1 => heavy(&mut this.random),
            _ => command(&mut this.random, this.names, &this.dumped),
        };
        let word = |word: &str| vec![word.as_bytes().to_vec()];
        let several = 1 + self.random.below(5);
        match self.random.below(6) {
            0 => {
                let requests: Vec<_> = (0..several).map(|_| one(self)).collect();
                self.send(&requests);
            }
            1 | 2 => {
                let mut requests = Vec::new();
                if self.random.below(2) == 0 {
                    requests.push(vec![b"WATCH".to_vec(), key(&mut self.random), key(&mut self.random)]);
                }
                requests.push(word("MULTI"));
                requests.extend((0..several).map(|_| one(self)));
                let end = ["EXEC", "EXEC", "EXEC", "DISCARD", "RESET"][self.random.below(5) as usize];
                requests.push(word(end));
                self.send(&requests);
            }
            3 => {
                let key = key(&mut self.random);
                self.send(&[vec![b"DUMP".to_vec(), key]]);
            }
            4 => {
                let field = hostile(&mut self.random, &self.dumped);
                let value = hostile(&mut self.random, &self.dumped);
                let key = key(&mut self.random);
                self.send(&[vec![b"HSET".to_vec(), key, field, value]]);
            }
            _ => {
                let request = one(self);
                self.send(&[request]);
            }
        }
    }
}

/// The commands of the server, subcommands included, and how many arguments they take.
fn names(nodes: &Nodes) -> Vec<(String, i64)> {
    let mut found = Vec::new();
    let answer = nodes.connect(0).call("COMMAND");
    for command in answer.items() {
        let fields = command.items();
        let name = fields[0].text().to_uppercase();
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        let subcommands = fields[9].items();
        if subcommands.is_empty() {
            found.push((name, fields[1].int()));
            continue;
        }
        for subcommand in subcommands {
            let fields = subcommand.items();
            found.push((fields[0].text().to_uppercase(), fields[1].int()));
        }
    }
    assert!(found.len() > 80, "{found:?}");
    found
}

fn verify(nodes: &Nodes) {
    let output = nodes.run_ctl(&["verify"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "replicas differ:\n{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nothing_that_a_client_sends_ends_a_node_or_makes_replicas_differ() {
    let seconds = number("BASALT_GATE_SECONDS", 5);
    let seed = number("BASALT_GATE_SEED", 1);
    let dir = Dir::new("gate");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "3"), ("--memory", "256M")]);
    nodes.wait_spread();
    let (names, home) = (names(&nodes), nodes.leader(0, "{t}"));
    let until = Instant::now() + Duration::from_secs(seconds);
    let requests: u64 = thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (nodes, names) = (&nodes, &names);
                scope.spawn(move || {
                    let random = Random::new(seed * 1000 + client);
                    let connections = (0..nodes.count()).map(|_| None).collect();
                    let mut hostile =
                        Hostile { nodes, random, names, home, connections, dumped: Vec::new(), requests: 0 };
                    while Instant::now() < until {
                        hostile.step();
                    }
                    hostile.requests
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    announce(&format!("seed {seed}: {requests} hostile requests"));
    nodes.wait_whole();
    verify(&nodes);
    // What is there is flushed when a node stops, and read and replayed when it starts.
    for n in 0..nodes.count() {
        nodes.stop(n);
        nodes.spawn(n);
        nodes.wait_whole();
    }
    verify(&nodes);
    for n in 0..nodes.count() {
        let mut connection = nodes.connect(n);
        assert!(!connection.call("KEYS *").is_error() && !connection.call("SCAN 0 COUNT 10000").is_error());
    }
}

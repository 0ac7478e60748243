//! A shard driven without a server: what it answers agrees with a model, whatever shares an entry; its log applied
//! again, to a tree that holds any part of it, makes the same map.
#![allow(clippy::unwrap_used)]

mod driver;

use driver::{Driver, read};
use node::{EncodedCommand, Write};
use std::collections::{BTreeMap, HashMap};
use storage::EngineKind;
use vocab::Prng;

/// All in one slot, so that transactions may have any of them.
const KEYS: [&str; 4] = ["{t}a", "{t}b", "{t}c", "{t}d"];
const BATCHES: u64 = 120;

#[derive(Clone, Default)]
struct Value {
    text: String,
    expire_at_ms: Option<u64>,
    /// As of the beginning of the batch; `None` if it was written in the batch.
    version: Option<u64>,
}

/// What the shard must hold and answer.
#[derive(Default)]
struct Model {
    values: BTreeMap<&'static str, Value>,
    now_ms: u64,
}

#[derive(Clone, Debug)]
enum Command {
    Set(&'static str, String, Option<u64>),
    Get(&'static str),
    Increment(&'static str),
    Delete(&'static str),
    PutIf(&'static str, String, u64),
    Rename(&'static str, &'static str),
}

impl Command {
    fn random(prng: &mut Prng, versions: &BTreeMap<&'static str, u64>) -> Self {
        let key = |prng: &mut Prng| KEYS[prng.below(KEYS.len() as u64) as usize];
        let text = |prng: &mut Prng| match prng.below(3) {
            0 => prng.below(100).to_string(),
            1 => format!("{:016x}", prng.next_u64()),
            _ => "long ".repeat(prng.below(2000) as usize),
        };
        match prng.below(12) {
            0..3 => Self::Set(key(prng), text(prng), (prng.below(3) == 0).then(|| 1 + prng.below(60))),
            3 => Self::Get(key(prng)),
            4..6 => Self::Increment(key(prng)),
            6..8 => Self::Delete(key(prng)),
            8..11 => {
                let key = key(prng);
                let known = versions.get(key).copied().unwrap_or(0);
                // Entry 1 is the group's own: no key has that version.
                Self::PutIf(key, text(prng), if prng.below(4) == 0 { 1 } else { known })
            }
            _ => Self::Rename(key(prng), key(prng)),
        }
    }

    fn words(&self) -> Vec<String> {
        match self {
            Self::Set(key, text, None) => vec!["SET".into(), (*key).into(), text.clone()],
            Self::Set(key, text, Some(ms)) => {
                vec!["SET".into(), (*key).into(), text.clone(), "PX".into(), ms.to_string()]
            }
            Self::Get(key) => vec!["GET".into(), (*key).into()],
            Self::Increment(key) => vec!["INCR".into(), (*key).into()],
            Self::Delete(key) => vec!["DEL".into(), (*key).into()],
            Self::PutIf(key, text, version) => {
                vec!["KV.PUT".into(), (*key).into(), text.clone(), "IFVERSION".into(), version.to_string()]
            }
            Self::Rename(from, to) => vec!["RENAME".into(), (*from).into(), (*to).into()],
        }
    }

    fn encoded(&self) -> EncodedCommand {
        let words = self.words();
        EncodedCommand::new(&words.iter().map(String::as_bytes).collect::<Vec<_>>())
    }

    fn keys(&self) -> Vec<&'static str> {
        match self {
            Self::Set(key, ..) | Self::Get(key) | Self::Increment(key) | Self::Delete(key) | Self::PutIf(key, ..) => {
                vec![key]
            }
            Self::Rename(from, to) => vec![from, to],
        }
    }
}

impl Model {
    fn live(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| value.expire_at_ms.is_none_or(|at| at > self.now_ms))
    }

    fn write(&mut self, key: &'static str, text: String, expire_at_ms: Option<u64>) {
        self.values.insert(key, Value { text, expire_at_ms, version: None });
    }

    /// Whether the key has this version; one written in this batch has one that is not known yet.
    fn has_version(&self, key: &str, version: u64) -> bool {
        self.live(key).map_or(version == 0, |value| value.version == Some(version))
    }

    /// Runs a command; its answer. Where a new version is answered, `V` stands for it.
    fn run(&mut self, command: &Command) -> String {
        match command {
            Command::Set(key, text, ms) => {
                self.write(key, text.clone(), ms.map(|ms| self.now_ms + ms));
                "+OK\r\n".into()
            }
            Command::Get(key) => match self.live(key) {
                Some(value) => format!("${}\r\n{}\r\n", value.text.len(), value.text),
                None => "$-1\r\n".into(),
            },
            Command::Increment(key) => {
                let old = self.live(key).cloned();
                let number = old.as_ref().map_or(Ok(0), |value| value.text.parse::<i64>());
                let Ok(number) = number else {
                    return "-ERR value is not an integer or out of range\r\n".into();
                };
                self.write(key, (number + 1).to_string(), old.and_then(|old| old.expire_at_ms));
                format!(":{}\r\n", number + 1)
            }
            Command::Delete(key) => {
                let was = self.live(key).is_some();
                self.values.remove(key);
                format!(":{}\r\n", u8::from(was))
            }
            Command::PutIf(key, text, version) => {
                if !self.has_version(key, *version) {
                    return "$-1\r\n".into();
                }
                self.write(key, text.clone(), None);
                ":V\r\n".into()
            }
            Command::Rename(from, to) => {
                let Some(value) = self.live(from).cloned() else { return "-ERR no such key\r\n".into() };
                if from != to {
                    self.values.remove(from);
                    self.write(to, value.text, value.expire_at_ms);
                }
                "+OK\r\n".into()
            }
        }
    }
}

/// Compares an answer with the model's; calls `reported` with each version in it.
fn compare(answer: &str, expected: &str, mut reported: impl FnMut(u64)) {
    let mut rest = answer;
    for (i, part) in expected.split('V').enumerate() {
        if i > 0 {
            let digits = rest.find('\r').unwrap();
            reported(rest[..digits].parse().unwrap_or_else(|_| panic!("{answer:?}, not {expected:?}")));
            rest = &rest[digits..];
        }
        rest = rest.strip_prefix(part).unwrap_or_else(|| panic!("{answer:?}, not {expected:?}"));
    }
    assert_eq!(rest, "", "{answer:?}, not {expected:?}");
}

enum Request {
    One(Command),
    Many { watches: Vec<(&'static str, u64)>, commands: Vec<Command> },
    Clear,
}

impl Request {
    fn random(prng: &mut Prng, versions: &BTreeMap<&'static str, u64>) -> Self {
        match prng.below(40) {
            0 => Self::Clear,
            1..8 => {
                let commands = (0..prng.below(4)).map(|_| Command::random(prng, versions)).collect();
                let known = |key: &&'static str| (*key, versions.get(key).copied().unwrap_or(0));
                Self::Many { watches: KEYS.iter().filter(|_| prng.below(4) == 0).map(known).collect(), commands }
            }
            _ => Self::One(Command::random(prng, versions)),
        }
    }

    fn submit(&self, driver: &mut Driver) -> u64 {
        match self {
            Self::One(command) => driver.submit(&Write::Command(command.encoded()), &command.keys()),
            Self::Many { watches, commands } => {
                let write = Write::Transaction {
                    watches: watches.iter().map(|(key, version)| (key.as_bytes().to_vec(), *version)).collect(),
                    commands: commands.iter().map(Command::encoded).collect(),
                };
                driver.submit(&write, &commands.iter().flat_map(Command::keys).collect::<Vec<_>>())
            }
            Self::Clear => driver.submit(&Write::Clear, &[]),
        }
    }

    /// The model's answer.
    fn run(&self, model: &mut Model) -> String {
        match self {
            Self::One(command) => model.run(command),
            Self::Many { watches, commands } => {
                if watches.iter().all(|(key, version)| model.has_version(key, *version)) {
                    let answers: String = commands.iter().map(|command| model.run(command)).collect();
                    format!("*{}\r\n{answers}", commands.len())
                } else {
                    "*-1\r\n".into()
                }
            }
            Self::Clear => {
                model.values.clear();
                "+OK\r\n".into()
            }
        }
    }

    /// The key and the value that a lone KV.PUT wrote.
    fn put(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::One(Command::PutIf(key, text, _)) => Some((key, text)),
            _ => None,
        }
    }
}

/// Runs random batches; every answer and, after each batch, every value is what the model says, and no version of a
/// key that a client was told has ever meant two values.
fn agree(driver: &mut Driver, seed: u64) {
    let mut prng = Prng::new(seed);
    let mut model = Model { now_ms: driver.now_ms, ..Model::default() };
    let mut told: HashMap<(&'static str, u64), String> = HashMap::new();
    for batch in 0..BATCHES {
        driver.now_ms += prng.below(30);
        model.now_ms = driver.now_ms;
        let versions: BTreeMap<_, _> = model.values.iter().filter_map(|(key, v)| Some((*key, v.version?))).collect();
        let requests: Vec<_> = (0..1 + prng.below(12)).map(|_| Request::random(&mut prng, &versions)).collect();
        let tickets: Vec<u64> = requests.iter().map(|request| request.submit(driver)).collect();
        if prng.below(3) == 0 {
            driver.housekeep();
        }
        driver.run();
        for (request, ticket) in requests.iter().zip(tickets) {
            let expected = request.run(&mut model);
            compare(&driver.answer(ticket), &expected, |version| {
                if let Some((key, text)) = request.put() {
                    let before = told.insert((key, version), text.to_owned());
                    assert_eq!(before, None, "version {version} of {key} was told twice");
                }
            });
        }
        for key in KEYS {
            let found = read(driver, key);
            let model_value = model.live(key).map(|value| value.text.clone());
            assert_eq!(found.as_ref().map(|(text, _)| text), model_value.as_ref(), "{key} after batch {batch}");
            let Some((text, version)) = found else {
                model.values.remove(key);
                continue;
            };
            let same = told.entry((key, version)).or_insert_with(|| text.clone());
            assert_eq!(*same, text, "version {version} of {key} means two values");
            model.values.get_mut(key).unwrap().version = Some(version);
        }
        driver.validate();
        if prng.below(10) == 0 {
            driver.flush(prng.below(2) == 0);
        }
    }
}

#[test]
fn answers_agree_with_a_model_and_replay_makes_the_same_map() {
    for (seed, engine) in [(1, EngineKind::Lsm), (2, EngineKind::Memory), (3, EngineKind::Lsm)] {
        let dir = tempfile::tempdir().unwrap();
        let mut driver = Driver::open(dir.path(), "tree", engine, 1 << 20);
        agree(&mut driver, seed);
        let applied = driver.dump();
        drop(driver);
        // From what the tree's files hold; without a cache, so that what is cached has no say.
        let again = Driver::open(dir.path(), "tree", engine, 0);
        assert_eq!(again.dump(), applied, "after a restart, seed {seed}");
    }
}

#[test]
fn a_log_that_was_never_cut_fills_an_empty_tree_with_the_same_map() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = Driver::open(dir.path(), "tree", EngineKind::Lsm, 1 << 20);
    driver.cuts_log = false;
    agree(&mut driver, 4);
    let applied = driver.dump();
    drop(driver);
    for engine in [EngineKind::Lsm, EngineKind::Memory] {
        let again = Driver::open(dir.path(), engine.name(), engine, 0);
        assert_eq!(again.dump(), applied);
    }
}

#[test]
fn writes_share_an_entry_unless_a_version_was_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = Driver::open(dir.path(), "tree", EngineKind::Memory, 1 << 20);
    let entries = |driver: &mut Driver, lines: &[&str]| {
        let before = driver.last_index();
        for line in lines {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            driver.submit(&Write::Command(EncodedCommand::new(&words)), &[line.split(' ').nth(1).unwrap()]);
        }
        driver.run();
        driver.last_index() - before
    };
    assert_eq!(entries(&mut driver, &["SET {t}a 1", "SET {t}a 2", "INCR {t}a", "DEL {t}b"]), 1);
    assert_eq!(entries(&mut driver, &["SET {t}a 1", "KV.PUT {t}a 2", "SET {t}b 3"]), 1);
    assert_eq!(entries(&mut driver, &["KV.PUT {t}a 2", "SET {t}b 3", "SET {t}a 4", "SET {t}b 5"]), 2);
    assert_eq!(entries(&mut driver, &["kv.put {t}a 2", "kv.put {t}a 3", "kv.put {t}a 4"]), 3);
    assert_eq!(read(&driver, "{t}a").unwrap().0, "4");
}

#[test]
fn a_clear_stands_alone_and_what_follows_it_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = Driver::open(dir.path(), "tree", EngineKind::Lsm, 1 << 20);
    let set = |driver: &mut Driver, key: &str| {
        driver.submit(&Write::Command(EncodedCommand::new(&[b"SET", key.as_bytes(), b"v"])), &[key]);
    };
    set(&mut driver, "{t}a");
    driver.submit(&Write::Clear, &[]);
    set(&mut driver, "{t}b");
    driver.submit(&Write::Clear, &[]);
    driver.submit(&Write::Clear, &[]);
    set(&mut driver, "{t}c");
    driver.run();
    let dump = driver.dump();
    assert_eq!((read(&driver, "{t}b"), driver.key_count()), (None, 1));
    drop(driver);
    let again = Driver::open(dir.path(), "tree", EngineKind::Lsm, 0);
    assert_eq!(again.dump(), dump);
    assert!(read(&again, "{t}c").is_some());
}

#[test]
fn a_numbered_request_is_known_after_a_clear_and_a_restart() {
    for engine in [EngineKind::Lsm, EngineKind::Memory] {
        let dir = tempfile::tempdir().unwrap();
        let mut driver = Driver::open(dir.path(), "tree", engine, 1 << 20);
        let put = |driver: &mut Driver, client: &str, number: &str| {
            let words = ["KV.PUT", "{t}a", "v", "REQUEST", client, number].map(str::as_bytes);
            let ticket = driver.submit(&Write::Command(EncodedCommand::new(&words)), &["{t}a"]);
            driver.run();
            driver.answer(ticket)
        };
        let answers = [put(&mut driver, "c", "1"), put(&mut driver, "d", "1")];
        for _ in 0..2 {
            driver.submit(&Write::Clear, &[]);
            driver.run();
        }
        assert_eq!([put(&mut driver, "c", "1"), put(&mut driver, "d", "1")], answers);
        assert_eq!(read(&driver, "{t}a"), None, "what was flushed away is back");
        let dump = driver.dump();
        drop(driver);
        let mut again = Driver::open(dir.path(), "tree", engine, 0);
        assert_eq!(again.dump(), dump);
        assert_eq!(put(&mut again, "c", "1"), answers[0]);
        assert_ne!(put(&mut again, "c", "2"), answers[0]);
        // Their time comes as it would have.
        again.submit(&Write::Clear, &[]);
        again.run();
        again.now_ms += vocab::limits::REQUESTS_KEPT_MS * 11 / 10;
        again.housekeep();
        again.run();
        assert_eq!(again.dump().0, []);
    }
}

#[test]
fn a_clock_set_back_brings_no_key_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = Driver::open(dir.path(), "tree", EngineKind::Memory, 1 << 20);
    driver.submit(&Write::Command(EncodedCommand::new(&[b"SET", b"{t}a", b"v", b"PX", b"100"])), &["{t}a"]);
    driver.run();
    assert!(read(&driver, "{t}a").is_some());
    driver.now_ms += 100;
    assert_eq!(read(&driver, "{t}a"), None);
    driver.now_ms -= 1000;
    assert_eq!(read(&driver, "{t}a"), None, "seen again by a reader");
    let ticket = driver.submit(&Write::Command(EncodedCommand::new(&[b"APPEND", b"{t}a", b"w"])), &["{t}a"]);
    driver.run();
    assert_eq!(driver.answer(ticket), ":1\r\n", "seen again by a write");
    assert_eq!(driver.expired_ever(), 1);
}

#[test]
fn what_is_collected_has_expired_and_what_is_deleted_has_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = Driver::open(dir.path(), "tree", EngineKind::Memory, 1 << 20);
    for key in ["{t}a", "{t}b", "{t}c"] {
        let set = EncodedCommand::new(&[b"SET", key.as_bytes(), b"v", b"PX", b"100"]);
        driver.submit(&Write::Command(set), &[key]);
    }
    driver.submit(&Write::Command(EncodedCommand::new(&[b"DEL", b"{t}a"])), &["{t}a"]);
    driver.submit(&Write::Command(EncodedCommand::new(&[b"PERSIST", b"{t}b"])), &["{t}b"]);
    driver.run();
    driver.validate();
    driver.now_ms += 100;
    driver.housekeep();
    driver.run();
    driver.validate();
    assert_eq!((driver.key_count(), driver.expired_ever()), (1, 1));
}

/// One key, and values that compress to nothing: the tree's memory stays small, and the log does not.
#[test]
fn a_long_log_makes_a_tree_flush() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = Driver::open(dir.path(), "tree", EngineKind::Lsm, 1 << 20);
    let value = vec![b'x'; 1 << 20];
    for step in 0..vocab::limits::LOG_UNFLUSHED_BYTES_SOFT >> 20 {
        assert!(!driver.wants_files(), "after {step} MB");
        let command = EncodedCommand::new(&[b"SET", b"k", &value]);
        let ticket = driver.submit(&Write::Command(command), &["k"]);
        driver.run();
        assert_eq!(driver.answer(ticket), "+OK\r\n");
    }
    assert!(driver.wants_files());
}

/// A command, as often as it is sent at once, and what becomes of that: how many entries, how many of them aside, and the last
/// answer.
type Load<'a> = (Vec<&'a [u8]>, usize, u64, u64, &'a str);

#[test]
fn an_entry_of_much_work_is_not_evaluated_on_the_event_loop() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = Driver::open(dir.path(), "tree", EngineKind::Memory, 1 << 20);
    let names: Vec<String> = (0..5_000).map(|n| format!("{{t}}{n}")).collect();
    let with = |name: &'static str, args: usize, each: &'static [&'static [u8]]| -> Vec<&[u8]> {
        let more = names[..args].iter().flat_map(|arg| std::iter::once(arg.as_bytes()).chain(each.iter().copied()));
        std::iter::once(name.as_bytes()).chain(more).collect()
    };
    let long = vec![b'v'; 600_000];
    let loads: [Load<'_>; 12] = [
        (with("DEL", 100, &[]), 1, 1, 0, ":0\r\n"),
        (with("DEL", 5_000, &[]), 1, 1, 1, ":0\r\n"),
        (with("MSET", 1_000, &[b"v"]), 1, 1, 0, "+OK\r\n"),
        (with("MSET", 4_000, &[b"v"]), 1, 1, 1, "+OK\r\n"),
        (with("DEL", 1_200, &[]), 1, 1, 0, ":1200\r\n"),
        // Few arguments, and much that they touch.
        (vec![b"SETBIT", b"{t}bits", b"100000", b"1"], 1, 1, 0, ":0\r\n"),
        (vec![b"SETBIT", b"{t}bits", b"40000000", b"1"], 1, 1, 1, ":0\r\n"),
        // It is in pieces by now, of which each writes one.
        (vec![b"APPEND", b"{t}bits", b"x"], 500, 1, 0, ":5000501\r\n"),
        (vec![b"SET", b"{t}long", &long], 1, 1, 0, "+OK\r\n"),
        (vec![b"PEXPIRE", b"{t}long", b"100000"], 500, 1, 1, ":1\r\n"),
        // Many small ones are several entries: more of them after those that were given up.
        (vec![b"SET", b"{t}a", b"v"], 10_000, 40, 0, "+OK\r\n"),
        (with("MSET", 5_000, &[b"v"]), 2, 2, 2, "+OK\r\n"),
    ];
    for (words, times, entries, aside, last) in loads {
        let (index, asides) = (driver.last_index(), driver.asides());
        let write = Write::Command(EncodedCommand::new(&words));
        let tickets: Vec<u64> = (0..times).map(|_| driver.submit(&write, &["{t}"])).collect();
        driver.run();
        let what = format!("{} with {} arguments, {times} times", words[0].escape_ascii(), words.len());
        let found = (driver.last_index() - index, driver.asides() - asides);
        assert_eq!(found, (entries, aside), "{what}: entries, and those evaluated aside");
        let answers: Vec<String> = tickets.into_iter().map(|ticket| driver.answer(ticket)).collect();
        assert_eq!(answers.last().unwrap(), last, "{what}");
        assert_eq!(driver.answers(), 0, "{what}: each is answered once");
    }
    driver.validate();
}

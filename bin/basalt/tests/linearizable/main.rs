//! Many clients on few keys, little memory, kill -9 in between: what they were answered could have happened one at a
//! time, each at a moment between its request and its answer.
//!
//! The gate runs a few seconds; `BASALT_LINEARIZABLE_SECONDS` as many as one likes. A failure prints its seed.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod checker;
#[path = "../common/mod.rs"]
mod common;
mod planted;

use checker::{Action, Cell, KEYS, Operation, Outcome, State, check};
use common::{Connection, Dir, Random, Server, Setup, Value, announce, number};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 6;
const FILLERS: usize = 2;
/// Those that are used at a time, and all: the others have left the cache when their turn comes.
const OBJECTS_USED: u64 = 3;
const OBJECTS: u64 = 40;

/// Object → what was done to it.
type Histories = BTreeMap<u64, Vec<Operation>>;

struct World {
    begun: Instant,
    stop: AtomicBool,
    next_value: AtomicI64,
}

impl World {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Far from all others, so that increments of one do not make another.
    fn unique(&self) -> i64 {
        self.next_value.fetch_add(1_000_000, Ordering::Relaxed)
    }
}

fn key(object: u64, key: usize) -> String {
    format!("{{object:{object}}}{key}")
}

struct Client<'a> {
    number: usize,
    world: &'a World,
    random: Random,
    objects: Vec<u64>,
    /// The newest version that it knows of each key.
    versions: BTreeMap<(u64, usize), u64>,
    histories: Histories,
}

impl Client<'_> {
    /// Sends requests, some one at a time, some in pipelines, until it is told to stop or the connection breaks.
    fn run(&mut self, port: u16) {
        let Ok(mut connection) = Connection::open(port) else { return };
        while !self.world.stop.load(Ordering::Relaxed) {
            let depth = *self.random.pick(&[1, 1, 1, 2, 4]);
            let requests: Vec<_> = (0..depth).map(|_| self.request()).collect();
            let bytes: Vec<u8> = requests.iter().flat_map(|(object, actions)| encode(*object, actions)).collect();
            let begun = self.world.now();
            let mut broken = connection.send(&bytes).is_err();
            for (object, actions) in requests {
                let answer = if broken { None } else { read(&mut connection, &actions).ok() };
                broken = answer.is_none();
                self.note(object, actions, answer, begun);
            }
            if broken {
                return;
            }
        }
    }

    fn note(&mut self, object: u64, actions: Vec<(usize, Action)>, outcomes: Option<Vec<Outcome>>, begun: u64) {
        let ended = if outcomes.is_some() { self.world.now() } else { u64::MAX };
        if is_clear(&actions) {
            let operation = Operation { connection: self.number, actions, outcomes, begun, ended };
            for object in &self.objects {
                self.histories.entry(*object).or_default().push(operation.clone());
            }
            return;
        }
        for (&(key, _), outcome) in actions.iter().zip(outcomes.iter().flatten()) {
            if let Outcome::Versioned(Some((_, version))) | Outcome::Put(Some(version)) = outcome {
                self.versions.insert((object, key), *version);
            }
        }
        let operation = Operation { connection: self.number, actions, outcomes, begun, ended };
        self.histories.entry(object).or_default().push(operation);
    }

    fn request(&mut self) -> (u64, Vec<(usize, Action)>) {
        let object = *self.random.pick(&self.objects);
        let key = self.random.below(KEYS as u64) as usize;
        if self.random.below(200) == 0 {
            return (object, CLEAR.to_vec());
        }
        let actions = match self.random.below(20) {
            0..4 => vec![(key, Action::Get)],
            4..7 => vec![(key, Action::GetVersion)],
            7..9 => vec![(key, Action::Set(self.world.unique()))],
            9..11 => vec![(key, Action::Increment)],
            11 => vec![(key, Action::Delete)],
            12..16 => {
                let known = self.versions.get(&(object, key)).copied().unwrap_or(0);
                let version = if self.random.below(6) == 0 { 0 } else { known };
                vec![(key, Action::PutIf(self.world.unique(), version))]
            }
            16 => vec![(0, Action::Get), (1, Action::Get)],
            _ => (0..2 + self.random.below(3)).map(|_| self.part()).collect(),
        };
        (object, actions)
    }

    /// One command of a transaction.
    fn part(&mut self) -> (usize, Action) {
        let key = self.random.below(KEYS as u64) as usize;
        let action = match self.random.below(8) {
            0..3 => Action::Get,
            3..5 => Action::Set(self.world.unique()),
            5..7 => Action::Increment,
            _ => Action::Delete,
        };
        (key, action)
    }
}

fn command(object: u64, at: usize, action: Action) -> Vec<u8> {
    let key = key(object, at);
    let text = |n: i64| n.to_string();
    match action {
        Action::Get => Connection::encode(&["GET", &key]),
        Action::GetVersion => Connection::encode(&["KV.GET", &key]),
        Action::Set(value) => Connection::encode(&["SET", &key, &text(value)]),
        Action::Increment => Connection::encode(&["INCR", &key]),
        Action::Delete => Connection::encode(&["DEL", &key]),
        Action::PutIf(value, version) => {
            Connection::encode(&["KV.PUT", &key, &text(value), "IFVERSION", &version.to_string()])
        }
        Action::Clear => Connection::encode(&["FLUSHALL"]),
    }
}

const CLEAR: [(usize, Action); KEYS] = [(0, Action::Clear), (1, Action::Clear)];

fn is_clear(actions: &[(usize, Action)]) -> bool {
    actions == CLEAR
}

fn is_mget(actions: &[(usize, Action)]) -> bool {
    actions == [(0, Action::Get), (1, Action::Get)]
}

fn encode(object: u64, actions: &[(usize, Action)]) -> Vec<u8> {
    match actions {
        [(at, action)] => command(object, *at, *action),
        _ if is_clear(actions) => command(object, 0, Action::Clear),
        _ if is_mget(actions) => Connection::encode(&["MGET", &key(object, 0), &key(object, 1)]),
        _ => {
            let mut bytes = Connection::encode(&["MULTI"]);
            bytes.extend(actions.iter().flat_map(|(at, action)| command(object, *at, *action)));
            bytes.extend(Connection::encode(&["EXEC"]));
            bytes
        }
    }
}

fn read(connection: &mut Connection, actions: &[(usize, Action)]) -> io::Result<Vec<Outcome>> {
    if let [(_, action)] = actions {
        return Ok(vec![outcome(*action, &connection.read()?)]);
    }
    if is_clear(actions) {
        let answer = connection.read()?;
        return Ok(actions.iter().map(|(_, action)| outcome(*action, &answer)).collect());
    }
    if !is_mget(actions) {
        assert_eq!(connection.read()?, Value::ok());
        for _ in actions {
            assert_eq!(connection.read()?, Value::Simple("QUEUED".to_owned()));
        }
    }
    let answer = connection.read()?;
    Ok(actions.iter().zip(answer.items()).map(|((_, action), value)| outcome(*action, value)).collect())
}

fn outcome(action: Action, answer: &Value) -> Outcome {
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<i64>().unwrap();
    match (action, answer) {
        (Action::Get, answer) => Outcome::Value(answer.bytes().map(number)),
        (Action::GetVersion, Value::NilArray) => Outcome::Versioned(None),
        (Action::GetVersion, Value::Array(pair)) => {
            Outcome::Versioned(Some((number(pair[0].bytes().unwrap()), pair[1].int() as u64)))
        }
        (Action::Set(_) | Action::Clear, answer) if *answer == Value::ok() => Outcome::Done,
        (Action::Increment | Action::Delete, answer) => Outcome::Number(answer.int()),
        (Action::PutIf(..), Value::Int(version)) => Outcome::Put(Some(*version as u64)),
        (Action::PutIf(..), Value::NilBulk) => Outcome::Put(None),
        (action, answer) => panic!("{action:?} was answered {answer:?}"),
    }
}

/// Reads and writes so much else that the keys in question leave memory.
fn fill(world: &World, port: u16, seed: u64) {
    let mut random = Random::new(seed);
    let Ok(mut connection) = Connection::open(port) else { return };
    while !world.stop.load(Ordering::Relaxed) {
        for _ in 0..16 {
            let key = format!("filler:{}", random.below(4000));
            let request = match random.below(2) {
                0 => Connection::encode(&[b"SET", key.as_bytes(), &random.bytes(2000)]),
                _ => Connection::encode(&["GET", &key]),
            };
            if connection.send(&request).is_err() {
                return;
            }
        }
        if (0..16).any(|_| connection.read().is_err()) {
            return;
        }
    }
}

struct Hunt {
    setup: Setup,
    random: Random,
    world: World,
    states: BTreeMap<u64, State>,
    /// Objects that a FLUSHALL may have cleared: it was not answered.
    in_doubt: BTreeSet<u64>,
    operations: usize,
}

impl Hunt {
    /// One round on some objects: load, perhaps a kill, then what is there now is read, and all of it is checked.
    fn round(&mut self, server: Server, context: &str) -> Server {
        let objects: BTreeSet<u64> = (0..OBJECTS_USED).map(|_| self.random.below(OBJECTS)).collect();
        let objects: Vec<u64> = objects.into_iter().collect();
        let load = Duration::from_millis(30 + self.random.below(150));
        let kill = self.random.below(4) == 0;
        self.world.stop.store(false, Ordering::Relaxed);
        let (port, world) = (server.port(), &self.world);
        let seeds: Vec<u64> = (0..CLIENTS + FILLERS).map(|_| self.random.next()).collect();
        let (histories, server) = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let (random, objects) = (Random::new(seeds[number]), objects.clone());
                    let (versions, histories) = Default::default();
                    let mut client = Client { number, world, random, objects, versions, histories };
                    scope.spawn(move || {
                        client.run(port);
                        client.histories
                    })
                })
                .collect();
            for seed in &seeds[CLIENTS..] {
                scope.spawn(move || fill(world, port, *seed));
            }
            std::thread::sleep(load);
            let server = if kill {
                server.kill();
                None
            } else {
                Some(server)
            };
            world.stop.store(true, Ordering::Relaxed);
            let mut histories = Histories::new();
            for (object, operations) in clients.into_iter().flat_map(|client| client.join().unwrap()) {
                histories.entry(object).or_default().extend(operations);
            }
            (histories, server)
        });
        let server = server.unwrap_or_else(|| Server::start(&self.setup));
        self.forget_others(&objects, &histories);
        for (object, operations) in histories {
            self.settle(&server, object, operations, context);
        }
        server
    }

    /// What a FLUSHALL did to the objects that were not in use.
    fn forget_others(&mut self, used: &[u64], histories: &Histories) {
        let clears: Vec<_> = histories.values().flatten().filter(|one| is_clear(&one.actions)).collect();
        if clears.iter().any(|clear| clear.outcomes.is_some()) {
            let others = self.states.iter_mut().filter(|(object, _)| !used.contains(object));
            others.for_each(|(_, state)| *state = state.map(Cell::cleared));
        } else if !clears.is_empty() {
            self.in_doubt.extend(self.states.keys().filter(|object| !used.contains(object)));
        }
    }

    fn settle(&mut self, server: &Server, object: u64, mut operations: Vec<Operation>, context: &str) {
        let mut connection = server.connect();
        let mut initial = self.states.get(&object).copied().unwrap_or_default();
        let mut state = initial;
        for (at, cell) in state.iter_mut().enumerate() {
            let begun = self.world.now();
            let actions = vec![(at, Action::GetVersion)];
            connection.send(&encode(object, &actions)).unwrap();
            let outcomes = read(&mut connection, &actions).unwrap();
            if let Outcome::Versioned(found) = outcomes[0] {
                let version = found.map(|(_, version)| version);
                *cell = Cell { value: found.map(|(value, _)| value), version, floor: version.unwrap_or(cell.floor) };
            }
            let (outcomes, ended) = (Some(outcomes), self.world.now());
            operations.push(Operation { connection: CLIENTS, actions, outcomes, begun, ended });
        }
        operations.sort_by_key(|operation| operation.begun);
        // Whether it was cleared before is seen from what was done to it since.
        if self.in_doubt.remove(&object) && check(initial, &operations).is_err() {
            initial = initial.map(Cell::cleared);
        }
        if let Err(detail) = check(initial, &operations) {
            let count = operations.len();
            panic!("{context}: {} of {count} operations is not linearizable: {detail}", key(object, 0));
        }
        self.operations += operations.len();
        self.states.insert(object, state);
    }
}

fn hunt(engine: &str, durability: &str, seconds: u64, seed: u64) {
    let dir = Dir::new(&format!("linearizable-{engine}"));
    let setup = Setup::new(&dir.join("data")).with("--engine", engine).with("--durability", durability);
    let setup = setup.with("--memory", "17M").with("--workers", "2");
    let world = World { begun: Instant::now(), stop: AtomicBool::new(false), next_value: AtomicI64::new(1_000_000) };
    let mut hunt = Hunt {
        setup,
        random: Random::new(seed),
        world,
        states: BTreeMap::new(),
        in_doubt: BTreeSet::new(),
        operations: 0,
    };
    let mut server = Server::start(&hunt.setup);
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        let context = format!("{engine}, {durability}, round {rounds}, BASALT_LINEARIZABLE_SEED={seed}");
        server = hunt.round(server, &context);
        rounds += 1;
    }
    assert!(hunt.operations > 100, "only {} operations", hunt.operations);
    announce(&format!("{engine}, {durability}: {} operations in {rounds} rounds, all in order", hunt.operations));
}

fn seconds() -> u64 {
    number("BASALT_LINEARIZABLE_SECONDS", 3)
}

fn seed() -> u64 {
    number("BASALT_LINEARIZABLE_SEED", 1)
}

#[test]
fn what_is_on_disk_is_linearizable() {
    hunt("lsm", "sync", seconds(), seed());
}

#[test]
fn what_the_operating_system_holds_is_linearizable() {
    hunt("lsm", "nosync", seconds(), seed() + 1);
}

#[test]
fn what_is_in_memory_is_linearizable() {
    hunt("memory", "sync", seconds(), seed() + 2);
}

//! A store of several nodes of a test's own, and a client that goes where it is sent.

use super::{Connection, Dir, Server, Setup, Value, eventually, free_port};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a client waits before it asks another node.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long nodes may take to find each other and elect.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A key's slot: CRC16 of the key or its hash tag, bit by bit.
pub fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    let mut crc = 0u16;
    for byte in hashed.bytes() {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % 16384
}

/// Where a node is.
struct Seat {
    setup: Setup,
    port: u16,
    server: Option<Server>,
}

/// The nodes of one store, by number from 0.
pub struct Nodes {
    seats: Vec<Seat>,
}

impl Nodes {
    /// Starts a new store of `count` nodes and waits until all of it serves.
    pub fn start(dir: &Dir, count: usize, arguments: &[(&str, &str)]) -> Self {
        Self::start_with(dir, count, arguments, &vec![Vec::new(); count])
    }

    /// The same, with arguments that each node has for itself.
    pub fn start_with(dir: &Dir, count: usize, arguments: &[(&str, &str)], own: &[Vec<(String, String)>]) -> Self {
        let mut nodes = Self::seated(dir, count, arguments, own);
        nodes.start_all();
        nodes
    }

    /// Three nodes with a listener for databases each, and their ports.
    pub fn start_with_databases(dir: &Dir, arguments: &[(&str, &str)]) -> (Self, Vec<u16>) {
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let listen = |port: &u16| vec![("--database-listen".to_owned(), format!("127.0.0.1:{port}"))];
        let own: Vec<_> = ports.iter().map(listen).collect();
        (Self::start_with(dir, 3, arguments, &own), ports)
    }

    fn start_all(&mut self) {
        (0..self.count()).for_each(|n| self.spawn(n));
        self.wait_whole();
    }

    /// A store that is not started yet.
    fn seated(dir: &Dir, count: usize, arguments: &[(&str, &str)], own: &[Vec<(String, String)>]) -> Self {
        let peers: Vec<String> = (0..count).map(|_| format!("127.0.0.1:{}", free_port())).collect();
        let seat = |n: usize| {
            let port = free_port();
            let mut setup = Setup::bare(&dir.join(&format!("node-{n}"))).on_port(port);
            setup = setup.with("--memory", "64M").with("--peer-listen", &peers[n]).with("--join", &peers.join(","));
            setup = arguments.iter().fold(setup, |setup, (name, value)| setup.with(name, value));
            setup = own[n].iter().fold(setup, |setup, (name, value)| setup.with(name, value));
            if n == 0 {
                setup.arguments.push("--init".to_owned());
            }
            Seat { setup, port, server: None }
        };
        Self { seats: (0..count).map(seat).collect() }
    }

    /// As `start`, with another binary than that of this commit.
    pub fn start_of(dir: &Dir, count: usize, arguments: &[(&str, &str)], program: &Path) -> Self {
        let mut nodes = Self::seated(dir, count, arguments, &vec![Vec::new(); count]);
        (0..count).for_each(|n| nodes.runs_from_now(n, program));
        nodes.start_all();
        nodes
    }

    /// The binary that a node is started with from now on.
    pub fn runs_from_now(&mut self, n: usize, program: &Path) {
        self.seats[n].setup.program = program.to_path_buf();
    }

    /// Starts one more node, which joins the store; answers its number.
    pub fn join(&mut self, dir: &Dir) -> usize {
        let (n, port) = (self.seats.len(), free_port());
        let mut setup = self.seats[0].setup.clone();
        setup.arguments.retain(|argument| argument != "--init");
        setup.dir = dir.join(&format!("node-{n}"));
        let setup = setup.on_port(port).with("--peer-listen", &format!("127.0.0.1:{}", free_port()));
        self.seats.push(Seat { setup, port, server: None });
        self.spawn(n);
        n
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(&mut self, n: usize) {
        assert!(self.seats[n].server.take().expect("the node runs").stop(), "node {n} does not end well");
    }

    /// Starts a node with one more argument than it usually has.
    pub fn spawn_with(&mut self, n: usize, argument: &str) {
        let seat = &mut self.seats[n];
        let mut setup = seat.setup.clone();
        setup.arguments.push(argument.to_owned());
        seat.server = Some(Server::spawn(&setup));
    }

    /// The address for clients of a node.
    pub fn address(&self, n: usize) -> String {
        format!("127.0.0.1:{}", self.port(n))
    }

    /// `basalt ctl`, asked of the nodes that run.
    pub fn run_ctl(&self, words: &[&str]) -> std::process::Output {
        let up = (0..self.count()).filter(|n| self.seats[*n].server.is_some());
        let nodes: Vec<String> = up.map(|n| self.address(n)).collect();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_basalt"));
        command.arg("ctl").args(words).args(["--node", &nodes.join(",")]).stdin(std::process::Stdio::null());
        command.output().unwrap()
    }

    /// What it answers in JSON; none if it fails.
    pub fn ctl(&self, words: &[&str]) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.run_ctl(&[words, &["--json"]].concat()).stdout).ok()
    }

    /// What KV.ADMIN answers, asked of the first node that does; none if it is an error. Costs less than `ctl`.
    pub fn admin(&self, words: &[&str]) -> Option<serde_json::Value> {
        let up = self.seats.iter().filter(|seat| seat.server.is_some());
        let mut connection = up.flat_map(|seat| Connection::open(seat.port)).next()?;
        match connection.try_call(&[&["KV.ADMIN"], words].concat()).ok()? {
            Value::Error(_) => None,
            answer => serde_json::from_str(&answer.text()).ok(),
        }
    }

    /// Begins a plan; answers its number.
    pub fn plan(&self, words: &[&str]) -> u64 {
        let begun = self.ctl(&[&["plan", "apply", "--yes"], words].concat());
        let number = begun.as_ref().and_then(|begun| begun["id"].as_u64().or_else(|| begun["plan"].as_u64()));
        number.unwrap_or_else(|| panic!("{words:?}: {begun:?}"))
    }

    pub fn count(&self) -> usize {
        self.seats.len()
    }

    pub fn dir(&self, n: usize) -> &Path {
        &self.seats[n].setup.dir
    }

    pub fn port(&self, n: usize) -> u16 {
        self.seats[n].port
    }

    pub fn server(&self, n: usize) -> &Server {
        self.seats[n].server.as_ref().expect("the node runs")
    }

    pub fn connect(&self, n: usize) -> Connection {
        self.server(n).connect()
    }

    /// Starts a node, which need not be the only one to be started: it is not waited for.
    pub fn spawn(&mut self, n: usize) {
        let seat = &mut self.seats[n];
        assert!(seat.server.is_none(), "node {n} runs already");
        seat.server = Some(Server::spawn(&seat.setup));
    }

    /// SIGKILL.
    pub fn kill(&mut self, n: usize) {
        self.seats[n].server.take().expect("the node runs").kill();
    }

    /// SIGKILL to all at once: none sees another die.
    pub fn kill_all(&mut self) {
        self.seats.iter().filter_map(|seat| seat.server.as_ref()).for_each(|server| server.signal("-KILL"));
        self.seats.iter_mut().filter_map(|seat| seat.server.take()).for_each(Server::kill);
    }

    /// Waits until every node that runs serves, and knows a leader for every slot.
    pub fn wait_whole(&mut self) {
        for seat in &mut self.seats {
            let Some(server) = &mut seat.server else { continue };
            server.wait_ready().unwrap_or_else(|messages| panic!("a node ended instead of starting:\n{messages}"));
            eventually("a node knows all leaders", READY_WITHIN, || {
                let mut connection = Connection::open(seat.port).ok()?;
                let info = connection.try_call(&["CLUSTER", "INFO"]).ok()?.text();
                let covered: i64 = leaders(&mut connection).iter().map(|(first, last, _)| last - first + 1).sum();
                (info.contains("cluster_state:ok") && covered == 16384).then_some(())
            });
        }
    }

    /// Waits until leadership is where it will stay as long as all nodes live: each of three nodes has a third.
    pub fn wait_spread(&self) {
        eventually("leaders are spread", READY_WITHIN, || {
            let share = |asked: usize, n: usize| {
                let found = leaders(&mut self.connect(asked));
                let mine = found.iter().filter(|(_, _, port)| *port == self.port(n));
                mine.map(|(first, last, _)| last - first + 1).sum::<i64>()
            };
            let even = |asked: usize| (0..self.count()).all(|n| (5000..6000).contains(&share(asked, n)));
            (0..self.count()).all(even).then_some(())
        });
    }

    /// The number of the node that leads the slot of `key`, as node `asked` tells.
    pub fn leader(&self, asked: usize, key: &str) -> usize {
        self.leader_of_slot(asked, slot(key))
    }

    /// The number of the node that leads a slot, as node `asked` tells.
    pub fn leader_of_slot(&self, asked: usize, slot: u16) -> usize {
        let slot = i64::from(slot);
        let port = eventually("a slot has a leader", READY_WITHIN, || {
            let found = leaders(&mut self.connect(asked));
            found.iter().find(|(first, last, _)| (*first..=*last).contains(&slot)).map(|(_, _, port)| *port)
        });
        self.number_at(port)
    }

    /// The node with that client port.
    pub fn number_at(&self, port: u16) -> usize {
        self.seats.iter().position(|seat| seat.port == port).expect("a node of this store")
    }

    /// A key that node `n` leads now, beginning with `prefix`.
    pub fn key_led_by(&self, n: usize, prefix: &str) -> String {
        let found = leaders(&mut self.connect(n));
        let led = |key: &String| {
            let slot = i64::from(slot(key));
            found.iter().any(|&(first, last, port)| (first..=last).contains(&slot) && port == self.port(n))
        };
        (0..10_000).map(|i| format!("{prefix}{i}")).find(led).unwrap_or_else(|| panic!("node {n} leads nothing"))
    }

    /// A client that knows the nodes' ports, and no more.
    pub fn client(&self) -> Client {
        Client::of(self.seats.iter().map(|seat| seat.port).collect())
    }

    pub fn messages(&self, n: usize) -> PathBuf {
        self.dir(n).with_extension("messages")
    }
}

/// First slot, last slot, port of the leader.
fn leaders(connection: &mut Connection) -> Vec<(i64, i64, u16)> {
    let Ok(Value::Array(ranges)) = connection.try_call(&["CLUSTER", "SLOTS"]) else { return Vec::new() };
    let range = |range: &Value| {
        let items = range.items();
        let port = items.get(2)?.items().get(1)?.int();
        Some((items[0].int(), items[1].int(), u16::try_from(port).ok()?))
    };
    ranges.iter().filter_map(range).collect()
}

/// Follows MOVED, remembers where, and goes to another node when one does not answer.
pub struct Client {
    ports: Vec<u16>,
    at: usize,
    connections: BTreeMap<u16, Connection>,
    /// Where the slot of a first argument was last found.
    places: BTreeMap<u16, u16>,
}

impl Client {
    fn of(ports: Vec<u16>) -> Self {
        Self { ports, at: 0, connections: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// One try, and another one where that was sent to: the answer, be it an error, unless the connection fails.
    pub fn attempt(&mut self, arguments: &[&str]) -> Option<Value> {
        let slot = arguments.get(1).map_or(0, |key| slot(key));
        for _ in 0..2 {
            let port = self.places.get(&slot).copied().unwrap_or(self.ports[self.at % self.ports.len()]);
            match self.ask(port, arguments) {
                Some(Value::Error(text)) if text.starts_with("MOVED ") => {
                    let to: u16 = text.rsplit(':').next()?.parse().ok()?;
                    self.places.insert(slot, to);
                    // It may be sent to where it is while leadership is on its way.
                    if to == port {
                        return None;
                    }
                }
                Some(answer) => return Some(answer),
                None => {
                    self.lost(slot);
                    return None;
                }
            }
        }
        None
    }

    /// The answer of one node; none if the connection fails.
    fn ask(&mut self, port: u16, arguments: &[&str]) -> Option<Value> {
        let mut connection = match self.connections.remove(&port) {
            Some(connection) => connection,
            None => Connection::open(port).ok().inspect(|connection| connection.patience(PATIENCE))?,
        };
        let answer = connection.try_call(arguments).ok()?;
        self.connections.insert(port, connection);
        Some(answer)
    }

    /// The node that was asked is not to be asked for that slot next.
    fn lost(&mut self, slot: u16) {
        self.places.remove(&slot);
        self.at += 1;
    }

    /// Asks until there is an answer that is none of the passing errors; none if there is none within `limit`.
    pub fn try_for(&mut self, limit: Duration, arguments: &[&str]) -> Option<Value> {
        let begun = Instant::now();
        loop {
            match self.attempt(arguments) {
                Some(Value::Error(text)) if passing(&text) => self.lost(arguments.get(1).map_or(0, |key| slot(key))),
                Some(answer) => return Some(answer),
                None => {}
            }
            if begun.elapsed() > limit {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// As `try_for`, for what must succeed.
    pub fn call(&mut self, limit: Duration, arguments: &[&str]) -> Value {
        let answer = self.try_for(limit, arguments);
        answer.unwrap_or_else(|| panic!("{arguments:?}: no answer within {limit:?}"))
    }
}

/// Errors of a store that is finding its leaders.
pub fn passing(text: &str) -> bool {
    ["CLUSTERDOWN", "TRYAGAIN", "LOADING", "TIMEOUT", "UNKNOWN", "BUSY"].iter().any(|word| text.starts_with(word))
}

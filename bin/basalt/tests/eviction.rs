//! A store of three nodes that is a cache: what becomes of its data, and of its clients, at the bound.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Nodes, Value, announce, eventually};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Longest wait for what only has to happen.
const SOON: Duration = Duration::from_secs(60);
const BOUND: u64 = 12 << 20;
/// Requests of a pipeline.
const PIPELINE: usize = 64;
/// Keys of each node that are in use all the time.
const HOT: usize = 50;

/// Writes and reads keys that one node leads.
struct Client<'a> {
    connection: Connection,
    /// Hash tags of slots that it leads.
    tags: &'a [String],
    value: String,
}

impl<'a> Client<'a> {
    fn new(nodes: &Nodes, n: usize, tags: &'a [String]) -> Self {
        let connection = nodes.connect(n);
        connection.patience(SOON);
        Self { connection, tags, value: "x".repeat(1000) }
    }

    fn key(&self, kind: &str, at: usize) -> String {
        format!("{{{}}}{kind}{at}", self.tags[at % self.tags.len()])
    }

    fn all(&mut self, requests: &[Vec<String>]) -> Vec<Value> {
        let bytes: Vec<u8> = requests.iter().flat_map(|request| Connection::encode(request)).collect();
        self.connection.send(&bytes).unwrap();
        requests.iter().map(|_| self.connection.read().unwrap()).collect()
    }

    fn set(&self, kind: &str, at: usize) -> Vec<String> {
        ["SET", &self.key(kind, at), &self.value].map(str::to_owned).to_vec()
    }

    fn get_hot(&mut self) -> usize {
        let requests: Vec<_> = (0..HOT).map(|at| vec!["GET".to_owned(), self.key("hot", at)]).collect();
        self.all(&requests).iter().filter(|reply| reply.bytes().is_some()).count()
    }

    /// Writes keys as fast as they are taken, and uses the hot ones meanwhile; each write is to be taken.
    fn fill(&mut self, range: std::ops::Range<usize>) {
        for (turn, first) in range.step_by(PIPELINE).enumerate() {
            let requests: Vec<_> = (first..first + PIPELINE).map(|at| self.set("cold", at)).collect();
            for reply in self.all(&requests) {
                assert_eq!(reply, Value::ok());
            }
            if turn % 4 == 0 {
                self.get_hot();
            }
        }
    }
}

fn data_bytes(connection: &mut Connection) -> u64 {
    connection.info("memory", "basalt_data_bytes").map_or(0, |bytes| bytes.parse().unwrap())
}

fn configure(nodes: &Nodes, words: &str) {
    for n in 0..nodes.count() {
        assert_eq!(nodes.connect(n).call(&format!("CONFIG SET {words}")), Value::ok());
    }
}

fn tags_of(nodes: &Nodes) -> Vec<Vec<String>> {
    let of = |n: usize| (0..4).map(|tag| nodes.key_led_by(n, &format!("tag{tag}-"))).collect();
    (0..nodes.count()).map(of).collect()
}

#[test]
fn at_the_bound_clients_wait_for_keys_to_go_and_are_refused_only_if_none_can() {
    let dir = Dir::new("eviction");
    let settings = [("--engine", "memory"), ("--shards", "6"), ("--durability", "nosync")];
    let mut nodes = Nodes::start(&dir, 3, &settings);
    nodes.wait_spread();
    configure(&nodes, &format!("maxmemory {BOUND} maxmemory-policy allkeys-lfu"));
    let tags = tags_of(&nodes);
    let mut clients: Vec<Client> = (0..3).map(|n| Client::new(&nodes, n, &tags[n])).collect();
    for client in &mut clients {
        let requests: Vec<_> = (0..HOT).map(|at| client.set("hot", at)).collect();
        assert!(client.all(&requests).iter().all(|reply| *reply == Value::ok()));
        (0..20).for_each(|_| assert_eq!(client.get_hot(), HOT));
    }
    let (is_over, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut looks: Vec<Connection> = (0..3).map(|n| nodes.connect(n)).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                looks.iter_mut().for_each(|look| _ = most.fetch_max(data_bytes(look), Ordering::AcqRel));
                thread::sleep(Duration::from_millis(2));
            }
        });
        let writers: Vec<_> = clients.iter_mut().map(|client| scope.spawn(move || client.fill(0..9_600))).collect();
        let ends: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Release);
        ends.into_iter().for_each(|end| end.expect("each write was taken"));
    });
    let most = most.load(Ordering::Acquire);
    announce(&format!("28.8 MB were written to a store of {BOUND} bytes a node; it had {most} at most"));
    assert!(most > BOUND / 2 && most < BOUND + BOUND / 8, "{most}");
    for (n, client) in clients.iter_mut().enumerate() {
        let left = client.get_hot();
        assert!(left > HOT * 3 / 4, "node {n}: of {HOT} keys in use {left} are left");
        let key = client.key("hot", 0);
        assert!(client.connection.call(&format!("OBJECT FREQ {key}")).int() > 5);
        let info = client.connection.call("INFO stats").text();
        assert!(!info.contains("evicted_keys:0\r"), "node {n} has evicted nothing");
        eventually("the data is within its bound", SOON, || {
            (data_bytes(&mut client.connection) <= BOUND).then_some(())
        });
    }
    assert!(nodes.run_ctl(&["verify"]).status.success());
    without_any_key_to_go(&nodes, &mut clients);
    drop(clients);
    nodes.kill_all();
}

/// The policy finds no key: writes are refused, and go on once a client has made room.
fn without_any_key_to_go(nodes: &Nodes, clients: &mut [Client<'_>]) {
    configure(nodes, "maxmemory-policy volatile-lru");
    let client = &mut clients[0];
    let key = client.key("hot", 0);
    eventually("the policy is taken", SOON, || {
        let reply = client.connection.call(&format!("OBJECT FREQ {key}"));
        format!("{reply:?}").contains("ERR An LFU maxmemory policy is not selected").then_some(())
    });
    assert!(client.connection.call(&format!("OBJECT IDLETIME {key}")).int() >= 0);
    let oom = Value::Error("OOM command not allowed when used memory > 'maxmemory'.".to_owned());
    let mut at = 20_000;
    let mut write = |client: &mut Client<'_>| {
        at += 1;
        let request = client.set("cold", at);
        client.all(&[request]).pop().unwrap()
    };
    let refused = (0..2 * BOUND / 1_000).find_map(|_| {
        let reply = write(client);
        (reply != Value::ok()).then_some(reply)
    });
    assert_eq!(refused, Some(oom.clone()));
    // A client makes room: the next write goes on.
    let requests: Vec<_> = (20_000..20_400).map(|at| vec!["DEL".to_owned(), client.key("cold", at)]).collect();
    client.all(&requests);
    assert_eq!(write(client), Value::ok());
    // Keys that expire may go: all of what is written has room then.
    let kept = client.key("kept", 0);
    assert_eq!(client.connection.call(&format!("SET {kept} 1")), Value::ok());
    for at in 30_000..36_000 {
        let key = client.key("volatile", at);
        let request = ["SET", &key, &client.value, "EX", "10000"].map(str::to_owned).to_vec();
        assert_eq!(client.all(&[request]), [Value::ok()], "{at}");
    }
    assert_eq!(client.connection.call(&format!("GET {kept}")).text(), "1");
}

//! A store of three nodes from outside: started, found by clients, robbed of a node, brought back, stopped.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Value, announce, eventually, free_ports, text};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Anything else that is to happen happens within this time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Enough to be in most of the shards.
const KEYS: usize = 64;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A store in a directory of its own; what still runs of it when the test ends is ended.
struct Cluster {
    dir: Dir,
    port: u16,
}

impl Cluster {
    fn new(name: &str) -> Self {
        Self { dir: Dir::new(name), port: free_ports(9) }
    }

    fn data(&self) -> String {
        self.dir.join("store").to_string_lossy().into_owned()
    }

    fn cluster(&self, arguments: &[&str]) -> Output {
        command(&["cluster"]).args(arguments).args(["--data", &self.data()]).output().unwrap()
    }

    /// Does it and checks the exit code.
    fn expect(&self, arguments: &[&str], code: i32) -> String {
        let output = self.cluster(arguments);
        assert_eq!(output.status.code(), Some(code), "cluster {arguments:?}: {}", text(&output));
        text(&output)
    }

    fn up_arguments(&self) -> Vec<String> {
        let [port, peer_port, http_port] = [0, 3, 6].map(|above| (self.port + above).to_string());
        let ports = ["up", "--port", &port, "--peer-port", &peer_port, "--http-port", &http_port];
        let words = [&ports[..], &["--memory", "128M", "--shards", "8"]].concat();
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn up(&self) {
        let mut arguments = self.up_arguments();
        arguments.extend(["--durability", "nosync", "--background"].map(str::to_owned));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.expect(&arguments, 0);
    }

    fn foreground(&self) -> Child {
        let mut up = command(&["cluster"]);
        up.args(self.up_arguments()).args(["--data", &self.data()]);
        up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn is_healthy(&self) -> bool {
        self.cluster(&["status"]).status.success()
    }

    fn ports(&self) -> [u16; 3] {
        [self.port, self.port + 1, self.port + 2]
    }

    /// One try through the node at `port`, and where that one points.
    fn try_once(port: u16, request: &str) -> Result<Value, String> {
        let mut port = port;
        for _ in 0..3 {
            let mut connection = Connection::open(port).map_err(|e| e.to_string())?;
            let words: Vec<&str> = request.split(' ').collect();
            match connection.try_call(&words).map_err(|e| e.to_string())? {
                Value::Error(error) if error.starts_with("MOVED ") => {
                    port = error.rsplit_once(':').unwrap().1.parse().unwrap();
                }
                Value::Error(error) => return Err(error),
                value => return Ok(value),
            }
        }
        Err("sent from node to node".to_owned())
    }

    /// Writes `round` to every key through the nodes at `ports`; the longest that one took.
    fn write_all(&self, ports: &[u16], round: usize) -> Duration {
        let mut longest = Duration::ZERO;
        for key in 0..KEYS {
            let begun = Instant::now();
            let request = format!("SET key:{key} {round}");
            eventually(&request, PATIENCE, || Self::try_once(ports[key % ports.len()], &request).ok());
            longest = longest.max(begun.elapsed());
        }
        longest
    }

    fn expect_all(&self, ports: &[u16], round: usize) {
        for key in 0..KEYS {
            let value = Self::try_once(ports[key % ports.len()], &format!("GET key:{key}"));
            assert_eq!(value, Ok(Value::bulk(round.to_string())), "key:{key}");
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.cluster(&["down"]);
    }
}

/// What the node itself has of every key, however old.
fn own_values(port: u16) -> Option<Vec<Value>> {
    let mut connection = Connection::open(port).ok()?;
    connection.try_call(&["READONLY"]).ok()?;
    (0..KEYS).map(|key| connection.try_call(&["GET", &format!("key:{key}")]).ok()).collect()
}

#[test]
fn a_node_dies_and_comes_back() {
    let store = Cluster::new("cluster-kill");
    let [one, two, three] = store.ports();
    store.up();
    assert!(store.is_healthy());
    store.write_all(&[one, two, three], 1);
    store.expect(&["kill", "2"], 0);
    // Replicas that are left answer all the while; that the last writes were committed they may not have heard.
    for port in [one, three] {
        let values = own_values(port).unwrap();
        assert!(values.iter().all(|value| [Value::bulk("1"), Value::NilBulk].contains(value)), "{values:?}");
    }
    let longest = store.write_all(&[one, three], 2);
    announce(&format!("cluster: without a node a write had to wait for {longest:?}"));
    store.expect(&["status"], 1);
    store.expect_all(&[one, three], 2);
    store.expect(&["restart", "2"], 0);
    eventually("all three nodes are well", PATIENCE, || store.is_healthy().then_some(()));
    let caught_up = vec![Value::bulk("2"); KEYS];
    eventually("what it missed reaches it", PATIENCE, || (own_values(two)? == caught_up).then_some(()));
    store.write_all(&[one, two, three], 3);
    store.expect(&["down"], 0);
    store.expect(&["status"], 1);
    for port in store.ports() {
        assert!(Connection::open(port).is_err(), "something listens on {port} after `down`");
    }
    store.up();
    store.expect_all(&[three, one, two], 3);
}

#[test]
fn exit_codes_say_what_happened() {
    let store = Cluster::new("cluster-codes");
    for arguments in [&["status"][..], &["down"], &["kill", "1"], &["up", "--nodes", "2", "--replication-factor", "3"]]
    {
        store.expect(arguments, 2);
    }
    store.up();
    assert!(store.expect(&["up"], 1).contains("runs already"));
    assert!(store.expect(&["kill", "4"], 2).contains("there is no node 4"));
    store.expect(&["kill", "1"], 0);
    store.expect(&["kill", "1"], 1);
    let json = store.expect(&["status", "--json"], 1);
    assert!(json.contains("\"healthy\": false"), "{json}");
    store.expect(&["down"], 0);
    assert!(store.expect(&["down"], 0).contains("no node"));
    assert!(store.expect(&["up", "--shards", "9"], 2).contains("was made with 8"));
    let taken = TcpListener::bind(("127.0.0.1", store.port + 1)).unwrap();
    let told = format!("port {} (node 2, for clients) is in use", store.port + 1);
    assert!(store.expect(&["up"], 1).contains(&told), "the reason is not told");
    drop(taken);
    store.expect(&["status"], 1);
}

/// A store that tells only users who may ask how it is starts again, and its passwords are not among the arguments of its processes.
#[test]
fn a_store_that_is_locked_down_starts_again() {
    let store = Cluster::new("cluster-locked");
    let up = || {
        let mut arguments = store.up_arguments();
        arguments.extend(["--set", "requirepass=open sesame", "--background"].map(str::to_owned));
        store.expect(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), 0)
    };
    up();
    for process in running(&store.data()) {
        let arguments = std::fs::read(format!("/proc/{process}/cmdline")).unwrap();
        assert!(!String::from_utf8_lossy(&arguments).contains("sesame"));
    }
    let mut client = Connection::open(store.port).unwrap();
    assert_eq!(client.try_call(&["AUTH", "open sesame"]).unwrap(), Value::ok());
    assert_eq!(client.call("ACL SETUSER operator on >secret +@all ~* &*"), Value::ok());
    assert_eq!(client.call("AUTH operator secret"), Value::ok());
    assert_eq!(client.call("ACL SETUSER default off"), Value::ok());
    store.expect(&["down"], 0);
    assert!(up().contains("tell only users who may ask"));
    assert_eq!(Connection::open(store.port).unwrap().call("AUTH operator secret"), Value::ok());
    store.expect(&["down"], 0);
}

/// A node of another store at the port answers as its own would.
#[test]
fn another_store_at_the_port_is_not_taken_for_the_own() {
    let (first, mut second) = (Cluster::new("cluster-first"), Cluster::new("cluster-second"));
    second.port = first.port;
    let up = |store: &Cluster, own: u16, code: i32| {
        let [port, peer_port] = [store.port, own].map(|port| port.to_string());
        let one = ["up", "--nodes", "1", "--shards", "1", "--memory", "128M", "--background", "--http-port", "0"];
        store.expect(&[&one[..], &["--port", &port, "--peer-port", &peer_port]].concat(), code)
    };
    up(&first, first.port + 3, 0);
    let said = up(&second, first.port + 4, 1);
    assert!(said.contains(&format!("port {} (node 1, for clients) is in use", first.port)), "{said}");
    assert!(said.contains("--port") && !said.contains("serves after"), "{said}");
    assert!(running(&second.data()).is_empty());
    // It was never made, so it may become another, with other ports.
    second.port += 1;
    up(&second, first.port + 4, 0);
    assert!(first.is_healthy() && second.is_healthy());
}

/// What a store's directory says of it.
fn noted(data: &str) -> String {
    std::fs::read_to_string(Path::new(data).join("cluster.json")).unwrap_or_default()
}

/// The processes that are noted there and still run.
fn running(data: &str) -> Vec<String> {
    let noted = noted(data);
    let pids = noted.split("\"pid\": ").skip(1).map(|rest| rest.split([',', '\n']).next().unwrap().to_owned());
    let is_running = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    pids.filter(is_running).collect()
}

#[test]
fn nodes_do_not_outlive_the_program_that_shows_them() {
    for signal in ["-TERM", "-KILL"] {
        let store = Cluster::new("cluster-foreground");
        let mut up = store.foreground();
        let is_shown = || noted(&store.data()).contains("\"made\": true");
        eventually("the store serves", PATIENCE, || is_shown().then_some(()));
        assert_eq!(running(&store.data()).len(), 3);
        store.expect(&["kill", "3"], 0);
        store.expect(&["restart", "3"], 0);
        assert!(up.try_wait().unwrap().is_none(), "it ended with the node");
        common::signal(up.id(), signal);
        let status = up.wait().unwrap();
        // The node that another command has brought back is not its own, but it stops what it shows.
        let left = usize::from(signal == "-KILL");
        assert_eq!(status.success(), signal == "-TERM");
        eventually("the nodes have stopped", PATIENCE, || (running(&store.data()).len() == left).then_some(()));
    }
}

#[test]
fn a_store_made_by_hand() {
    let dir = Dir::new("by-hand");
    let port = free_ports(9);
    let join = (3..6).map(|n| format!("127.0.0.1:{}", port + n)).collect::<Vec<_>>().join(",");
    let node = |n: u16| {
        let (listen, peer) = (format!("127.0.0.1:{}", port + n), format!("127.0.0.1:{}", port + 3 + n));
        let messages = std::fs::File::create(dir.join(&format!("messages-{n}"))).unwrap();
        let mut start = command(&["start", "--listen", &listen, "--peer-listen", &peer, "--join", &join]);
        start
            .args(["--shards", "4", "--memory", "128M", "--stop-with-stdin", "--dir"])
            .arg(dir.join(&format!("data-{n}")));
        start.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(messages).spawn().unwrap()
    };
    let mut nodes: Vec<Child> = (0..3).map(node).collect();
    let ctl =
        |what: &str, n: u16| command(&["ctl", what, "--node", &format!("127.0.0.1:{}", port + n)]).output().unwrap();
    eventually("a node answers", PATIENCE, || {
        let output = ctl("status", 1);
        text(&output).contains("there is no store yet").then(|| assert_eq!(output.status.code(), Some(1)))
    });
    let said = ctl("init", 1);
    assert!(said.status.success(), "{}", text(&said));
    eventually("the store is well", PATIENCE, || ctl("status", 2).status.success().then_some(()));
    let again = ctl("init", 0);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again).contains("belongs to the store"), "{}", text(&again));
    let set = eventually("a write", PATIENCE, || Cluster::try_once(port, "SET a 1").ok());
    assert_eq!(set, Value::ok());
    assert_eq!(Cluster::try_once(port + 2, "GET a"), Ok(Value::bulk("1")));
    for node in &mut nodes {
        drop(node.stdin.take());
    }
    for mut node in nodes {
        assert!(node.wait().unwrap().success());
    }
}

/// Without an address for the others, it would be a store by itself, or one that answers CLUSTERDOWN to everything.
#[test]
fn a_node_of_several_is_not_started_alone() {
    let dir = Dir::new("not-alone");
    let port = free_ports(2);
    let [listen, peer] = [0, 1].map(|above| format!("127.0.0.1:{}", port + above));
    let data = dir.join("fresh");
    for of_several in [&["--join", "127.0.0.1:1"][..], &["--init"], &["--set", "join=127.0.0.1:1"]] {
        let mut start = command(&["start", "--listen", &listen]);
        let output = start.args(of_several).arg("--data").arg(&data).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{of_several:?}: {}", text(&output));
        assert!(text(&output).contains("add --peer-listen HOST:PORT"), "{of_several:?}: {}", text(&output));
        assert!(!data.exists());
    }
    let mut nodes = common::Nodes::start(&dir, 2, &[("--shards", "2"), ("--replication-factor", "1")]);
    nodes.stop(1);
    let mut start = command(&["start", "--listen", &listen, "--memory", "64M"]);
    let output = start.arg("--data").arg(nodes.dir(1)).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("with --peer-listen, as it was"), "{}", text(&output));
    nodes.spawn(1);
    nodes.wait_whole();
    // By itself, with an address for others, it may have them later.
    let mut alone = command(&["start", "--listen", &listen, "--peer-listen", &peer, "--init", "--stop-with-stdin"]);
    alone.args(["--memory", "64M", "--shards", "1", "--replication-factor", "1", "--data"]).arg(&data);
    let mut alone = alone.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let ping = || command(&["ctl", "status", "--node", &listen]).output().unwrap();
    eventually("it serves", PATIENCE, || ping().status.success().then_some(()));
    drop(alone.stdin.take());
    assert!(alone.wait().unwrap().success());
}

#[test]
fn a_directory_with_other_content_gets_no_store() {
    let store = Cluster::new("cluster-other");
    std::fs::create_dir_all(store.data()).unwrap();
    let file = Path::new(&store.data()).join("passwd");
    std::fs::write(&file, "root").unwrap();
    let arguments = store.up_arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = store.expect(&arguments, 1);
    assert!(said.contains("it holds passwd"), "{said}");
    let left: Vec<_> = std::fs::read_dir(store.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["passwd"]);
}

/// Both nodes make a store of themselves before they hear of each other.
#[test]
fn two_stores_that_meet_say_what_to_do() {
    let dir = Dir::new("two-stores");
    let port = free_ports(9);
    let at = |n: u16| format!("127.0.0.1:{}", port + n);
    let node = |n: u16, more: &[&str]| {
        let messages = std::fs::File::create(dir.join(&format!("messages-{n}"))).unwrap();
        let mut start = command(&["start", "--listen", &at(n), "--peer-listen", &at(3 + n), "--stop-with-stdin"]);
        start.args(["--replication-factor", "1", "--shards", "1", "--memory", "128M"]).args(more);
        start.arg("--data").arg(dir.join(&format!("data-{n}")));
        start.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(messages).spawn().unwrap()
    };
    let end = |mut node: Child| {
        drop(node.stdin.take());
        assert!(node.wait().unwrap().success());
    };
    let status = |n: u16, code: i32, words: &str| {
        eventually("status says it", PATIENCE, || {
            let output = command(&["ctl", "status", "--node", &at(n)]).output().unwrap();
            (output.status.code() == Some(code) && text(&output).contains(words)).then_some(())
        });
    };
    let (first, second) = (node(0, &["--init"]), node(1, &["--init"]));
    (0..2).for_each(|n| status(n, 0, "all is well"));
    end(second);
    let second = node(1, &["--join", &at(3)]);
    for n in 0..2 {
        let words = "start them again with --join and an empty data directory";
        status(n, 1, words);
        let messages = std::fs::read_to_string(dir.join(&format!("messages-{n}"))).unwrap();
        assert!(messages.contains(words), "{messages}");
    }
    end(first);
    end(second);
}

#[test]
fn the_demonstration_in_small() {
    let dir = Dir::new("demo");
    let small =
        ["--records", "3000", "--seconds", "9", "--shards", "4", "--set", "memory=128M", "--quiet", "--out", "run"];
    let output = command(&["demo"]).args(small).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("Nothing that was acknowledged is lost"), "{}", text(&output));
    let report = std::fs::read_to_string(dir.join("run").join("report.json")).unwrap();
    for event in ["killed", "started again", "takes part again"] {
        assert!(report.contains(event), "the report has no `{event}`");
    }
    let left = std::fs::read_dir(dir.join("basalt-runs")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "the store's data was left behind");
}

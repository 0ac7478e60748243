//! What an operator gets of a store of three nodes: `ctl`, KV.ADMIN and HTTP, at any node, through a change of settings, a
//! plan, a comparison of replicas, and the death of a node.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Nodes, Value, eventually, free_port, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Anything that is to happen happens within this time: tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store of three nodes, each with its HTTP port.
struct Store {
    nodes: Nodes,
    http: Vec<u16>,
}

impl Store {
    fn start(dir: &Dir, arguments: &[(&str, &str)]) -> Self {
        let http: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let each: Vec<Vec<(String, String)>> =
            http.iter().map(|port| vec![("--http-listen".to_owned(), format!("127.0.0.1:{port}"))]).collect();
        let nodes = Nodes::start_with(dir, 3, arguments, &each);
        Self { nodes, http }
    }

    /// `basalt ctl …`, asking node `n`.
    fn ctl(&self, n: usize, words: &str) -> Output {
        let node = format!("127.0.0.1:{}", self.nodes.port(n));
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        command.arg("ctl").args(words.split(' ')).args(["--node", &node]).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// The same, with the exit code that it must have.
    fn expect(&self, n: usize, words: &str, code: i32) -> String {
        let output = self.ctl(n, words);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "ctl {words}: {said}");
        said
    }

    fn json(&self, n: usize, words: &str) -> serde_json::Value {
        let output = self.ctl(n, &format!("{words} --json"));
        let said = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("ctl {words}: {e}: {said}"))
    }

    fn wait_well(&self) {
        eventually("all is well", PATIENCE, || self.ctl(0, "status").status.success().then_some(()));
    }

    fn get(&self, n: usize, path: &str) -> (u16, String) {
        http(self.http[n], "GET", path, "", "")
    }
}

/// Status and body of what HTTP answers.
fn http(port: u16, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: {answer:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

const JSON: &str = "content-type: application/json\r\n";

#[test]
fn an_operator_sees_and_changes_a_store() {
    let dir = Dir::new("ctl-store");
    let store = Store::start(&dir, &[("--shards", "4"), ("--durability", "nosync")]);
    store.wait_well();
    let mut client = store.nodes.client();
    for key in 0..200 {
        assert_eq!(client.call(PATIENCE, &["SET", &format!("key:{key}"), "value"]), Value::ok());
    }

    // Any node tells the same of the whole store.
    eventually("every key is reported", PATIENCE, || {
        (0..3).all(|n| store.json(n, "status")["keys"] == 200).then_some(())
    });
    let status = store.expect(1, "status", 0);
    assert!(status.contains("all is well") && status.contains("3 of 3 up"), "{status}");
    let shards = store.json(2, "shards");
    assert_eq!(shards["shards"].as_array().unwrap().len(), 5);
    assert!(shards["shards"].as_array().unwrap().iter().all(|shard| shard["replicas"].as_array().unwrap().len() == 3));
    assert_eq!(store.json(0, "nodes")["nodes"].as_array().unwrap().len(), 3);
    assert!(store.expect(0, "top --once", 0).contains("ops/s"));
    assert_eq!(store.json(1, "map")["replication_factor"], 3);

    // A setting holds everywhere, at once.
    assert_eq!(
        store.expect(1, "settings set durability SYNC", 0),
        "durability: sync (was what each node was started with)\n"
    );
    let durability = |n: usize| store.nodes.connect(n).call("CONFIG GET durability").items()[1].text();
    eventually("it holds on all nodes", PATIENCE, || (0..3).all(|n| durability(n) == "sync").then_some(()));
    store.expect(2, "settings reset durability", 0);
    eventually("it is as it was", PATIENCE, || (0..3).all(|n| durability(n) == "nosync").then_some(()));
    assert!(store.expect(0, "settings set failure-timeout-ms 5", 2).contains("a number from 1000"));
    assert!(store.expect(0, "settings get nosuch", 2).contains("there are durability"));
    assert_eq!(store.json(0, "settings get split-bytes")["value"], "4294967296");

    // Plans: what one would do, one that is done, and what is refused.
    let second = format!("127.0.0.1:{}", store.nodes.port(1));
    assert!(store.expect(0, &format!("plan preview drain-node {second}"), 0).contains("replicas"));
    assert!(store.expect(0, "plan apply balance-leaders --reason a-test --wait", 0).contains("done"));
    assert!(store.expect(2, "plan list", 0).contains("balance-leaders"));
    assert!(store.expect(0, "plan apply set-replication-factor 9", 2).contains("1 to 7"));
    assert!(store.expect(0, &format!("plan apply remove-node {second}"), 2).contains("--yes is not given"));
    assert!(store.expect(0, "plan apply drain-node ffffffffffffffffff", 2).contains("no node is called"));
    assert!(store.expect(0, "plan unsafe-recover 1", 1).contains("has its majority"));
    store.expect(0, "plan show 999", 2);

    // All of it is remembered.
    let events = store.expect(2, "events", 0);
    for what in ["is made of 3 nodes", "durability: the default -> sync", "balance-leaders; a-test", "is done"] {
        assert!(events.contains(what), "{what}: {events}");
    }
    assert!(store.json(0, "events --since 1h --kind setting")["events"].as_array().unwrap().len() == 2);
    // … however many others there are since.
    let mut noting = store.nodes.connect(0);
    for number in 0..110 {
        assert!(!noting.try_call(&["KV.ADMIN", "NOTE", "backup", &format!("note {number}")]).unwrap().is_error());
    }
    let listed = |words: &str| store.json(1, words)["events"].as_array().unwrap().len();
    assert_eq!(
        [listed("events"), listed("events --kind setting"), listed("events --kind backup --limit 7")],
        [100, 2, 7]
    );
    assert_eq!(listed("events --after 999999"), 0);

    // Who may only look begins no comparison, and is not told the outcome of another one.
    for n in 0..3 {
        let reader = store.nodes.connect(n).call("ACL SETUSER reader on >secret +@role-read ~*");
        assert!(!reader.is_error(), "{reader:?}");
    }
    let refused = store.expect(1, "verify --user reader --pass secret", 1);
    assert!(refused.contains("+@role-"), "{refused}");

    // Every replica holds the same, while it is written to.
    let verified = store.json(1, "verify");
    assert_eq!((&verified["result"], &verified["shards_done"]), (&"ok".into(), &5.into()), "{verified}");
    assert!(verified["bytes"].as_u64().unwrap() > 3 * 200 * 5);
}

#[test]
fn http_says_what_ctl_says() {
    let dir = Dir::new("ctl-http");
    let store = Store::start(&dir, &[("--shards", "2")]);
    for n in 0..3 {
        assert_eq!(store.nodes.connect(n).call("CONFIG SET requirepass se:cret"), Value::ok());
    }
    let login = "authorization: Bearer se:cret\r\n";
    let with = format!("{login}{JSON}");
    let port = store.http[1];
    assert_eq!(store.get(1, "/healthz"), (200, "ok\n".to_owned()));
    eventually("the node takes part", PATIENCE, || (store.get(1, "/readyz").0 == 200).then_some(()));
    // Nothing else is for those who do not know the password.
    for path in ["/", "/metrics", "/openapi.json", "/api/v1/status"] {
        assert_eq!(store.get(1, path).0, 401, "{path}");
        assert_eq!(http(port, "GET", path, login, "").0, 200, "{path}");
    }
    let basic = "authorization: Basic bWU6c2U6Y3JldA==\r\n";
    assert_eq!(http(port, "GET", "/api/v1/nodes", basic, "").0, 200);
    let read = |(status, body): (u16, String)| {
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<serde_json::Value>(&body).unwrap()
    };
    // Every field that is answered is in the document, whatever it is an answer to.
    let document = read(http(port, "GET", "/openapi.json", login, ""));
    for (path, schema) in [
        ("/api/v1/status", "Status"),
        ("/api/v1/nodes", "Nodes"),
        ("/api/v1/shards", "Shards"),
        ("/api/v1/map", "Map"),
        ("/api/v1/events", "Events"),
        ("/api/v1/settings", "Settings"),
        ("/api/v1/settings/acks", "Setting"),
        ("/api/v1/plans", "Plans"),
        ("/api/v1/verify", "Verification"),
        ("/readyz", "Ready"),
    ] {
        assert_fits(&document, schema, &read(http(port, "GET", path, login, "")));
    }
    let set = |body: &str| http(port, "PUT", "/api/v1/settings/auto-split", &with, body);
    assert_eq!(read(set(r#"{"value": "no"}"#))["value"], "no");
    assert_eq!(set(r#"{"value": "maybe"}"#).0, 400);
    assert_eq!(set("{").0, 400);
    assert_eq!(set(&"x".repeat(100_000)).0, 413);
    assert_eq!(http(port, "PUT", "/api/v1/settings/auto-split", login, "{}").0, 415);
    assert_eq!(http(port, "GET", "/api/v1/settings/nosuch", login, "").0, 404);
    assert_eq!(http(port, "POST", "/api/v1/status", login, "").0, 405);
    let plan = r#"{"kind": "balance-leaders", "reason": "a test"}"#;
    assert_fits(&document, "Preview", &read(http(port, "POST", "/api/v1/plans/preview", &with, plan)));
    let begun = read(http(port, "POST", "/api/v1/plans", &with, plan));
    assert_fits(&document, "BegunPlan", &begun);
    let shown = read(http(port, "GET", &format!("/api/v1/plans/{}", begun["id"]), login, ""));
    assert_fits(&document, "Plan", &shown);
    assert_eq!(http(port, "POST", "/api/v1/plans", &with, r#"{"kind": "drain-node", "arguments": ["zz"]}"#).0, 404);
    // What is asked badly leaves the others alone.
    for nonsense in ["nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /\r\n"] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(nonsense.as_bytes()).unwrap();
    }
    // Requests that do not come whole take nothing from probes, nor from those who know the password.
    let unfinished = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n{login}Content-Length: 9\r\n\r\n").unwrap();
        stream
    };
    let _held: Vec<TcpStream> = (0..60).map(|n| unfinished(["/healthz", "/api/v1/status"][n % 2])).collect();
    assert_eq!(store.get(1, "/healthz").0, 200);
    assert_eq!(http(port, "GET", "/api/v1/status", login, "").0, 200);
    let metrics = http(port, "GET", "/metrics", login, "").1;
    assert!(metrics.contains("# TYPE basalt_commands_total counter\n"));
    // The store's own figures are at one node.
    let is_directing = |n: usize| http(store.http[n], "GET", "/metrics", login, "").1.contains("basalt_store_nodes{");
    eventually("one node directs", PATIENCE, || ((0..3).filter(|n| is_directing(*n)).count() == 1).then_some(()));
}

/// Checks an answer against a schema: every field is known, and of the type that it is to have.
fn assert_fits(document: &serde_json::Value, schema: &str, value: &serde_json::Value) {
    let properties = &document["components"]["schemas"][schema]["properties"];
    for (name, value) in value.as_object().unwrap_or_else(|| panic!("{schema}: {value}")) {
        let property = &properties[name];
        assert!(property.is_object(), "{schema} has no {name}");
        assert_is(document, &format!("{schema}.{name}"), property, value);
    }
}

fn assert_is(document: &serde_json::Value, place: &str, property: &serde_json::Value, value: &serde_json::Value) {
    let is_null = value.is_null();
    if let Some(any) = property["anyOf"].as_array() {
        if !is_null {
            assert_is(document, place, &any[0], value);
        }
        return;
    }
    if let Some(reference) = property["$ref"].as_str() {
        return assert_fits(document, reference.rsplit('/').next().unwrap(), value);
    }
    let types: Vec<&str> = match &property["type"] {
        serde_json::Value::Array(types) => types.iter().filter_map(|of| of.as_str()).collect(),
        of => of.as_str().into_iter().collect(),
    };
    let fits = types.iter().any(|of| match *of {
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => is_null,
    });
    assert!(fits, "{place} is {value}, not {types:?}");
    for item in value.as_array().into_iter().flatten() {
        assert_is(document, place, &property["items"], item);
    }
}

#[test]
fn a_dead_node_is_seen_and_the_rest_is_still_told() {
    let dir = Dir::new("ctl-death");
    let mut store = Store::start(&dir, &[("--shards", "2"), ("--durability", "nosync")]);
    store.wait_well();
    store.expect(0, "settings set failure-timeout-ms 600000", 0);
    store.nodes.kill(2);
    let dead = format!("127.0.0.1:{}", store.nodes.port(2));
    let status = eventually("the death is seen", PATIENCE, || {
        let status = store.json(0, "status");
        let is_silent = status["nodes"].as_array().unwrap().iter().any(|node| node["state"] == "silent");
        (is_silent && status["without_leader"] == 0 && status["complete"] == true).then_some(status)
    });
    assert_eq!(status["healthy"], false);
    let problems = status["problems"].to_string();
    assert!(problems.contains(&dead), "{problems}");
    store.expect(1, "status", 1);
    assert!(store.expect(1, "shards --unwell", 1).contains("silent"));
    eventually("the event is there", PATIENCE, || {
        store.expect(0, "events --kind failure", 0).contains("does not answer").then_some(())
    });
    // What cannot be compared is told, and is no success.
    let verified = store.ctl(0, "verify");
    assert_eq!(verified.status.code(), Some(3), "{}", String::from_utf8_lossy(&verified.stdout));

    // One node of three: the map has no leader, and the node that is left says so, and what it sees.
    store.nodes.kill(1);
    let said = eventually("the loss of the majority is seen", PATIENCE, || {
        let output = store.ctl(0, "status");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.contains("the metadata group (shard 0) has no leader").then_some(said)
    });
    assert!(said.contains("have lost their majority") && said.contains(&dead), "{said}");
    store.expect(0, "settings list", 3);
    eventually("it is not ready", PATIENCE, || (store.get(0, "/readyz").0 == 503).then_some(()));
    assert_eq!(store.get(0, "/healthz").0, 200);
    assert_eq!(store.get(0, "/metrics").0, 200);
    assert_eq!(store.get(0, "/api/v1/plans").0, 503);
}

#[test]
fn a_node_that_is_a_store_by_itself() {
    let dir = Dir::new("ctl-alone");
    let setup = common::Setup::new(&dir.join("data"));
    let mut server = common::Server::start(&setup);
    let ask = |server: &common::Server, words: &[&str]| {
        let mut connection: Connection = server.connect();
        match connection.try_call(words).unwrap() {
            Value::Error(text) => Err(text),
            answer => Ok(serde_json::from_str::<serde_json::Value>(&answer.text()).unwrap()),
        }
    };
    let status = ask(&server, &["KV.ADMIN", "STATUS"]).unwrap();
    assert_eq!((&status["healthy"], &status["shards"]), (&true.into(), &4.into()), "{status}");
    ask(&server, &["KV.ADMIN", "SETTINGS", "SET", "durability", "nosync"]).unwrap();
    let durability = |server: &common::Server| server.connect().call("CONFIG GET durability").items()[1].text();
    eventually("the setting holds", PATIENCE, || (durability(&server) == "nosync").then_some(()));
    for (words, error) in [
        (&["KV.ADMIN", "SETTINGS", "SET", "durability", "x"][..], "USAGE durability: one of sync, nosync"),
        (&["KV.ADMIN", "PLAN", "SHOW", "7"], "NOTFOUND there is no plan 7"),
        (&["KV.ADMIN", "PLAN", "APPLY", "drain-node", "127.0.0.1"], "NOTFOUND no node is called 127.0.0.1"),
        (&["KV.ADMIN", "PLAN", "APPLY", "nosuch"], "USAGE there is no plan nosuch"),
        (&["KV.ADMIN", "EVENTS", "LIMIT"], "USAGE EVENTS [AFTER number] [LIMIT count]"),
        (&["KV.ADMIN", "VERIFY", "START", "99"], "NOTFOUND the store has no shard 99"),
    ] {
        let got = ask(&server, words).unwrap_err();
        assert!(got.starts_with(error), "{words:?}: {got}");
    }
    let leads_alone = ask(&server, &["KV.ADMIN", "DRAIN-LEADERS", &server.address()]);
    assert!(leads_alone.unwrap_err().starts_with("REFUSED"), "no other node could lead");
    // It directs only itself, and does.
    for key in 0..100 {
        assert_eq!(server.connect().call(&format!("SET key:{key} value")), Value::ok());
    }
    let plan = ask(&server, &["KV.ADMIN", "PLAN", "APPLY", "split-all"]).unwrap()["id"].to_string();
    eventually("every shard is split", PATIENCE, || {
        let plan = ask(&server, &["KV.ADMIN", "PLAN", "SHOW", &plan]).unwrap();
        (plan["state"] == "done").then_some(())
    });
    let is_whole = |server: &common::Server| {
        let status = ask(server, &["KV.ADMIN", "STATUS"]).unwrap();
        let whole = status["healthy"] == true && status["complete"] == true;
        (whole && status["shards"] == 8 && status["keys"] == 100).then_some(())
    };
    eventually("it has twice as many shards", PATIENCE, || is_whole(&server));
    ask(&server, &["KV.ADMIN", "VERIFY", "START"]).unwrap();
    eventually("it is verified", PATIENCE, || {
        let state = ask(&server, &["KV.ADMIN", "VERIFY", "STATUS"]).unwrap();
        (state["state"] == "done").then(|| assert_eq!(state["result"], "ok", "{state}"))
    });
    // What was set outlives the process.
    server.kill();
    server = common::Server::start(&setup);
    assert_eq!(durability(&server), "nosync");
    eventually("it is as it was", PATIENCE, || is_whole(&server));
    let events = ask(&server, &["KV.ADMIN", "EVENTS"]).unwrap().to_string();
    assert!(["durability", "split-all", "is done"].iter().all(|what| events.contains(what)), "{events}");
    server.kill();
}

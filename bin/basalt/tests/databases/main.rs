//! Databases: the listener on which a store is a Redis without cluster mode.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

#[path = "../common/mod.rs"]
mod common;
mod random_commands;

use common::{Connection, Dir, Nodes, Server, Setup, Value, eventually, free_port, replay};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// What the transcripts say of a Redis without cluster mode holds for Redis and for Basalt.
#[test]
fn transcripts_hold_for_a_plain_redis_as_well() {
    hold_for_both("databases", &transcripts("databases"), "16");
}

/// The same of what is over several databases, which one shard has.
#[test]
fn transactions_over_several_databases_are_of_one_shard() {
    let paths = [transcripts("databases"), transcripts("databases-of-one-shard")].concat();
    hold_for_both("databases-of-one-shard", &paths, "1");
}

fn transcripts(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no transcript");
    paths
}

fn hold_for_both(name: &str, paths: &[PathBuf], shards: &str) {
    let dir = Dir::new(name);
    let port = free_port();
    let setup = Setup::new(&dir.join("data")).with("--shards", shards);
    let server = Server::start(&setup.with("--database-listen", &format!("127.0.0.1:{port}")));
    let peer = Server::start_plain_peer(&Setup::new(&dir.join("peer")));
    let mut differences = Vec::new();
    // The peer last: where the answers are rewritten, they are its.
    for (who, port) in [("basalt", port), ("redis-server", peer.port())] {
        for path in paths {
            assert_eq!(Connection::open(port).unwrap().call("FLUSHALL"), Value::ok());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            differences.extend(replay(path, port).into_iter().map(|line| format!("{who}: {name} {line}")));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    drop(server);
}

/// Monitors and CLIENT LIST show what a client of a database has sent, and not what is run for it.
#[test]
fn a_monitor_is_shown_what_a_client_has_sent() {
    let dir = Dir::new("databases-monitor");
    let port = free_port();
    let setup = Setup::new(&dir.join("data")).with("--shards", "1");
    let server = Server::start(&setup.with("--database-listen", &format!("127.0.0.1:{port}")));
    let peer = Server::start_plain_peer(&Setup::new(&dir.join("peer")));
    let requests = ["SET a 1", "DBSIZE", "KEYS *", "EVAL return(1) 0", "MOVE a 4", "FLUSHDB"];
    for port in [port, peer.port()] {
        let (mut monitor, mut client) = (Connection::open(port).unwrap(), Connection::open(port).unwrap());
        assert_eq!(client.call("SELECT 3"), Value::ok());
        assert_eq!(monitor.call("MONITOR"), Value::ok());
        for request in requests {
            client.call(request);
            let line = monitor.read().unwrap().text();
            let (head, shown) = line.split_once("] ").unwrap();
            assert!(head.contains("[3 127.0.0.1:"), "{port}: {line}");
            assert_eq!(shown.replace('"', ""), request, "{port}");
        }
        // So it is of a script, with the numbers that clients use.
        assert_eq!(Connection::open(port).unwrap().call("SWAPDB 3 6"), Value::ok());
        let calls =
            "redis.call('SET','k','v')redis.call('MOVE','k','5')redis.call('SELECT','4')return(redis.call('DBSIZE'))";
        client.call(&format!("EVAL {calls} 0"));
        let lines: Vec<String> = (0..6).map(|_| monitor.read().unwrap().text()).collect();
        assert!(lines[0].contains("SWAPDB") && lines[1].contains("EVAL"), "{port}: {lines:?}");
        for (line, expected) in lines[2..].iter().zip([
            r#"[3 lua] "SET" "k" "v""#,
            r#"[3 lua] "MOVE" "k" "5""#,
            r#"[4 lua] "SELECT" "4""#,
            r#"[4 lua] "DBSIZE""#,
        ]) {
            assert_eq!(line.split_once(' ').unwrap().1, expected, "{port}");
        }
        client.call("FLUSHDB");
        let list = Connection::open(port).unwrap().call("CLIENT LIST").text();
        assert!(list.contains("cmd=flushdb"), "{port}: {list}");
    }
    drop(server);
}

/// The nodes of a store with a listener for databases each, and its ports.
fn three_nodes(dir: &Dir) -> (Nodes, Vec<u16>) {
    three_nodes_with(dir, "3")
}

/// The same with so many replicas of each shard.
fn three_nodes_with(dir: &Dir, factor: &str) -> (Nodes, Vec<u16>) {
    Nodes::start_with_databases(dir, &[("--shards", "6"), ("--replication-factor", factor)])
}

/// At each node monitors see what the node's clients have sent, with what their scripts run, wherever that is, and nothing of others.
#[test]
fn a_monitor_is_shown_what_scripts_run_at_other_nodes() {
    let dir = Dir::new("databases-monitor-scripts");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let connect = || ports.iter().map(|port| Connection::open(*port).unwrap()).collect::<Vec<_>>();
    let (mut monitors, mut clients) = (connect(), connect());
    let writes = "EVAL redis.call('SET',KEYS[1],'1');return(redis.call('GET',KEYS[1])) 1 a";
    let reads = "EVAL return(redis.call('GET',KEYS[1])) 1 a";
    let only_reads = "EVAL_RO return(redis.call('GET',KEYS[1])) 1 a";
    // Too much for an event loop.
    let is_long = "EVAL for--[[]]i=1,200000--[[]]do--[[]]end;return(redis.call('GET','a')) 0";
    let cases: [(&[&str], &[&str]); 8] = [
        (&["SET a 1"], &[]),
        (&[writes], &["SET a 1", "GET a"]),
        (&[reads], &["GET a"]),
        (&[only_reads], &["GET a"]),
        (&["MULTI", "INCR n", writes, "EXEC"], &["SET a 1", "GET a"]),
        (&[is_long], &["GET a"]),
        (&["COPY a b DB 4 REPLACE"], &[]),
        (&["FLUSHALL"], &[]),
    ];
    for is_resp3 in [false, true] {
        monitors.iter_mut().for_each(|monitor| assert_eq!(monitor.call("MONITOR"), Value::ok()));
        for (n, client) in clients.iter_mut().enumerate() {
            for (requests, calls) in cases {
                for request in requests {
                    assert!(!matches!(client.call(request), Value::Error(_)), "{request}");
                }
                for expected in requests.iter().chain(calls) {
                    let line = monitors[n].read().unwrap().text();
                    assert_eq!(line.split_once("] ").unwrap().1.replace('"', ""), *expected, "{n}: {requests:?}");
                }
            }
        }
        // What comes next is the answer: nothing else was shown.
        monitors.iter_mut().for_each(|monitor| assert_eq!(monitor.call("RESET").text(), "RESET"));
        for client in &mut clients {
            assert_eq!(client.call(writes).text(), "1", "no monitor is there");
            if !is_resp3 {
                client.call("HELLO 3");
            }
        }
    }
}

/// Every node answers for every database, whichever node leads it.
#[test]
fn any_node_answers_as_a_plain_redis() {
    let dir = Dir::new("databases-of-three");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let mut differences = Vec::new();
    for port in &ports {
        for path in &transcripts("databases") {
            assert_eq!(Connection::open(*port).unwrap().call("FLUSHALL"), Value::ok());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            differences.extend(replay(path, *port).into_iter().map(|line| format!("{port}: {name} {line}")));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// A database takes no more keys than it may, also from clients of nodes that have no replica of it.
#[test]
fn a_bound_of_keys_holds_at_every_node() {
    for factor in ["1", "3"] {
        let dir = Dir::new(&format!("databases-keys-max-{factor}"));
        let (nodes, ports) = three_nodes_with(&dir, factor);
        nodes.wait_spread();
        keys_are_bounded(&nodes, &ports);
    }
}

fn keys_are_bounded(nodes: &Nodes, ports: &[u16]) {
    assert!(nodes.run_ctl(&["database", "set", "3", "keys-max=2"]).status.success());
    for port in ports {
        let mut client = Connection::open(*port).unwrap();
        assert_eq!(client.call("SELECT 3"), Value::ok());
        // The node that leads it hears of the bound a moment later.
        let mut keys = 0;
        while client.call(&format!("SET k{keys} v")) == Value::ok() {
            keys += 1;
        }
        for request in ["SET other v", "RPUSH list a", "MSET x 1 y 2"] {
            assert!(client.call(request).text().starts_with("OOM "), "{port}: {request}");
        }
        assert_eq!(client.call("MULTI"), Value::ok());
        client.call("SET other v");
        assert!(client.call("EXEC").text().starts_with("OOM "), "{port}");
        // What is there can be written.
        assert_eq!(client.call("APPEND k0 w"), Value::Int(2), "{port}");
        for request in ["MULTI", "SET k0 v"] {
            client.call(request);
        }
        assert_eq!(client.call("EXEC").words(), "OK", "{port}");
        assert_eq!(client.call("FLUSHDB"), Value::ok());
        assert_eq!(client.call("SET one v"), Value::ok(), "{port}");
        assert_eq!(client.call("SET two v"), Value::ok(), "{port}");
        assert!(client.call("SET three v").text().starts_with("OOM "), "{port}");
        assert_eq!(client.call("DEL one"), Value::Int(1));
        assert_eq!(client.call("SET three v"), Value::ok(), "{port}");
        assert_eq!(client.call("FLUSHDB"), Value::ok());
        no_way_leads_beyond(&mut client, *port);
        assert_eq!(client.call("FLUSHDB"), Value::ok());
        no_slices_lead_beyond(&mut client, *port);
        assert_eq!(client.call("FLUSHDB"), Value::ok());
        no_other_database_leads_beyond(&mut client, *port);
        assert_eq!(client.call("FLUSHDB"), Value::ok());
        keys_leave_a_full_database(&mut client, *port);
        assert_eq!(client.call("FLUSHDB"), Value::ok());
    }
}

/// A database that has as many keys as it may gives them to others: those are the ones that must have room.
fn keys_leave_a_full_database(client: &mut Connection, port: u16) {
    // Some of them are in the shard of the full one, others are not.
    for other in [0, 1, 2, 5, 6, 7, 8, 9] {
        for request in ["SET one v", "SET two v"] {
            assert_eq!(client.call(request), Value::ok(), "{port}: {request}");
        }
        assert!(client.call("SET three v").text().starts_with("OOM "), "{port}");
        assert_eq!(client.call(&format!("COPY one copy DB {other}")), Value::Int(1), "{port}: to {other}");
        assert_eq!(client.call(&format!("MOVE two {other}")), Value::Int(1), "{port}: to {other}");
        assert_eq!(client.call(&format!("SELECT {other}")), Value::ok());
        assert_eq!(client.call("DEL copy two"), Value::Int(2), "{port}: in {other}");
        assert_eq!(client.call("SELECT 3"), Value::ok());
    }
}

/// What comes from another database is judged where it goes to, and stays where it was.
fn no_other_database_leads_beyond(client: &mut Connection, port: u16) {
    for request in ["SET one v", "SET two v", "SELECT 4", "SET moved v"] {
        assert_eq!(client.call(request), Value::ok(), "{port}: {request}");
    }
    for request in ["MOVE moved 3", "COPY moved other DB 3"] {
        assert!(client.call(request).text().starts_with("OOM "), "{port}: {request}");
    }
    assert_eq!(client.call("DEL moved").int(), 1, "{port}: it is still there");
    assert_eq!(client.call("SELECT 3"), Value::ok());
    assert_eq!(client.call("RENAME one three"), Value::ok(), "{port}");
    assert_eq!(client.call("DBSIZE").int(), 2, "{port}");
}

/// What is made in slices passes the gate long before it is there: of many that begin at once, only as many are made as fit.
fn no_slices_lead_beyond(client: &mut Connection, port: u16) {
    let fields: String = (0..10_000).map(|n| format!(" field{n} value")).collect();
    assert_eq!(client.call(&format!("HSET large{fields}")).int(), 10_000, "{port}");
    let mut clients: Vec<Connection> = (0..8).map(|_| Connection::open(port).unwrap()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.call("SELECT 3"), Value::ok()));
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(&Connection::encode(&["COPY", "large", &format!("copy{n}")])).unwrap();
    }
    let answers: Vec<Value> = clients.iter_mut().map(|client| client.read().unwrap()).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == Value::Int(1)).count(), 1, "{port}: {answers:?}");
    let is_refused = |answer: &&Value| answer.text().starts_with("OOM ");
    assert_eq!(answers.iter().filter(is_refused).count(), clients.len() - 1, "{port}: {answers:?}");
    assert_eq!(client.call("DBSIZE").int(), 2, "{port}");
}

/// What was under way when the bound was reached is judged where it is made: a database that may have two keys never has three.
fn no_way_leads_beyond(client: &mut Connection, port: u16) {
    const WRITES: usize = 2000;
    let requests: String = (0..WRITES).map(|n| format!("SET many{n} v\r\n")).collect();
    client.send(requests.as_bytes()).unwrap();
    let answers: Vec<Value> = (0..WRITES).map(|_| client.read().unwrap()).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == Value::ok()).count(), 2, "{port}: a pipeline");
    assert!(answers.iter().all(|answer| *answer == Value::ok() || answer.text().starts_with("OOM ")), "{port}");
    assert_eq!(client.call("DBSIZE").int(), 2, "{port}");
    assert_eq!(client.call("DEL many0").int(), 1, "{port}");
    let script = "for i = 1, 9 do redis.call('SET', 's' .. i, 'v') end";
    for request in [&["MSET", "x", "1", "y", "2"][..], &["EVAL", script, "0"]] {
        assert!(client.try_call(request).unwrap().text().starts_with("OOM "), "{port}: {request:?}");
        assert_eq!(client.call("DBSIZE").int(), 1, "{port}: {request:?}");
    }
    let mut exec = |requests: &[&str]| {
        assert_eq!(client.call("MULTI"), Value::ok());
        requests.iter().for_each(|request| assert_eq!(client.call(request).text(), "QUEUED", "{port}: {request}"));
        client.call("EXEC")
    };
    assert!(exec(&["SET x v", "SET y v"]).text().starts_with("OOM "), "{port}");
    assert_eq!(
        exec(&["DBSIZE", "DEL many1", "SET x v", "SET y v"]).words(),
        "1 1 OK OK",
        "{port}: nothing was written"
    );
}

/// A database is asked no more often than it may be, on however many nodes its clients are.
#[test]
fn a_bound_of_operations_holds_over_all_nodes() {
    const PER_SECOND: usize = 40;
    let dir = Dir::new("databases-ops-max");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    assert!(nodes.run_ctl(&["database", "set", "3", &format!("ops-max={PER_SECOND}")]).status.success());
    let requests = Connection::encode(&["GET", "key"]).repeat(2 * PER_SECOND);
    let made = |client: &mut Connection| {
        let answers = (0..2 * PER_SECOND).map(|_| client.read().unwrap());
        answers.filter(|answer| !matches!(answer, Value::Error(_))).count()
    };
    let mut clients: Vec<Connection> = ports.iter().map(|port| Connection::open(*port).unwrap()).collect();
    for client in &mut clients {
        assert_eq!(client.call("SELECT 3"), Value::ok());
        eventually("the node has heard of the bound", PATIENCE, || {
            client.send(&requests).unwrap();
            (made(client) < 2 * PER_SECOND).then_some(())
        });
    }
    let begun = std::time::Instant::now();
    clients.iter_mut().for_each(|client| client.send(&requests).unwrap());
    let made: usize = clients.iter_mut().map(made).sum();
    // One second may have begun before, and another one begins when it is over.
    let seconds = begun.elapsed().as_secs() as usize + 2;
    assert!(made <= PER_SECOND * seconds, "{made} operations in {seconds} seconds");
}

/// KV.RANGE is about the database that is chosen, whichever node leads it.
#[test]
fn a_range_of_keys_is_of_the_chosen_database() {
    let dir = Dir::new("databases-range");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let mut writer = Connection::open(ports[0]).unwrap();
    for database in [3, 4] {
        assert_eq!(writer.call(&format!("SELECT {database}")), Value::ok());
        for key in ["a", "b", "c"] {
            assert_eq!(writer.call(&format!("SET {key}{database} v")), Value::ok());
        }
    }
    for port in &ports {
        let mut client = Connection::open(*port).unwrap();
        assert_eq!(client.call("SELECT 3"), Value::ok());
        for (request, answer) in [
            ("KV.RANGE - + KEYS", "nil a3 b3 c3"),
            ("KV.RANGE (a3 + LIMIT 1 VALUES", "(b3 b3 v"),
            ("KV.RANGE - [b3 KEYS REVERSE", "nil b3 a3"),
        ] {
            assert_eq!(client.call(request).words(), answer, "{port}: {request}");
        }
        assert!(client.call("KV.RANGE a b").text().contains("not valid string range"), "{port}");
        ["MULTI", "SET d3 v", "KV.RANGE [c3 + KEYS"].iter().for_each(|request| _ = client.call(request));
        assert_eq!(client.call("EXEC").words(), "OK nil c3 d3", "{port}");
        assert_eq!(client.call("DEL d3").int(), 1);
        assert!(client.call("KV.RANGE - + DATABASE 4").is_error(), "{port}");
    }
    assert_eq!(writer.call("SWAPDB 3 4"), Value::ok());
    assert_eq!(writer.call("KV.RANGE - + KEYS").words(), "nil a3 b3 c3", "it has chosen 4");
}

/// Of databases that clients of several nodes exchange at once each is exchanged: no exchange takes another one back.
#[test]
fn exchanges_of_databases_at_once_are_all_made() {
    let dir = Dir::new("databases-exchanges");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let mut client = Connection::open(ports[0]).unwrap();
    for database in 0..6 {
        client.call(&format!("SELECT {database}"));
        assert_eq!(client.call(&format!("SET number {database}")), Value::ok());
    }
    std::thread::scope(|scope| {
        for (port, pair) in ports.iter().zip(["0 1", "2 3", "4 5"]) {
            scope.spawn(move || {
                let mut client = Connection::open(*port).unwrap();
                (0..7).for_each(|_| assert_eq!(client.call(&format!("SWAPDB {pair}")), Value::ok()));
            });
        }
    });
    // The other nodes hear of the last exchange a moment later.
    for database in 0..6 {
        eventually("each has been exchanged an odd number of times", PATIENCE, || {
            client.call(&format!("SELECT {database}"));
            (client.call("GET number").text() == (database ^ 1).to_string()).then_some(())
        });
    }
}

/// What scripts answer comes through whole at every node, however deep or long. After an exchange of the database that is watched EXEC makes
/// nothing, wherever its keys have been; an exchange of others is nothing to it.
#[test]
fn answers_of_scripts_and_watches_are_those_of_a_plain_redis_at_every_node() {
    let dir = Dir::new("databases-answers");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let nested = "redis.call('INCR',KEYS[1]) local t={} for i=1,100 do t={t} end return t";
    let long = |kind: &str| format!("redis.call('INCR',KEYS[1]) return {{{kind}=string.rep('x',100000)}}");
    for (n, port) in ports.iter().enumerate() {
        let mut client = Connection::open(*port).unwrap();
        let made = |client: &mut Connection| client.call("GET n").text();
        let answer = client.try_call(&["EVAL", nested, "1", "n"]).unwrap();
        assert!(!answer.is_error() && made(&mut client) == (1 + 3 * n).to_string(), "{port}: {answer:?}");
        for kind in ["ok", "err"] {
            assert_eq!(
                client.try_call(&["EVAL", &long(kind), "1", "n"]).unwrap().text().len(),
                100_000,
                "{port}: {kind}"
            );
        }
        let mut other = Connection::open(*port).unwrap();
        for pair in ["0 1", "0 1", "7 8"] {
            assert_eq!(client.call("SET k 1"), Value::ok());
            assert_eq!(client.call("WATCH k"), Value::ok());
            assert_eq!(other.call(&format!("SWAPDB {pair}")), Value::ok());
            assert_eq!(client.call("MULTI"), Value::ok());
            client.call("SET k 2");
            let answer = client.call("EXEC").words();
            assert_eq!(answer, if pair == "7 8" { "OK" } else { "*-1" }, "{port}: {pair}");
        }
    }
}

/// A script that has written is not run again for the words of its own error. What is watched stays so behind an EXEC that ends no transaction,
/// wherever the keys are led.
#[test]
fn a_script_is_run_once_and_a_stray_exec_keeps_what_is_watched_at_every_node() {
    let dir = Dir::new("databases-once");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    for port in &ports {
        let (mut client, mut other) = (Connection::open(*port).unwrap(), Connection::open(*port).unwrap());
        assert_eq!(client.call("SET n 0"), Value::ok());
        for text in ["MOVED 1 127.0.0.1:1", "CLUSTERDOWN x", "ERR not written: y", "TIMEOUT the write z"] {
            let script = format!("redis.call('INCR',KEYS[1]) return redis.error_reply('{text}')");
            let answer = client.try_call(&["EVAL", &script, "1", "n"]).unwrap();
            assert_eq!(answer.text(), format!("ERR script: {text}"), "{port}");
        }
        assert_eq!(client.call("GET n").text(), "4", "{port}");
        for stray in ["EXEC", "DISCARD"] {
            assert_eq!((client.call("WATCH n"), client.call(stray).is_error()), (Value::ok(), true));
            assert!(!other.call("INCR n").is_error());
            assert_eq!(client.call("MULTI"), Value::ok());
            client.call("SET n lost");
            assert_eq!(client.call("EXEC").words(), "*-1", "{port}: {stray}");
        }
        assert_eq!(client.call("GET n").text(), "6", "{port}");
    }
}

/// MOVE to a database of another shard takes back its own copy alone, never what others have written there meanwhile.
#[test]
fn a_move_that_begins_again_removes_nothing_of_others() {
    const ROUNDS: usize = 60;
    let dir = Dir::new("databases-moves");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (port, over) = (ports[n % ports.len()], &over);
            scope.spawn(move || {
                let mut client = Connection::open(port).unwrap();
                while !over.load(Ordering::Relaxed) {
                    let answer = client.call(if n < 2 { "SET k source" } else { "MOVE k 2" });
                    assert!(!answer.is_error() || answer.text().starts_with("TRYAGAIN"), "{answer:?}");
                }
            });
        }
        let mut client = Connection::open(ports[0]).unwrap();
        client.call("SELECT 2");
        let mut lost = Vec::new();
        for round in 0..ROUNDS {
            client.call("DEL k");
            client.call(&format!("SET k own{round}"));
            lost.extend((client.call("GET k").text() != format!("own{round}")).then_some(round));
        }
        over.store(true, Ordering::Relaxed);
        assert!(lost.is_empty(), "{lost:?} of {ROUNDS} writes were removed");
    });
}

/// A client that waits in a database which another one takes the place of waits on, for that one's keys: as in Redis.
#[test]
fn a_client_that_waits_in_a_database_that_is_exchanged_waits_on() {
    let dir = Dir::new("databases-exchanged-wait");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let mut writer = Connection::open(ports[0]).unwrap();
    let mut waiting: Vec<Connection> = ports.iter().map(|port| Connection::open(*port).unwrap()).collect();
    for (n, client) in waiting.iter_mut().enumerate() {
        client.send(b"*3\r\n$5\r\nBLPOP\r\n$1\r\nq\r\n$1\r\n0\r\n").unwrap();
        let mut asked = Connection::open(ports[n]).unwrap();
        eventually("it waits", PATIENCE, || asked.call("CLIENT LIST").text().contains(" flags=b").then_some(()));
    }
    assert_eq!(writer.call("SWAPDB 0 4"), Value::ok());
    // They wait on, for the keys that database 0 has now.
    let mut other = Connection::open(ports[1]).unwrap();
    assert_eq!(other.call("SELECT 4"), Value::ok());
    assert_eq!(other.call("RPUSH q none").int(), 1);
    let elements: Vec<String> = (0..3).map(|n| n.to_string()).collect();
    assert_eq!(writer.call(&format!("RPUSH q {}", elements.join(" "))).int(), 3);
    let mut popped: Vec<String> = waiting.iter_mut().map(|client| client.read().unwrap().words()).collect();
    popped.sort();
    assert_eq!(popped, ["q 0", "q 1", "q 2"]);
    // What the other database has is theirs at once, a time that they have set is over when it is, and they can be told to wait no longer.
    for (n, client) in waiting.iter_mut().enumerate() {
        let mut asked = Connection::open(ports[n]).unwrap();
        let id = client.call("CLIENT ID").int();
        let mut swap_while = |words: &str| {
            client.send(&Connection::encode(&words.split(' ').collect::<Vec<_>>())).unwrap();
            eventually("it waits", PATIENCE, || asked.call("CLIENT LIST").text().contains(" flags=b").then_some(()));
            assert_eq!(writer.call("SWAPDB 0 4"), Value::ok());
            if words.starts_with("XREAD") {
                assert_eq!(asked.call(&format!("CLIENT UNBLOCK {id} ERROR")).int(), 1);
            }
            client.read().unwrap().words()
        };
        assert_eq!(swap_while("BLMOVE q to LEFT RIGHT 0"), "none", "{n}");
        assert_eq!(swap_while("BZPOPMIN z 0.5"), "*-1", "{n}");
        assert_eq!(swap_while("XREAD BLOCK 0 STREAMS s 0"), "UNBLOCKED client unblocked via CLIENT UNBLOCK", "{n}");
        assert_eq!(writer.call("LPOP to").text(), "none", "{n}");
        assert_eq!(writer.call("SWAPDB 0 4"), Value::ok());
        assert_eq!(other.call("RPUSH q none").int(), 1);
    }
}

/// A client that waits at the end of a stream (`$`) waits on behind that id, whichever stream comes to its place: as in Redis.
#[test]
fn a_wait_at_the_end_of_a_stream_keeps_its_id_when_its_database_is_exchanged() {
    let dir = Dir::new("databases-exchanged-stream");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let mut writer = Connection::open(ports[0]).unwrap();
    let mut other = Connection::open(ports[0]).unwrap();
    assert_eq!(other.call("SELECT 4"), Value::ok());
    for (n, port) in ports.iter().enumerate() {
        let (mut client, mut asked) = (Connection::open(*port).unwrap(), Connection::open(*port).unwrap());
        let mut begin = |client: &mut Connection| {
            client.send(&Connection::encode(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"])).unwrap();
            eventually("it waits", PATIENCE, || asked.call("CLIENT LIST").text().contains(" flags=b").then_some(()));
        };
        writer.call("XADD s 5-1 of first");
        other.call("XADD s 4-1 of second");
        begin(&mut client);
        assert_eq!(writer.call("SWAPDB 0 4"), Value::ok());
        writer.call("XADD s 5-0 of second");
        writer.call("XADD s 6-1 of second");
        assert_eq!(client.read().unwrap().words(), "s 6-1 of second", "{n}");
        // What is behind that id is there already.
        other.call("XADD s 7-1 of first");
        begin(&mut client);
        assert_eq!(writer.call("SWAPDB 0 4"), Value::ok());
        assert_eq!(client.read().unwrap().words(), "s 7-1 of first", "{n}");
        assert_eq!((writer.call("DEL s").int(), other.call("DEL s").int()), (1, 1));
    }
}

/// A request whose keys cannot be found is refused at once, whichever database is chosen at whichever node.
#[test]
fn a_request_without_its_keys_is_refused_everywhere() {
    let dir = Dir::new("databases-no-keys");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    for port in &ports {
        let mut client = Connection::open(*port).unwrap();
        for database in 0..16 {
            assert_eq!(client.call(&format!("SELECT {database}")), Value::ok());
            for request in ["LMPOP 0 a LEFT", "SINTERCARD 0 a"] {
                let text = client.call(request).text();
                assert!(text.contains("numkeys should be greater than 0"), "{port}, {database}: {request}: {text}");
            }
        }
    }
}

/// Requests in a pipeline are answered in their order, and a client at another node hears of a node's death as a pause.
#[test]
fn a_dead_leader_is_a_pause_for_clients_of_other_nodes() {
    let dir = Dir::new("databases-dead-leader");
    let (mut nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    // The slot of database 0 is 0, as is that of this key.
    let leader = nodes.leader(0, "{06S}");
    let other = (leader + 1) % 3;
    let mut connection = Connection::open(ports[other]).unwrap();
    connection.patience(Duration::from_secs(30));
    for i in 0..1000 {
        connection.send(&Connection::encode(&["SET", &format!("key{i}"), &i.to_string()])).unwrap();
        connection.send(&Connection::encode(&["GET", &format!("key{i}")])).unwrap();
    }
    for i in 0..1000 {
        assert_eq!(connection.read().unwrap(), Value::ok());
        assert_eq!(connection.read().unwrap(), Value::bulk(i.to_string()));
    }
    assert_eq!(connection.call("WATCH key1"), Value::ok());
    nodes.kill(leader);
    // What only reads is made again; keys that were watched at the dead node count as changed.
    for i in 0..100 {
        assert_eq!(connection.call(&format!("GET key{i}")), Value::bulk(i.to_string()), "after {i}");
    }
    assert_eq!(connection.call("MULTI"), Value::ok());
    assert_eq!(connection.call("SET key1 changed").text(), "QUEUED");
    assert_eq!(format!("{:?}", connection.call("EXEC")), "*-1");
    assert_eq!(connection.call("GET key1"), Value::bulk("1"));
    assert_eq!(connection.call("MSET key1 a key2 b"), Value::ok());
    assert_eq!(connection.call("DBSIZE").int(), 1000);
}

/// A client that waits at another node's leader is told to wait no longer, by CLIENT UNBLOCK at its own.
#[test]
fn a_wait_by_way_of_another_node_is_ended_by_client_unblock() {
    let dir = Dir::new("databases-unblock");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let other = (nodes.leader(0, "{06S}") + 1) % 3;
    let mut waits = Connection::open(ports[other]).unwrap();
    waits.patience(Duration::from_secs(30));
    let mut tells = Connection::open(ports[other]).unwrap();
    let id = waits.call("CLIENT ID").int();
    for (word, expected) in [("TIMEOUT", "*-1"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")] {
        waits.send(&Connection::encode(&["BLPOP", "list", "0"])).unwrap();
        // It waits from some moment on.
        while tells.call(&format!("CLIENT UNBLOCK {id} {word}")).int() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(format!("{:?}", waits.read().unwrap()), expected);
    }
    waits.call("SET k v");
    assert!(waits.call("WAIT 1 1000").int() >= 1, "a follower has it");
    // The node that leads knows what was written before the transaction.
    for (words, answer) in [("MULTI", "OK"), ("GET k", "QUEUED"), ("WAIT 1 0", "QUEUED")] {
        assert_eq!(waits.call(words).text(), answer, "{words}");
    }
    let held = waits.call("EXEC").items()[1].int();
    assert!((1..=2).contains(&held), "{held}");
}

/// Where clients reach nodes at other addresses than those on which they listen, they are told these.
#[test]
fn clients_are_told_the_addresses_that_are_announced() {
    let dir = Dir::new("databases-announced");
    let arguments = [("--shards", "6"), ("--set", "announce-database=kv.example:6379")];
    let (_nodes, ports) = Nodes::start_with_databases(&dir, &arguments);
    let mut asks = Connection::open(ports[1]).unwrap();
    let address = asks.call("SENTINEL get-master-addr-by-name mymaster");
    assert_eq!(format!("{address:?}"), "[\"kv.example\" \"6379\"]");
    // It has met the others, and asked them where clients reach them.
    let others = loop {
        let others = asks.call("SENTINEL sentinels mymaster");
        if others.items().len() == 2 {
            break others;
        }
        std::thread::yield_now();
    };
    for other in others.items() {
        assert!(format!("{other:?}").contains("\"kv.example:6379\""), "{other:?}");
    }
}

/// Clients that are configured for Sentinel hear of a node's death, and of the node that serves them from then on.
#[test]
fn the_loss_of_a_node_is_told_as_a_switch_of_the_master() {
    let dir = Dir::new("databases-switch");
    let (mut nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let mut listens = Connection::open(ports[1]).unwrap();
    listens.patience(Duration::from_secs(30));
    let address = listens.call("SENTINEL get-master-addr-by-name mymaster");
    assert_eq!(format!("{address:?}"), format!("[\"127.0.0.1\" \"{}\"]", ports[1]));
    assert_eq!(format!("{:?}", listens.call("SUBSCRIBE +switch-master")), "[\"subscribe\" \"+switch-master\" :1]");
    // It has met the others, and asked them where they listen.
    let mut asks = Connection::open(ports[1]).unwrap();
    while asks.call("SENTINEL sentinels mymaster").items().len() < 2 {
        std::thread::yield_now();
    }
    nodes.kill(0);
    let expected = format!("mymaster 127.0.0.1 {} 127.0.0.1 {}", ports[0], ports[1]);
    // It tells of the loss of any node that clients may have asked for; how many that are is not known here.
    while !format!("{:?}", listens.read().unwrap()).contains(&expected) {}
}

/// A node that hands its shard over has not made what it had taken: another does, also for clients that wait.
#[test]
fn clients_of_a_leader_hear_nothing_of_its_hand_over() {
    const AT_ONCE: i64 = 50;
    let dir = Dir::new("databases-hand-over");
    let (nodes, ports) = three_nodes(&dir);
    nodes.wait_spread();
    let leader = nodes.leader(0, "{06S}");
    let connect = |node: usize| {
        let connection = Connection::open(ports[node]).unwrap();
        connection.patience(Duration::from_secs(30));
        connection
    };
    let mut waiting = connect(leader);
    waiting.send(&Connection::encode(&["BLPOP", "queue", "0"])).unwrap();
    let is_drained = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writing = connect(leader);
            let mut count = 0;
            let mut last_rounds = 20;
            while last_rounds > 0 {
                last_rounds -= i64::from(is_drained.load(Ordering::Relaxed));
                (0..AT_ONCE).for_each(|_| writing.send(&Connection::encode(&["INCR", "counter"])).unwrap());
                for _ in 0..AT_ONCE {
                    count += 1;
                    assert_eq!(writing.read().unwrap(), Value::Int(count));
                }
            }
        });
        assert!(nodes.ctl(&["drain-leaders", &nodes.address(leader)]).is_some(), "ctl drain-leaders");
        is_drained.store(true, Ordering::Relaxed);
    });
    assert_eq!(connect((leader + 1) % 3).call("RPUSH queue element"), Value::Int(1));
    assert_eq!(
        format!("{:?}", waiting.read().unwrap()),
        format!("{:?}", Value::Array(vec![Value::bulk("queue"), Value::bulk("element")]))
    );
}

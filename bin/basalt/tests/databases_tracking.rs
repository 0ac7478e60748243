//! CLIENT TRACKING for clients of databases, whichever node leads what they read.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Connection, Dir, Nodes, Value};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// The nodes of a store with a listener for databases each, and its ports.
fn three_nodes(dir: &Dir, factor: &str) -> (Nodes, Vec<u16>) {
    let (nodes, ports) = Nodes::start_with_databases(dir, &[("--shards", "6"), ("--replication-factor", factor)]);
    nodes.wait_spread();
    (nodes, ports)
}

fn connect(port: u16) -> Connection {
    let connection = Connection::open(port).unwrap();
    connection.patience(PATIENCE);
    connection
}

/// A client of RESP3 that has its reads tracked.
fn tracked(port: u16, options: &str) -> Connection {
    let mut connection = connect(port);
    connection.call("HELLO 3");
    assert_eq!(connection.call(&format!("CLIENT TRACKING ON {options}")), Value::ok());
    connection
}

/// The next thing that comes, which is a push.
fn pushed(connection: &mut Connection) -> String {
    let value = connection.read().unwrap();
    assert!(matches!(value, Value::Push(_)), "{value:?}");
    value.words()
}

/// Nothing has been told that was not expected.
fn told_no_more(reader: &mut Connection) {
    assert_eq!(reader.call("PING").text(), "PONG");
}

#[test]
fn a_client_is_told_of_what_it_has_read_at_any_node() {
    for factor in ["3", "1"] {
        let dir = Dir::new(&format!("databases-tracking-{factor}"));
        let (_nodes, ports) = three_nodes(&dir, factor);
        let mut writer = connect(ports[0]);
        for (n, port) in ports.iter().enumerate() {
            let mut reader = tracked(*port, "");
            assert_eq!(writer.call("SET a 1"), Value::ok());
            let of_script = "EVAL_RO return(redis.call('GET',KEYS[1])) 1 a";
            // Those that write too go through the log; some declare nothing, or read what they have written.
            let of_writer = "EVAL redis.call('SET','w','1');return(redis.call('GET',KEYS[1])) 1 a";
            let of_undeclared = "EVAL redis.call('SET','w','1');return(redis.call('GET','a')) 1 w";
            let behind = "EVAL redis.call('SET',KEYS[1],'1');return(redis.call('GET',KEYS[1])) 1 a";
            let within: [&[&str]; 10] = [
                &["GET a"],
                &["MULTI", "GET a", "EXEC"],
                &["MULTI", "SET w 1", "GET a", "EXEC"],
                &[of_script],
                &["EVAL return(redis.call('GET','a')) 0"],
                &[of_writer],
                &[of_undeclared],
                &["MULTI", of_writer, "EXEC"],
                &["MULTI", of_script, "EXEC"],
                &[behind],
            ];
            for requests in within {
                let replies: Vec<String> = requests.iter().map(|request| reader.call(request).words()).collect();
                assert!(replies.last().unwrap().ends_with('1'), "{requests:?}: {replies:?}");
                assert_eq!(writer.call("SET a 1"), Value::ok());
                assert_eq!(pushed(&mut reader), "invalidate a", "{factor}: node {n}: {requests:?}");
            }
            // What scripts declare and do not read is none of it.
            let unread = ["EVAL return(redis.call('SET','w','1')) 1 a", "EVAL return(1) 1 a", "EVAL_RO return(1) 1 a"];
            unread.iter().for_each(|request| _ = reader.call(request));
            assert_eq!(writer.call("SET a 2"), Value::ok());
            told_no_more(&mut reader);
            // A change behind the read is told at once.
            let request = "EVAL return(redis.call('SET','a',redis.call('GET','a')+1)) 1 a";
            assert_eq!(reader.call(request), Value::ok());
            assert_eq!(pushed(&mut reader), "invalidate a");
            told_no_more(&mut reader);
            // A script that is new to the store changes its map, and no key.
            reader.call("GET a");
            assert_eq!(writer.call(&format!("EVAL return('{n}-{factor}') 0")).text(), format!("{n}-{factor}"));
            assert_eq!(writer.call("SET a 2"), Value::ok());
            assert_eq!(pushed(&mut reader), "invalidate a", "{factor}: node {n}: a new script");
            // Its own change is told behind the answer.
            reader.call("GET a");
            assert_eq!(reader.call("SET a 1"), Value::ok());
            assert_eq!(pushed(&mut reader), "invalidate a");
            // Several databases, and a key of the same name that was not read.
            assert_eq!(reader.call("SELECT 3"), Value::ok());
            reader.call("GET a");
            assert_eq!(writer.call("SELECT 3"), Value::ok());
            assert_eq!(writer.call("SET a 3"), Value::ok());
            assert_eq!(pushed(&mut reader), "invalidate a");
            reader.call("GET a");
            // A key that is not there may be cached too.
            for flush in ["FLUSHDB", "FLUSHALL ASYNC"] {
                reader.call("GET none");
                assert_eq!(writer.call(flush), Value::ok());
                assert_eq!(pushed(&mut reader), "invalidate nil", "{factor}: node {n}: {flush}");
                told_no_more(&mut reader);
            }
            assert_eq!(writer.call("SELECT 0"), Value::ok());
            assert_eq!(reader.call("CLIENT TRACKING OFF"), Value::ok());
            reader.call("GET a");
            writer.call("DEL a");
            told_no_more(&mut reader);
        }
        // Another key has the name from then on.
        let mut readers: Vec<Connection> = ports.iter().map(|port| tracked(*port, "")).collect();
        readers.iter_mut().for_each(|reader| _ = reader.call("GET a"));
        assert_eq!(writer.call("SWAPDB 0 5"), Value::ok());
        for reader in &mut readers {
            while pushed(reader) != "invalidate nil" {}
        }
    }
}

#[test]
fn what_is_asked_for_holds_at_any_node() {
    let dir = Dir::new("databases-tracking-modes");
    let (_nodes, ports) = three_nodes(&dir, "3");
    let mut writer = connect(ports[0]);
    for port in &ports {
        let mut reader = tracked(*port, "NOLOOP");
        reader.call("MGET own other");
        assert_eq!(reader.call("SET own 1"), Value::ok());
        assert_eq!(writer.call("SET other 1"), Value::ok());
        assert_eq!(pushed(&mut reader), "invalidate other");
        // What is read behind a change of one's own is told of.
        ["MULTI", "SET own 2", "GET own", "EXEC"].iter().for_each(|request| _ = reader.call(request));
        told_no_more(&mut reader);
        assert_eq!(writer.call("SET own 3"), Value::ok());
        assert_eq!(pushed(&mut reader), "invalidate own");
        for (options, caching, without) in [("OPTIN", "YES", false), ("OPTOUT", "NO", true)] {
            let mut reader = tracked(*port, options);
            for given in [false, true] {
                if given {
                    assert_eq!(reader.call(&format!("CLIENT CACHING {caching}")), Value::ok());
                }
                reader.call("GET a");
                assert_eq!(writer.call("SET a 1"), Value::ok());
                if given != without {
                    assert_eq!(pushed(&mut reader), "invalidate a", "{options} {given}");
                }
                told_no_more(&mut reader);
                if given {
                    assert_eq!(reader.call(&format!("CLIENT CACHING {caching}")), Value::ok());
                }
                ["MULTI", "GET b", "EXEC"].iter().for_each(|request| _ = reader.call(request));
                assert_eq!(writer.call("SET b 1"), Value::ok());
                if given != without {
                    assert_eq!(pushed(&mut reader), "invalidate b", "{options} {given}");
                }
                told_no_more(&mut reader);
            }
        }
        // A client of RESP2 has another connection told.
        let (mut listener, mut old) = (connect(*port), connect(*port));
        let id = listener.call("CLIENT ID").int();
        listener.call("SUBSCRIBE __redis__:invalidate");
        assert_eq!(old.call(&format!("CLIENT TRACKING ON REDIRECT {id}")), Value::ok());
        assert_eq!(old.call("GET a").text(), "1");
        assert_eq!(writer.call("SET a 1"), Value::ok());
        assert_eq!(listener.read().unwrap().words(), "message __redis__:invalidate a");
        told_no_more(&mut old);
    }
}

#[test]
fn all_nodes_tell_of_prefixes() {
    for factor in ["3", "1"] {
        let dir = Dir::new(&format!("databases-tracking-prefixes-{factor}"));
        let (nodes, ports) = three_nodes(&dir, factor);
        let mut of_cluster = nodes.connect(0);
        of_cluster.call("HELLO 3");
        assert_eq!(of_cluster.call("CLIENT TRACKING ON BCAST"), Value::ok());
        let mut writer = connect(ports[0]);
        for (n, port) in ports.iter().enumerate() {
            let mut reader = tracked(*port, "BCAST PREFIX a: NOLOOP");
            // Each node that leads databases tells it: once it does, the client is told to forget what it may have missed before.
            for node in 0..3 {
                if node != n && (0..16).any(|database| leader_of(&nodes, database) == node) {
                    assert_eq!(pushed(&mut reader), "invalidate nil", "{factor}: node {n}");
                }
            }
            for database in 0..16 {
                assert_eq!(writer.call(&format!("SELECT {database}")), Value::ok());
                assert_eq!(writer.call("MSET a:1 x a:2 x b:1 x"), Value::ok());
                // A replica that moves meanwhile has it forget all, too.
                let told = std::iter::repeat_with(|| pushed(&mut reader)).find(|told| told != "invalidate nil");
                assert_eq!(told.as_deref(), Some("invalidate a:1 a:2"), "{factor}: node {n}, database {database}");
                for line in [format!("SELECT {database}"), "SET a:own x".to_owned()] {
                    let mut answer = reader.call(&line);
                    while answer.words() == "invalidate nil" {
                        answer = reader.read().unwrap();
                    }
                    assert_eq!(answer, Value::ok(), "{line}");
                }
            }
            // That a database with keys is emptied it is told once.
            assert_eq!(writer.call("FLUSHDB"), Value::ok());
            assert_eq!(pushed(&mut reader), "invalidate nil", "{factor}: node {n}");
            assert_eq!(writer.call("FLUSHDB"), Value::ok());
            told_no_more(&mut reader);
            assert_eq!(reader.call("CLIENT TRACKING OFF"), Value::ok());
            writer.call("SET a:1 y");
            told_no_more(&mut reader);
        }
        // It is told of no keys of databases.
        let told = std::iter::repeat_with(|| of_cluster.call("PING")).find(|told| told.words() != "invalidate nil");
        assert_eq!(told.unwrap().text(), "PONG");
    }
}

/// The node that leads a database.
fn leader_of(nodes: &Nodes, database: u16) -> usize {
    // Its slot has the bits of its number in the opposite order.
    nodes.leader_of_slot(0, database.reverse_bits() >> 2)
}

/// Whose node or leader is gone, or leads no longer, is told to forget all.
#[test]
fn a_client_that_cannot_be_sure_forgets_all() {
    let dir = Dir::new("databases-tracking-leaders");
    let (mut nodes, ports) = three_nodes(&dir, "3");
    let leader = leader_of(&nodes, 0);
    let other = (leader + 1) % 3;
    let mut writer = connect(ports[other]);
    writer.call("SET a 1");
    let mut reader = tracked(ports[other], "");
    assert_eq!(reader.call("GET a").text(), "1");
    assert!(nodes.run_ctl(&["drain-leaders", &nodes.address(leader)]).status.success());
    assert_eq!(pushed(&mut reader), "invalidate nil");
    // It goes on where the new leader is; it may be told to forget all once more.
    let mut told = String::new();
    while told != "invalidate a" {
        reader.send(&Connection::encode(&["GET", "a"])).unwrap();
        while matches!(reader.read().unwrap(), Value::Push(_)) {}
        writer.call("SET a 2");
        told = pushed(&mut reader);
    }
    let leader = leader_of(&nodes, 0);
    let other = (leader + 1) % 3;
    let mut reader = tracked(ports[other], "");
    let mut by_prefix = tracked(ports[other], "BCAST");
    assert_eq!(reader.call("GET a").text(), "2");
    assert_eq!(pushed(&mut by_prefix), "invalidate nil");
    nodes.kill(leader);
    assert_eq!(pushed(&mut reader), "invalidate nil");
    assert_eq!(pushed(&mut by_prefix), "invalidate nil");
    let mut writer = connect(ports[other]);
    writer.call("SET a 3");
    while !pushed(&mut by_prefix).starts_with("invalidate a") {
        writer.call("SET a 3");
    }
}

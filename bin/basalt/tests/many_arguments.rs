//! Requests of very many arguments run on a thread, to which their connection is lent: they answer as others do, and what comes
//! for the connection meanwhile reaches it in its order.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Connection, Dir, Nodes, Server, Setup, Value};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// More than an event loop takes.
const MANY: usize = 5_000;

fn names(prefix: &str) -> Vec<String> {
    (0..MANY).map(|n| format!("{{k}}{prefix}{n}")).collect()
}

fn request(words: &[&str], more: &[String]) -> Vec<u8> {
    let words: Vec<&str> = words.iter().copied().chain(more.iter().map(String::as_str)).collect();
    Connection::encode(&words)
}

fn ask(connection: &mut Connection, words: &[&str], more: &[String]) -> Value {
    connection.send(&request(words, more)).unwrap();
    connection.read().unwrap()
}

/// Requests of every kind, one behind the other on one connection, before any answer is read.
fn answers_keep_their_order(connection: &mut Connection) {
    let keys = names("s");
    let pairs: Vec<String> = keys.iter().flat_map(|key| [key.clone(), "v".to_owned()]).collect();
    let members: Vec<String> = (0..MANY).map(|n| format!("m{n}")).collect();
    let mut sent = Vec::new();
    let mut expected = Vec::new();
    let count = |n: usize| Value::Int(n as i64);
    let mut add = |bytes: Vec<u8>, answer: Value| {
        sent.extend(bytes);
        expected.push(answer);
    };
    for _ in 0..3 {
        add(request(&["PING"], &[]), Value::Simple("PONG".into()));
        add(request(&["MSET"], &pairs), Value::ok());
        add(request(&["SET", "{k}a", "1"], &[]), Value::ok());
        add(request(&["EXISTS"], &keys), count(MANY));
        add(request(&["INCR", "{k}a"], &[]), count(2));
        add(request(&["MGET"], &keys), Value::Array(vec![Value::bulk("v"); MANY]));
        add(request(&["SADD", "{k}t"], &members), count(MANY));
        add(request(&["SMISMEMBER", "{k}t"], &members), Value::Array(vec![count(1); MANY]));
        add(request(&["ECHO", &"e".repeat(1 << 20)], &[]), Value::bulk("e".repeat(1 << 20)));
        add(request(&["DEL", "{k}t"], &keys), count(MANY + 1));
        add(request(&["WATCH"], &keys), Value::ok());
        add(request(&["MULTI"], &[]), Value::ok());
        add(request(&["MSET"], &pairs), Value::Simple("QUEUED".into()));
        add(request(&["GET", "{k}a"], &[]), Value::Simple("QUEUED".into()));
        add(request(&["EXEC"], &[]), Value::Array(vec![Value::ok(), Value::bulk("2")]));
        // What is about all of a node runs there, too, however short its request is.
        let (of_node, none) = (&["PUBSUB", "CHANNELS"][..], || Value::Array(Vec::new()));
        add(request(of_node, &[]), none());
        add(request(&["MULTI"], &[]), Value::ok());
        add(request(of_node, &[]), Value::Simple("QUEUED".into()));
        add(request(&["EXEC"], &[]), Value::Array(vec![none()]));
        add(request(&["CLIENT", "KILL", "USER", "default", "ID", "1000000"], &[]), count(0));
        add(request(&["UNLINK"], &keys), count(MANY));
        add(request(&["GET", "{k}a"], &[]), Value::bulk("2"));
    }
    connection.send(&sent).unwrap();
    for (n, expected) in expected.iter().enumerate() {
        let answer = connection.read().unwrap();
        assert!(answer == *expected, "answer {n} is another one: {:.200}", answer.words());
    }
}

#[test]
fn requests_of_very_many_arguments_answer_in_their_order() {
    let dir = Dir::new("many-arguments");
    let server = Server::start(&Setup::new(dir.path()));
    let mut connection = Connection::open(server.port()).unwrap();
    connection.patience(PATIENCE);
    answers_keep_their_order(&mut connection);
    // Errors are those of small requests.
    let keys = names("s");
    for (words, text) in [
        (&["NOSUCH"][..], "ERR unknown command 'NOSUCH'"),
        (&["GET"], "ERR wrong number of arguments for 'get' command"),
        (&["MGET", "other"], "CROSSSLOT"),
        (&["LMPOP", "x"], "ERR"),
        (&["BLPOP"], "ERR"),
    ] {
        let answer = ask(&mut connection, words, &keys);
        assert!(answer.is_error() && answer.text().contains(text), "{words:?}: {answer:?}");
    }
    assert_eq!(connection.call("PING").text(), "PONG");
}

#[test]
fn a_transaction_of_very_many_commands_is_run_left_and_spoiled() {
    let dir = Dir::new("many-commands");
    let server = Server::start(&Setup::new(dir.path()));
    let mut connection = Connection::open(server.port()).unwrap();
    connection.patience(PATIENCE);
    let queue = |connection: &mut Connection, command: &[&str]| {
        let bytes = [request(&["MULTI"], &[]), request(command, &[]).repeat(MANY)].concat();
        connection.send(&bytes).unwrap();
        (0..=MANY).for_each(|_| assert!(!connection.read().unwrap().is_error()));
    };
    queue(&mut connection, &["INCR", "{k}n"]);
    let answers: Vec<Value> = (1..=MANY as i64).map(Value::Int).collect();
    assert!(ask(&mut connection, &["EXEC"], &[]) == Value::Array(answers));
    queue(&mut connection, &["GET", "{k}n"]);
    assert!(ask(&mut connection, &["EXEC"], &[]) == Value::Array(vec![Value::bulk(MANY.to_string()); MANY]));
    queue(&mut connection, &["PING"]);
    assert_eq!(ask(&mut connection, &["EXEC"], &[]).items().len(), MANY);
    queue(&mut connection, &["INCR", "{k}n"]);
    assert_eq!(ask(&mut connection, &["DISCARD"], &[]), Value::ok());
    queue(&mut connection, &["INCR", "{k}n"]);
    assert!(connection.call("NOSUCH").is_error());
    assert!(connection.call("EXEC").text().starts_with("EXECABORT"));
    queue(&mut connection, &["INCR", "{k}n"]);
    assert_eq!(connection.call("RESET").text(), "RESET");
    assert_eq!(connection.call("GET {k}n"), Value::bulk(MANY.to_string()));
    // One that goes away with all that it has queued harms no other.
    queue(&mut connection, &["INCR", "{k}n"]);
    drop(connection);
    let mut other = Connection::open(server.port()).unwrap();
    assert_eq!(other.call("GET {k}n"), Value::bulk(MANY.to_string()));
}

#[test]
fn what_comes_for_a_connection_while_it_is_away_reaches_it() {
    let dir = Dir::new("many-channels");
    let server = Server::start(&Setup::new(dir.path()).with("--workers", "2"));
    let channels = names("c");
    let (mut heard, mut confirmed, mut told) = (0, 0, 0);
    let mut subscriber = Connection::open(server.port()).unwrap();
    let mut publisher = Connection::open(server.port()).unwrap();
    [&subscriber, &publisher].iter().for_each(|connection| connection.patience(PATIENCE));
    subscriber.call("HELLO 3");
    // A message is in the order of what has been subscribed: each comes, and once.
    let mut read = |subscriber: &mut Connection, until: usize, told: i64| {
        while confirmed < until || heard < told {
            let words = subscriber.read().unwrap().words();
            match words.split(' ').next().unwrap() {
                "subscribe" | "unsubscribe" => confirmed += 1,
                "message" => heard += 1,
                other => panic!("{other}"),
            }
        }
        assert_eq!(heard, told, "each message comes once");
    };
    for round in 1..=3 {
        subscriber.send(&request(&["SUBSCRIBE"], &channels)).unwrap();
        for channel in &channels[..500] {
            told += publisher.call(&format!("PUBLISH {channel} hello")).int();
        }
        read(&mut subscriber, (2 * round - 1) * MANY, told);
        subscriber.send(&request(&["UNSUBSCRIBE"], &[])).unwrap();
        read(&mut subscriber, 2 * round * MANY, told);
    }
    // One that is closed with all its subscriptions leaves none.
    subscriber.send(&request(&["SUBSCRIBE"], &channels)).unwrap();
    read(&mut subscriber, 7 * MANY, told);
    drop(subscriber);
    // They end in slices: the first channel may be free while others are not.
    common::eventually("its subscriptions end", PATIENCE, || {
        publisher.call("PUBSUB CHANNELS").items().is_empty().then_some(())
    });
    assert_eq!(publisher.call(&format!("PUBLISH {} x", channels[0])), Value::Int(0));
}

#[test]
fn requests_of_very_many_arguments_go_to_the_node_that_leads() {
    let dir = Dir::new("many-arguments-nodes");
    let (nodes, ports) = Nodes::start_with_databases(&dir, &[("--shards", "3")]);
    // What is watched counts as changed when its leader hands over.
    nodes.wait_spread();
    for port in ports {
        let mut connection = Connection::open(port).unwrap();
        connection.patience(PATIENCE);
        answers_keep_their_order(&mut connection);
    }
}

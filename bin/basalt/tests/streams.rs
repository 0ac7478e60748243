//! Long replies: made from one snapshot as the client takes them, with little memory; and clients that take nothing.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Server, Setup, Value, eventually};
use std::collections::BTreeMap;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// What a node may take beyond what it took before, for replies of hundreds of MiB.
const GROWTH_MAX: u64 = 160 * MIB;

fn start(dir: &Dir) -> Server {
    Server::start(&Setup::new(&dir.join("data")).with("--memory", "64M").with("--durability", "nosync"))
}

/// A hash of so many fields with values of so many bytes.
fn fill(client: &mut Connection, key: &str, fields: usize, bytes: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let value = |n: usize| format!("{n:06}").repeat(bytes / 6).into_bytes();
    let all: BTreeMap<Vec<u8>, Vec<u8>> = (0..fields).map(|n| (format!("field{n}").into_bytes(), value(n))).collect();
    for chunk in all.iter().collect::<Vec<_>>().chunks(100) {
        let mut args: Vec<&[u8]> = vec![b"HSET", key.as_bytes()];
        args.extend(chunk.iter().flat_map(|(field, value)| [&field[..], &value[..]]));
        assert_eq!(client.try_call(&args).unwrap(), Value::Int(chunk.len() as i64));
    }
    all
}

fn pairs(reply: &Value) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pair = |two: &[Value]| (two[0].bytes().unwrap().to_vec(), two[1].bytes().unwrap().to_vec());
    reply.items().chunks(2).map(pair).collect()
}

#[test]
fn a_reply_is_of_one_moment_whatever_is_written_while_the_client_takes_it() {
    let dir = Dir::new("streams-moment");
    let server = start(&dir);
    let mut reader = server.connect();
    let mut writer = server.connect();
    let all = fill(&mut writer, "{h}", 20_000, 1200);
    for protocol in ["2", "3"] {
        reader.call(&format!("HELLO {protocol}"));
        // The reply is begun, and stops where the client takes no more.
        reader.send(&Connection::encode(&["HGETALL", "{h}"])).unwrap();
        reader.send(&Connection::encode(&["PING"])).unwrap();
        // Until then it may look for its rows, and is of a later moment; PING's answer waits as well.
        reader.begun().unwrap();
        eventually("the reply waits for its client", Duration::from_secs(30), || {
            let list = writer.call("CLIENT LIST").text();
            list.lines().any(|line| line.contains("cmd=ping") && !line.contains("omem=0 ")).then_some(())
        });
        for n in 0..2000 {
            writer.call(&format!("HDEL {{h}} field{}", n * 7));
        }
        writer.call("RENAME {h} {h}2");
        writer.call("SET {h} gone");
        let reply = reader.read().unwrap();
        assert!(matches!((protocol, &reply), ("2", Value::Array(_)) | ("3", Value::Map(_))));
        let found = pairs(&reply);
        let lacking: Vec<_> = all.iter().filter(|(field, value)| found.get(*field) != Some(value)).collect();
        assert!(found == all, "{} fields, {} of those that were there are not", found.len(), lacking.len());
        assert_eq!(reader.read().unwrap(), Value::Simple("PONG".to_owned()), "answers keep their order");
        writer.call("DEL {h} {h}2");
        fill(&mut writer, "{h}", 20_000, 1200);
    }
    assert!(server.stop());
}

#[test]
fn replies_much_larger_than_the_memory_take_little_of_it() {
    let dir = Dir::new("streams-memory");
    let server = start(&dir);
    let mut client = server.connect();
    let all = fill(&mut client, "{h}", 30_000, 3000);
    let large = vec![b'v'; 8 << 20];
    client.try_call(&[&b"SET"[..], b"{h}large", &large]).unwrap();
    let before = server.resident_bytes();
    let mut readers: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
    let mget: Vec<&str> = std::iter::once("MGET").chain(std::iter::repeat_n("{h}large", 40)).collect();
    for reader in &mut readers {
        reader.patience(Duration::from_secs(120));
    }
    readers[0].send(&Connection::encode(&["HGETALL", "{h}"])).unwrap();
    readers[1].send(&Connection::encode(&["HVALS", "{h}"])).unwrap();
    readers[2].send(&Connection::encode(&mget)).unwrap();
    readers[3].send(&Connection::encode(&["MULTI"])).unwrap();
    for _ in 0..40 {
        readers[3].send(&Connection::encode(&["GET", "{h}large"])).unwrap();
    }
    readers[3].send(&Connection::encode(&["HGETALL", "{h}"])).unwrap();
    readers[3].send(&Connection::encode(&["EXEC"])).unwrap();
    eventually("all four replies wait for their clients", Duration::from_secs(60), || {
        let list = client.call("CLIENT LIST").text();
        let waiting = list.lines().filter(|line| !line.contains("omem=0 ")).count();
        (waiting >= 4).then_some(())
    });
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{} MiB more for replies of 900 MiB", grown / MIB);
    assert!(pairs(&readers[0].read().unwrap()) == all);
    assert_eq!(readers[1].read().unwrap().items().len(), all.len());
    let values = readers[2].read().unwrap();
    assert!(values.items().len() == 40 && values.items().iter().all(|value| value.bytes() == Some(&large[..])));
    drop(values);
    assert_eq!(readers[3].read().unwrap(), Value::ok());
    for _ in 0..41 {
        assert_eq!(readers[3].read().unwrap(), Value::Simple("QUEUED".to_owned()));
    }
    let exec = readers[3].read().unwrap();
    assert!(exec.items()[..40].iter().all(|value| value.bytes() == Some(&large[..])));
    assert!(pairs(&exec.items()[40]) == all);
    assert!(server.stop());
}

#[test]
fn keys_and_dumps_are_told_apart_from_what_is_written_meanwhile() {
    let dir = Dir::new("streams-keys");
    let server = start(&dir);
    let (mut client, mut reader) = (server.connect(), server.connect());
    let all = fill(&mut client, "{h}", 5000, 600);
    let name = |n: usize| format!("{}:{n:06}", "k".repeat(200));
    for n in 0..20_000 {
        client.send(&Connection::encode(&["SET", &name(n), "v"])).unwrap();
        if n % 500 == 499 {
            (0..500).for_each(|_| assert_eq!(client.read().unwrap(), Value::ok()));
        }
    }
    reader.send(&Connection::encode(&["KEYS", "kk*"])).unwrap();
    reader.begun().unwrap();
    eventually("the reply waits for its client", Duration::from_secs(30), || {
        let list = client.call("CLIENT LIST").text();
        list.lines().any(|line| line.contains("cmd=keys") && !line.contains("omem=0 ")).then_some(())
    });
    for n in 0..20_000 {
        client.send(&Connection::encode(&["DEL", &name(n)])).unwrap();
        if n % 500 == 499 {
            (0..500).for_each(|_| assert_eq!(client.read().unwrap(), Value::Int(1)));
        }
    }
    let found = reader.read().unwrap();
    let mut found: Vec<String> = found.items().iter().map(Value::text).collect();
    found.sort_unstable();
    assert!(found == (0..20_000).map(name).collect::<Vec<_>>(), "{} keys", found.len());
    let Value::Bulk(dumped) = client.call("DUMP {h}") else { panic!("no dump") };
    let restored = client.try_call(&[&b"RESTORE"[..], b"{h}r", b"0", &dumped]).unwrap();
    assert_eq!(restored, Value::ok());
    assert!(pairs(&client.call("HGETALL {h}r")) == all);
    assert!(server.stop());
}

#[test]
fn a_client_that_takes_nothing_is_paused_and_then_closed() {
    let dir = Dir::new("streams-closed");
    let server = start(&dir);
    let mut client = server.connect();
    fill(&mut client, "{h}", 20_000, 1200);
    client.try_call(&[&b"SET"[..], b"large", &vec![b'v'; 4 << 20]]).unwrap();
    let shown = client.call("CONFIG GET client-output-buffer-limit").items()[1].text();
    assert_eq!(shown, "normal 268435456 67108864 60 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
    // A long reply keeps old rows alive, for a bounded time.
    assert_eq!(set_limit(&mut client, "normal 0 0 1"), Value::ok());
    let mut idle = server.connect();
    idle.send(&Connection::encode(&["HGETALL", "{h}"])).unwrap();
    closed(&mut client, 1);
    // A pipeline is not read on while its answers are not.
    assert_eq!(set_limit(&mut client, "normal 0 0 0"), Value::ok());
    let mut greedy = server.connect();
    for _ in 0..200 {
        greedy.send(&Connection::encode(&["GET", "large"])).unwrap();
    }
    let before = server.resident_bytes();
    eventually("its answers wait", Duration::from_secs(30), || {
        let list = client.call("CLIENT LIST").text();
        list.lines().any(|line| line.contains("cmd=get ") && !line.contains("omem=0 ")).then_some(())
    });
    assert!(server.resident_bytes().saturating_sub(before) < 64 * MIB, "800 MiB were asked for");
    assert_eq!(set_limit(&mut client, "normal 100kb 0 0"), Value::ok());
    closed(&mut client, 2);
    assert!(server.stop());
}

#[test]
fn the_whole_store_is_asked_within_a_transaction() {
    let dir = Dir::new("streams-multi");
    let server = start(&dir);
    let mut client = server.connect();
    client.call("SET other 1");
    assert_eq!(client.call("MULTI"), Value::ok());
    for command in
        ["SET key 1", "DBSIZE", "SELECT 0", "KEYS k*", "SCAN 0 COUNT 100", "RANDOMKEY", "WAIT 0 0", "GET key", "PING"]
    {
        assert_eq!(client.call(command), Value::Simple("QUEUED".to_owned()), "{command}");
    }
    let answers = client.call("EXEC");
    let answers = answers.items();
    assert_eq!(answers[..3], [Value::ok(), Value::Int(2), Value::ok()]);
    assert_eq!(answers[3], Value::Array(vec![Value::bulk("key")]));
    assert_eq!((answers[4].items()[0].text(), answers[4].items()[1].items().len()), ("0".to_owned(), 2));
    assert!(["key", "other"].contains(&&*answers[5].text()));
    assert_eq!(answers[6..], [Value::Int(0), Value::bulk("1"), Value::Simple("PONG".to_owned())]);
    // No shard has a part in it.
    for (commands, expected) in [(&["DBSIZE", "PING"][..], 2), (&["CLUSTERSCAN 0"], 1)] {
        assert_eq!(client.call("MULTI"), Value::ok());
        commands.iter().for_each(|command| _ = client.call(command));
        assert_eq!(client.call("EXEC").items().len(), expected);
    }
    // A watched key was written: nothing is asked.
    client.call("WATCH key");
    server.connect().call("SET key 2");
    client.call("MULTI");
    client.call("KEYS *");
    assert_eq!(client.call("EXEC"), Value::NilArray);
    // Many watched keys, whose versions are looked up beside the event loop.
    let names: Vec<String> = (0..1000).map(|n| format!("{{w}}{n}")).collect();
    let watch: Vec<&str> = std::iter::once("WATCH").chain(names.iter().map(String::as_str)).collect();
    for (written, expected) in [(None, Value::Array(vec![Value::ok()])), (Some("SET {w}999 1"), Value::NilArray)] {
        client.send(&Connection::encode(&watch)).unwrap();
        client.send(&Connection::encode(&["MULTI"])).unwrap();
        assert_eq!((client.read().unwrap(), client.read().unwrap()), (Value::ok(), Value::ok()));
        if let Some(written) = written {
            server.connect().call(written);
        }
        client.call("SET {w}0 1");
        assert_eq!(client.call("EXEC"), expected);
    }
    assert!(server.stop());
}

fn set_limit(client: &mut Connection, limit: &str) -> Value {
    client.try_call(&["CONFIG", "SET", "client-output-buffer-limit", limit]).unwrap()
}

/// So many clients were closed for what they did not take.
fn closed(client: &mut Connection, times: usize) {
    let line = format!("client_output_buffer_limit_disconnections:{times}\r");
    eventually("the client is closed", Duration::from_secs(30), || {
        client.call("INFO stats").text().lines().any(|found| format!("{found}\r") == line).then_some(())
    });
}

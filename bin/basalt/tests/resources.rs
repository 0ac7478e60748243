//! Descriptors that run short, signals that are not for the node, and a stop with many shards.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Dir, Random, Server, Setup, Value, eventually};
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn clients_that_are_too_many_are_refused_and_the_store_is_served() {
    let dir = Dir::new("descriptors");
    let setup = Setup::new(&dir.join("data")).with("--memory", "128M").with_descriptors(1024);
    let server = Server::start(&setup);
    let mut connection = server.connect();
    let served: usize = connection.call("CONFIG GET maxclients").items()[1].text().parse().unwrap();
    assert!((100..1024).contains(&served), "{served} of 1024 descriptors are for clients");
    assert!(server.messages().contains("maxclients is lowered from 10000"), "{}", server.messages());
    let refused = connection.call("CONFIG SET maxclients 10000").text();
    assert!(refused.contains(&format!("try with {served}")), "{refused}");

    let idle: Vec<TcpStream> = (0..1100).map(|_| TcpStream::connect(("127.0.0.1", server.port())).unwrap()).collect();
    let mut told = 0;
    for stream in idle.iter().skip(served) {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut text = String::new();
        (&*stream).read_to_string(&mut text).unwrap();
        told += usize::from(text == "-ERR max number of clients reached\r\n");
    }
    assert_eq!(told, 1100 - served, "each is told why");
    // 100 MB, which are flushed and compacted meanwhile.
    let value = |n: u64| Random::new(n).bytes(64 * 1024);
    for n in 0..1600 {
        let set = connection.try_call(&[b"SET".as_slice(), format!("key{n}").as_bytes(), &value(n)]).unwrap();
        assert_eq!(set, Value::ok(), "write {n}");
    }
    let info = connection.call("INFO basalt").text();
    assert!(info.contains("disk_state:healthy"), "{info}");
    drop(idle);
    eventually("there is room for clients again", Duration::from_secs(30), || {
        let mut other = server.connect();
        matches!(other.try_call(&["PING"]), Ok(Value::Simple(_))).then_some(())
    });
    for n in 0..1600 {
        assert_eq!(connection.call(&format!("GET key{n}")), Value::Bulk(value(n)), "key{n}");
    }
    assert!(server.stop());
}

/// Requests that never end: those who have sent the most of them are closed when all together are too much, and no others.
#[test]
fn clients_that_take_the_most_memory_are_closed() {
    let dir = Dir::new("clients-memory");
    let server = Server::start(&Setup::new(&dir.join("data")).with("--set", "maxmemory-clients=64mb"));
    let (mut other, mut spared) = (server.connect(), server.connect());
    assert_eq!(spared.call("CLIENT NO-EVICT on"), Value::ok());
    let half = [b"*2\r\n$3\r\nGET\r\n$33554432\r\n".as_slice(), &vec![b'x'; 16 << 20]].concat();
    // It may be closed while it sends.
    let mut hostile: Vec<_> = (0..12).map(|_| server.connect()).collect();
    spared.send(&half).unwrap();
    hostile.iter_mut().for_each(|connection| _ = connection.send(&half));
    let evicted =
        |other: &mut common::Connection| -> u64 { other.info("stats", "evicted_clients").unwrap().parse().unwrap() };
    eventually("enough of them are closed", Duration::from_secs(30), || (evicted(&mut other) >= 8).then_some(()));
    // What is left of its request comes, and is answered.
    spared.send(&vec![b'x'; 16 << 20]).unwrap();
    spared.send(b"\r\n").unwrap();
    let answer = spared.read().unwrap();
    assert!(answer.is_error(), "a key of 32 MB: {answer:?}");
    assert_eq!(other.call("SET key value"), Value::ok());
    assert!(server.messages().contains("more than `maxmemory-clients`"), "{}", server.messages());
    assert!(server.stop());
}

/// A flush that finds no descriptor half-way, at whichever step, leaves a tree that opens.
#[test]
fn a_node_with_hardly_a_descriptor_loses_nothing() {
    let dir = Dir::new("few-descriptors");
    for most in [16, 18, 20, 24, 28, 32, 40] {
        let setup = Setup::new(&dir.join(&most.to_string())).with("--memory", "64M");
        // With fewer it may not start; then it has nothing to lose.
        let Ok(server) = Server::try_start(&setup.clone().with_descriptors(most)) else { continue };
        let mut connection = server.connect();
        let written: Vec<bool> = (0..8).map(|n| connection.call(&format!("SET key{n} {n}")) == Value::ok()).collect();
        // What is not flushed now is replayed from the log.
        server.stop();
        let server = Server::start(&setup);
        let mut connection = server.connect();
        for (n, _) in written.iter().enumerate().filter(|(_, written)| **written) {
            assert_eq!(connection.call(&format!("GET key{n}")), Value::bulk(n.to_string()), "of {most} descriptors");
        }
        assert!(server.stop());
    }
}

#[test]
fn a_terminal_that_closes_and_other_signals_end_nothing() {
    let dir = Dir::new("signals");
    let server = Server::start(&Setup::new(&dir.join("data")));
    let mut connection = server.connect();
    for signal in ["-HUP", "-USR1", "-USR2"] {
        server.signal(signal);
        assert_eq!(connection.call("SET key 1"), Value::ok(), "after {signal}");
    }
    assert!(server.stop());
}

#[test]
fn a_stop_with_many_shards_loses_nothing() {
    let dir = Dir::new("many-shards");
    let setup = Setup::new(&dir.join("data")).with("--shards", "512");
    let server = Server::start(&setup);
    let mut connection = server.connect();
    for n in 0..2000 {
        assert_eq!(connection.call(&format!("SET key{n} {n}")), Value::ok());
    }
    assert!(server.stop());
    let server = Server::start(&setup);
    let mut connection = server.connect();
    for n in 0..2000 {
        assert_eq!(connection.call(&format!("GET key{n}")), Value::bulk(n.to_string()));
    }
}

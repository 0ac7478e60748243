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

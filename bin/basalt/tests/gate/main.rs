//! Hostile clients against three nodes: random commands with right and hostile arguments, in every wrapping that there is.
//! Whatever they send, no node ends, all replicas stay alike, and what they left behind is flushed, read and replayed.
//!
//! What right arguments are is what the server tells of its commands, so that a new command is tried as well.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod client;
#[path = "../common/mod.rs"]
mod common;
mod grammar;
mod keys;
mod listeners;
mod malformed;
mod requests;
mod scripts;
mod words;

use client::{Hostile, Seen};
use common::{Connection, Dir, Nodes, Random, announce, eventually, free_port, number};
use requests::Requests;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 4;
/// What a script may do, in instructions of Lua: three nodes of one machine evaluate each.
const SCRIPT_INSTRUCTIONS: &str = "5000000";

fn verify(nodes: &Nodes) {
    let output = nodes.run_ctl(&["verify"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "replicas differ:\n{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes the keys and the scripts; answers the digests of the scripts.
fn prepare(nodes: &Nodes, home: usize, random: &mut Random) -> Vec<Vec<u8>> {
    nodes.admin(&["SETTINGS", "SET", "script-instructions-max", SCRIPT_INSTRUCTIONS]).expect("a setting of the store");
    let mut connection = nodes.connect(home);
    let answers = scripts::registered().iter().map(|request| connection.try_call(request).unwrap()).collect::<Vec<_>>();
    for request in (0..40).flat_map(|_| keys::plant(random)) {
        connection.try_call(&request).unwrap();
    }
    answers.iter().filter(|answer| !answer.is_error()).map(|answer| answer.text().into_bytes()).collect()
}

/// Clients do their worst for a time; answers what they have seen.
fn worst(nodes: &Nodes, database_ports: &[u16], seed: u64, seconds: u64) -> Vec<Seen> {
    let home = nodes.leader(0, "{t}");
    let forms = grammar::forms(&mut nodes.connect(0));
    let digests = prepare(nodes, home, &mut Random::new(seed));
    let is_over = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_secs(seconds);
    thread::scope(|scope| {
        let is_over = &is_over;
        let waiting: Vec<_> =
            (0..nodes.count()).map(|n| scope.spawn(move || listeners::wait_at(nodes, n, is_over))).collect();
        for n in 0..nodes.count() {
            let random = Random::new(seed * 1000 + 100 + n as u64);
            scope.spawn(move || listeners::listen(nodes, n, random, is_over));
        }
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let requests = Requests::new(&forms, &digests);
                let random = Random::new(seed * 1000 + client);
                let mut hostile = Hostile::new(nodes, database_ports, requests, random, home);
                scope.spawn(move || {
                    while Instant::now() < until {
                        hostile.step();
                    }
                    hostile.seen
                })
            })
            .collect();
        let seen: Vec<Seen> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        for (n, waited) in waiting.into_iter().enumerate() {
            let waited = waited.join().unwrap();
            announce(&format!(
                "node {n}: of {} requests of others {} waited for more than 100 ms, {} found no leader; the longest PING, read and write: {:?}",
                waited.asked, waited.long, waited.refused, waited.longest
            ));
        }
        seen
    })
}

#[test]
fn nothing_that_a_client_sends_ends_a_node_or_makes_replicas_differ() {
    let seconds = number("BASALT_GATE_SECONDS", 5);
    let seed = number("BASALT_GATE_SEED", 1);
    let dir = Dir::new("gate");
    let database_ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let listen = |port: &u16| vec![("--database-listen".to_owned(), format!("127.0.0.1:{port}"))];
    let own: Vec<_> = database_ports.iter().map(listen).collect();
    let mut nodes = Nodes::start_with(&dir, 3, &[("--shards", "3"), ("--memory", "256M")], &own);
    nodes.wait_spread();
    let seen = worst(&nodes, &database_ports, seed, seconds);
    let (requests, done) = seen.iter().fold((0, 0), |(all, done), seen| (all + seen.requests, done + seen.done));
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for (word, count) in seen.iter().flat_map(|seen| &seen.errors) {
        *errors.entry(word).or_default() += count;
    }
    announce(&format!(
        "seed {seed}: {requests} hostile requests, {done} replies that are no errors; errors: {errors:?}"
    ));
    for lost in seen.iter().flat_map(|seen| &seen.lost).take(20) {
        announce(&format!("a connection was lost: {lost}"));
    }
    // On a slow machine one pipeline may be most of what was sent, and another node than the leader's only redirects.
    let redirected = errors.get("MOVED").copied().unwrap_or_default();
    assert!(done * 4 > requests - redirected, "most arguments are not right");
    nodes.wait_whole();
    verify(&nodes);
    // What is there is flushed when a node stops, and read and replayed when it starts.
    for n in 0..nodes.count() {
        nodes.stop(n);
        nodes.spawn(n);
        nodes.wait_whole();
    }
    verify(&nodes);
    for (n, port) in database_ports.iter().enumerate() {
        let mut connection = nodes.connect(n);
        assert!(!connection.call("KEYS *").is_error() && !connection.call("SCAN 0 COUNT 10000").is_error());
        let database = &mut Connection::open(*port).unwrap();
        eventually("a database is served", Duration::from_secs(30), || {
            (!database.call("DBSIZE").is_error()).then_some(())
        });
    }
}

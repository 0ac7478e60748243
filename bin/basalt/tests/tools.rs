//! What a user types first: redis-cli, redis-benchmark, inspect.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Dir, Server, Setup, Value, basalt, eventually, installed, run, skip, text, tree_hash};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

fn start(dir: &Dir) -> (Setup, Server) {
    let setup = Setup::new(&dir.join("data"));
    let server = Server::start(&setup);
    (setup, server)
}

#[test]
fn redis_cli_speaks_to_it() {
    if !installed("redis-cli") {
        skip("redis", "redis-cli is not installed");
        return;
    }
    let dir = Dir::new("redis-cli");
    let (_, server) = start(&dir);
    let port = server.port().to_string();
    let cli = |arguments: &[&str]| {
        let output = run("redis-cli", &[&["-p", &port], arguments].concat());
        assert!(output.status.success(), "redis-cli {arguments:?}: {}", text(&output));
        text(&output)
    };
    let cases: [(&[&str], &str); 9] = [
        (&["PING"], "PONG\n"),
        (&["SET", "greeting", "hello"], "OK\n"),
        (&["GET", "greeting"], "hello\n"),
        (&["-c", "GET", "greeting"], "hello\n"),
        (&["-3", "HSET", "h", "a", "1"], "1\n"),
        (&["-3", "--no-raw", "HGETALL", "h"], "1# \"a\" => \"1\"\n"),
        (&["--no-raw", "MGET", "greeting"], "1) \"hello\"\n"),
        (&["--scan", "--pattern", "gree*"], "greeting\n"),
        (&["CLUSTER", "KEYSLOT", "foo"], "12182\n"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(cli(arguments), expected, "redis-cli {arguments:?}");
    }
    for section in ["# Server", "redis_mode:cluster", "cluster_enabled:1", "loading:0", "# Keyspace", "db0:keys=2"] {
        assert!(cli(&["INFO"]).contains(section), "INFO without {section}");
    }
    assert!(cli(&["CLUSTER", "NODES"]).contains("myself,master"));
    let check = cli(&["--cluster", "check", &format!("127.0.0.1:{port}")]);
    assert!(check.contains("[OK] All 16384 slots covered."), "{check}");
    assert!(cli(&["COMMAND", "DOCS", "get"]).contains("summary"));
}

#[test]
fn redis_cli_pipes_a_load() {
    if !installed("redis-cli") {
        skip("redis", "redis-cli is not installed");
        return;
    }
    let dir = Dir::new("pipe");
    let (_, server) = start(&dir);
    let mut child = Command::new("redis-cli")
        .args(["-p", &server.port().to_string(), "--pipe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for n in 0..10_000 {
        input.write_all(format!("SET pipe:{n} {n}\r\n").as_bytes()).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(text(&output).contains("errors: 0, replies: 10000"), "{}", text(&output));
    assert_eq!(server.connect().call("DBSIZE"), Value::Int(10_000));
}

#[test]
fn redis_benchmark_runs() {
    if !installed("redis-benchmark") {
        skip("redis", "redis-benchmark is not installed");
        return;
    }
    let dir = Dir::new("redis-benchmark");
    let (_, server) = start(&dir);
    let port = server.port().to_string();
    for pipeline in ["1", "16"] {
        let output = Command::new("redis-benchmark")
            .args(["-p", &port, "-n", "5000", "-c", "50", "-P", pipeline, "-d", "1000", "-r", "1000", "--csv"])
            .args(["-t", "ping,set,get,incr,hset"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        for test in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "HSET"] {
            assert!(said.contains(&format!("\"{test}\",\"")), "no {test} in {said}");
        }
    }
}

#[test]
fn inspect_never_writes() {
    let dir = Dir::new("inspect");
    let (setup, server) = start(&dir);
    let mut connection = server.connect();
    for n in 0..500 {
        assert_eq!(connection.call(&format!("SET key{n} value{n}")), Value::ok());
    }
    connection.call("HSET h field value");
    server.kill();
    let data = setup.dir.to_string_lossy().into_owned();
    for round in ["after a kill", "after a stop"] {
        let before = tree_hash(&setup.dir);
        let output = basalt(&["inspect", &data]);
        assert!(output.status.success(), "{round}: {}", text(&output));
        assert!(text(&output).contains("shard"), "{round}: {}", text(&output));
        assert!(tree_hash(&setup.dir) == before, "{round}: inspect changed a file");
        assert!(Server::start(&setup).stop());
    }
    let nowhere = dir.join("nowhere");
    assert!(!basalt(&["inspect", &nowhere.to_string_lossy()]).status.success());
    assert!(!nowhere.exists(), "inspect made a folder");
}

#[test]
fn two_servers_do_not_share_a_data_directory() {
    let dir = Dir::new("twice");
    let (setup, server) = start(&dir);
    let second = Server::try_start(&setup);
    assert!(second.is_err(), "a second server opened the same data directory");
    assert_eq!(server.connect().call("SET a 1"), Value::ok());
}

/// A hunt without end ends by a signal; what it has come to must not be lost with it.
#[test]
fn a_simulation_that_is_told_to_stop_prints_its_summary() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let dir = Dir::new("sim-stopped");
        let trace = dir.join("trace");
        let mut sim = Command::new(env!("CARGO_BIN_EXE_basalt"));
        sim.args(["sim", "--forever", "--steps", "500", "--trace"]).arg(&trace);
        let sim = sim.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The first seed begins when signals are handled.
        eventually("a seed begins", Duration::from_secs(60), || trace.exists().then_some(()));
        assert!(run("kill", &[signal, &sim.id().to_string()]).status.success());
        let output = sim.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("seeds, 0 failed, "), "{}", text(&output));
    }
    for nothing in [["--seeds", "0"], ["--steps", "0"]] {
        assert_eq!(basalt(&["sim", nothing[0], nothing[1]]).status.code(), Some(2), "{nothing:?}");
    }
}

//! Other systems, started, measured and stopped by `basalt bench`: those whose servers a registry has.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Dir, free_ports, installed, skip, text};
use parking_lot::Mutex;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// They share two cores and some ports, so one at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Java's options in these tests: its quick compiler alone. What they start runs for seconds, and its speed does not count.
const JAVA_OPTIONS: (&str, &str) = ("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1");

fn bench(arguments: &[&str]) -> Output {
    let mut basalt = Command::new(env!("CARGO_BIN_EXE_basalt"));
    basalt.arg("bench").args(arguments).env(JAVA_OPTIONS.0, JAVA_OPTIONS.1).stdin(Stdio::null()).output().unwrap()
}

/// Whether there is no such process, or only a zombie.
fn has_ended(process: &serde_json::Value) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, state)| state.trim_start().starts_with('Z'))
}

/// What BASALT_REQUIRE calls what a system or a program needs.
fn need_of(name: &str) -> &'static str {
    match name {
        "redis" | "redis-cluster" => "redis",
        "etcd" => "etcd",
        "go" => "go",
        _ => "java",
    }
}

/// What cannot be fetched or built here is not tested here.
fn cannot_be_had(name: &str, output: &Output) -> bool {
    let said = text(output);
    let lacks = !output.status.success() && (said.contains("cannot build") || said.contains("is not installed"));
    if lacks {
        skip(need_of(name), &said);
    }
    lacks
}

/// Starts a system, loads records, runs workloads on them, and stops it.
fn whole_way(name: &str, needs: &[&str], workloads: &[&str], up: &[&str]) {
    let _one = ONE.lock();
    if let Some(lacks) = needs.iter().find(|program| !installed(program)) {
        return skip(need_of(name), &format!("{name}: {lacks} is not installed"));
    }
    let dir = Dir::new(&format!("peer-{name}"));
    let (data, port) = (dir.join("data"), free_ports(20).to_string());
    let data = data.to_str().unwrap();
    let output = bench(&[&["peer", "up", name, "--data", data, "--port", &port, "--json"], up].concat());
    if cannot_be_had(name, &output) {
        return;
    }
    assert!(output.status.success(), "{}", text(&output));
    let roster: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checked = std::panic::catch_unwind(|| measure(name, roster["target"].as_str().unwrap(), workloads));
    let down = bench(&["peer", "down", "--data", data]);
    assert!(down.status.success(), "{}", text(&down));
    for node in roster["nodes"].as_array().unwrap() {
        assert!(has_ended(&node["process"]["id"]), "process {} is still there", node["process"]["id"]);
    }
    assert!(!Path::new(data).join("peer.json").exists());
    if let Err(panic) = checked {
        std::panic::resume_unwind(panic);
    }
}

/// Workloads of a system, and what it can do beside them.
fn measure(name: &str, target: &str, workloads: &[&str]) {
    let phase = |what: &str, more: &[&str]| {
        let common = [what, "--target", target, "--clients", "8", "--threads", "2", "--quiet", "-p", "recordcount=300"];
        let output = bench(&[&common[..], &["-p", "maxscanlength=20", "-p", "operationcount=600"], more].concat());
        if cannot_be_had(name, &output) {
            return;
        }
        let said = text(&output);
        assert!(output.status.success(), "{name} {what} {more:?}: {said}");
        assert!(what != "run" || said.contains(" 0 wrong"), "{name} {what} {more:?} verifies nothing: {said}");
    };
    phase("load", &[]);
    for workload in workloads {
        phase("run", &["-P", workload]);
    }
    phase("delete", &[]);
    // Nor does one lose an update that answers what it has come to: eight clients write three collections.
    if name.starts_with("redis") {
        for collections in ["leaderboard", "feed"] {
            let few = ["-P", collections, "-p", "recordcount=3"];
            phase("load", &few);
            phase("run", &few);
            phase("delete", &few);
        }
    }
    // A system that compares versions must not lose an update: eight clients write three records. Cassandra's Paxos ends
    // some of such updates with a timeout.
    if ["etcd", "cassandra", "voltdb"].contains(&name) {
        let compares = ["-p", "basalt.update=cas", "-p", "recordcount=3"];
        phase("load", &compares);
        phase("run", &[&compares[..], &["-P", "workloada", "--tolerate", "unavailable"]].concat());
        phase("delete", &compares);
    }
}

#[test]
fn redis_alone() {
    whole_way("redis", &["redis-server"], &["workloada", "workloadf"], &["--durability", "nosync"]);
}

/// A server of another program's must not be taken for the one that is to be started, and be written to.
#[test]
fn a_port_that_is_taken_is_told_before_anything_is_started() {
    let dir = Dir::new("peer-taken");
    let other = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    for name in ["redis", "redis-cluster", "etcd", "cassandra", "voltdb"] {
        let data = dir.join(name);
        let output = bench(&["peer", "up", name, "--data", data.to_str().unwrap(), "--port", &port]);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", text(&output));
        assert!(text(&output).contains(&format!("127.0.0.1:{port} is taken")), "{name}: {}", text(&output));
        assert!(!data.join("peer.json").exists(), "{name}");
    }
}

#[test]
fn redis_of_three_masters_with_replicas() {
    whole_way("redis-cluster", &["redis-server"], &["workloada", "workloadb"], &[]);
}

#[test]
fn etcd_of_three_members() {
    whole_way("etcd", &["etcd", "go"], &["workloada", "workloade"], &[]);
}

#[test]
fn cassandra_of_three_nodes() {
    whole_way("cassandra", &["java", "mvn"], &["workloada", "workloade"], &["--memory-mib", "512"]);
}

#[test]
fn voltdb_of_three_nodes() {
    whole_way(
        "voltdb",
        &["java", "mvn"],
        &["workloada", "workloade"],
        &["--durability", "nosync", "--memory-mib", "512"],
    );
}

#[test]
fn the_adapters_own_tests() {
    let _one = ONE.lock();
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers");
    for (folder, program, arguments) in
        [("adapter-go", "go", &["test", "./..."][..]), ("adapter-java", "mvn", &["-q", "-B", "-Papache", "test"])]
    {
        if !installed(program) {
            skip(need_of(program), &format!("{folder}: {program} is not installed"));
            continue;
        }
        let mut tests = Command::new(program);
        tests.args(arguments).env(JAVA_OPTIONS.0, JAVA_OPTIONS.1).current_dir(peers.join(folder));
        let output = tests.output().unwrap();
        assert!(output.status.success(), "{folder}: {}", text(&output));
    }
}

#[test]
fn what_cannot_be_is_said() {
    let dir = Dir::new("peer-errors");
    let data = dir.path().to_str().unwrap();
    for (arguments, says) in [
        (&["peer", "down", "--data", data][..], "no peer was started in"),
        (&["peer", "status", "--data", data], "no peer was started in"),
        (&["peer", "up", "redis", "--data", data, "--nodes", "3"], "use redis-cluster for more"),
        (&["peer", "up", "redis-cluster", "--data", data, "--nodes", "2"], "three nodes at least"),
        (
            &["run", "--target", "mongodb://here", "-p", "recordcount=1", "-p", "operationcount=1"],
            "expected embedded, redis://",
        ),
    ] {
        let output = bench(arguments);
        assert!(!output.status.success() && text(&output).contains(says), "{arguments:?}: {}", text(&output));
    }
}

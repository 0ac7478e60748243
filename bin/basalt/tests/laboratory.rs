//! `basalt bench` from outside: it measures, it verifies, and its exit code tells the truth.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Dir, Server, Setup, Value, text};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const RECORDS: &str = "recordcount=2000";
const OPERATIONS: &str = "operationcount=2000";

fn bench(dir: &Dir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.arg("bench").args(arguments).current_dir(dir.path()).stdin(Stdio::null()).output().unwrap()
}

fn reports(folder: &Path) {
    for name in ["report.html", "report.md", "report.json"] {
        let length = std::fs::metadata(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}")).len();
        assert!(length > 200, "{name} has {length} bytes");
    }
}

fn serve(dir: &Dir) -> (Server, String) {
    let server = Server::start(&Setup::new(&dir.join("data")).with("--durability", "nosync"));
    let target = format!("redis://127.0.0.1:{}", server.port());
    (server, target)
}

#[test]
fn the_canonical_run_in_small() {
    let dir = Dir::new("bench-suite");
    let small = ["--records", "3000", "--seconds", "1", "--warm-up-seconds", "0", "--quiet", "--out", "run"];
    let output = bench(&dir, &small);
    assert!(output.status.success(), "{}", text(&output));
    reports(&dir.join("run"));
}

#[test]
fn every_workload_against_a_server() {
    let dir = Dir::new("bench-server");
    let (server, target) = serve(&dir);
    let phase = |what: &str, workload: &str, more: &[&str]| {
        let common = [what, "--target", &target, "-P", workload, "-p", RECORDS, "-p", OPERATIONS, "--quiet"];
        let output = bench(&dir, &[&common[..], more].concat());
        assert!(output.status.success(), "bench {what} {workload}: {}", text(&output));
        text(&output)
    };
    phase("load", "workloada", &["--out", "load"]);
    reports(&dir.join("load"));
    assert!(server.connect().call("DBSIZE").int() >= 2000);
    for workload in ["workloada", "workloadb", "workloadc", "workloadf", "workloadd"] {
        phase("run", workload, &["--clients", "4", "--depth", "4"]);
    }
    let said = phase("run", "workloadc", &["--format", "ycsb"]);
    assert!(said.contains("[OVERALL], Throughput(ops/sec), "), "{said}");
    assert!(said.contains("[READ], Operations, 2000"), "{said}");
}

/// Eight clients update three records: an update that is acknowledged is neither overwritten nor told twice. The laboratory
/// checks each.
#[test]
fn no_update_is_lost() {
    let dir = Dir::new("bench-updates");
    let (_server, target) = serve(&dir);
    let three = common::Nodes::start(&dir, 3, &[("--shards", "3"), ("--durability", "nosync")]);
    let of_three = format!("redis://{}", three.address(0));
    let compared = &["-P", "workloada", "-p", "basalt.update=cas"][..];
    let workloads = [compared, &["-P", "leaderboard"], &["-P", "feed"]];
    let cases = workloads
        .iter()
        .flat_map(|workload| [&target, &of_three].map(|target| (*workload, ["--target", target.as_str()])));
    let embedded = (compared, ["--data", "embedded"]);
    for (workload, store) in cases.chain([embedded]) {
        let counts = ["-p", "recordcount=3", "-p", "operationcount=1000", "--clients", "8", "--quiet"];
        for phase in ["load", "run", "delete"] {
            let output = bench(&dir, &[&[phase][..], workload, &store, &counts].concat());
            let said = text(&output);
            assert!(output.status.success(), "{phase} {workload:?} {store:?}: {said}");
            let is_checked = said.contains("1,000 answers verified, 0 wrong");
            assert!(phase != "run" || is_checked, "{workload:?} {store:?}: {said}");
        }
    }
}

#[test]
fn a_record_that_must_exist_and_does_not_is_an_error() {
    let dir = Dir::new("bench-missing");
    let (server, target) = serve(&dir);
    let phase = |what: &str| {
        let workload = ["-P", "workloadc", "-p", RECORDS, "-p", OPERATIONS, "--quiet"];
        bench(&dir, &[&[what, "--target", &target][..], &workload].concat())
    };
    assert!(phase("load").status.success());
    assert!(phase("run").status.success());
    let mut connection = server.connect();
    let keys = connection.call("KEYS *");
    for key in keys.items().iter().take(1000) {
        assert_eq!(connection.try_call(&[b"DEL".as_slice(), key.bytes().unwrap()]).unwrap(), Value::Int(1));
    }
    let output = phase("run");
    assert!(!output.status.success(), "half of the records are gone, and it says:\n{}", text(&output));
}

#[test]
fn a_server_that_dies_is_an_error_and_not_a_hang() {
    let dir = Dir::new("bench-dies");
    let (server, target) = serve(&dir);
    let load = ["load", "--target", &target, "-P", "workloada", "-p", RECORDS, "--quiet"];
    assert!(bench(&dir, &load).status.success());
    let run = ["run", "--target", &target, "-P", "workloada", "-p", RECORDS, "--duration", "5s", "--timeout", "1s"];
    let commands = |server: &Server| -> u64 {
        server.connect().info("stats", "total_commands_processed").unwrap().parse().unwrap()
    };
    let before = commands(&server);
    let output = std::thread::scope(|scope| {
        let running =
            scope.spawn(|| bench(&dir, &[&run[..], &["-p", "operationcount=1000000000", "--quiet"]].concat()));
        common::eventually("it runs", Duration::from_secs(60), || (commands(&server) > before + 1000).then_some(()));
        server.kill();
        running.join().unwrap()
    });
    assert!(!output.status.success(), "the server died, and it says:\n{}", text(&output));
}

/// A store of three nodes, of which one is killed in one step, stays dead in the next, and comes back in the last.
const KILLS: &str = r#"
name = "kills"
title = "A node dies and comes back"
about = "No client notices."
[scales.default]
takes = "some seconds"
[every-step]
clients = 4
read-from = "any"
tolerate = ["unavailable"]
timeout = "1s"
retry-for = "10s"
[every-step.properties]
recordcount = 2000
readproportion = 1.0
updateproportion = 0
[[part]]
name = "kills"
[part.store]
nodes = 3
shards = 3
replication-factor = 3
durability = "nosync"
[[part.step]]
name = "load"
does = "load"
# A replica that lags may not have all of it, and is asked.
[[part.step]]
does = "settle"
[[part.step]]
name = "a node dies"
does = "run"
duration = "2s"
event = [{ at = "1s", do = "kill", node = 2 }]
[[part.step]]
name = "without it"
does = "run"
duration = "2s"
[[part.step]]
name = "it comes back"
does = "run"
duration = "2s"
event = [{ at = "1s", do = "restart", node = 2 }]
"#;

#[test]
fn a_suite_goes_on_after_it_has_killed_a_node() {
    let dir = Dir::new("bench-kills");
    std::fs::write(dir.path().join("kills.toml"), KILLS).unwrap();
    // The peers' ports are 50 above.
    let port = common::free_ports(60).to_string();
    let output = bench(&dir, &["suite", "./kills.toml", "--port", &port, "--out", "run", "--quiet"]);
    assert!(output.status.success(), "{}", text(&output));
    reports(&dir.join("run"));
    let said = std::fs::read_to_string(dir.join("run").join("report.json")).unwrap();
    assert!(said.contains("node 2 killed") && said.contains("node 2 started again"), "no events");
}

/// Two minutes of a load, whose operations wait five seconds for a node that is gone.
const WAITS: &str = r#"
name = "waits"
title = "A node ends by itself"
about = "The suite does not wait for it."
[scales.default]
takes = "two minutes"
[every-step]
clients = 4
tolerate = ["unavailable"]
timeout = "1s"
retry-for = "5s"
[every-step.properties]
recordcount = 2000
[[part]]
name = "waits"
[part.store]
nodes = 1
durability = "nosync"
[[part.step]]
name = "load"
does = "load"
[[part.step]]
name = "a node is gone"
does = "run"
duration = "2m"
"#;

#[test]
fn a_suite_ends_when_a_node_has_ended_by_itself() {
    let dir = Dir::new("bench-waits");
    std::fs::write(dir.path().join("waits.toml"), WAITS).unwrap();
    let port = common::free_ports(60);
    let shown = port.to_string();
    let suite = ["suite", "./waits.toml", "--port", &shown, "--out", "run", "--quiet"];
    std::thread::scope(|scope| {
        let running = scope.spawn(|| bench(&dir, &suite));
        // Some thousand requests more than the load has: the step has begun.
        let server = common::eventually("the load, and more", Duration::from_secs(60), || {
            let info = common::Connection::open(port).ok()?.try_call(&[b"INFO".as_slice()]).ok()?.text();
            let made = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"))?.trim().to_owned();
            (made.parse::<u64>().ok()? > 8000).then_some(info)
        });
        let process = server.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().to_owned();
        assert!(Command::new("kill").args(["-9", &process]).status().unwrap().success());
        let output = running.join().unwrap();
        assert!(!output.status.success(), "{}", text(&output));
    });
    let said = std::fs::read_to_string(dir.join("run").join("report.json")).unwrap();
    assert!(said.contains("has ended by itself"), "{said}");
}

#[test]
fn the_ceiling() {
    let dir = Dir::new("bench-noop");
    let run = ["run", "--target", "noop://", "-P", "workloadc", "-p", RECORDS, "-p", OPERATIONS, "--quiet"];
    let output = bench(&dir, &run);
    assert!(output.status.success(), "{}", text(&output));
}

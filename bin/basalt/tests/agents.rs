//! `basalt bench` with several processes from outside: their figures are one run's, and a death among them is told.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Dir, Server, Setup, eventually, text};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn basalt(dir: &Dir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.arg("bench").current_dir(dir.path()).stdin(Stdio::null());
    command
}

fn bench(dir: &Dir, arguments: &[&str]) -> Output {
    basalt(dir).args(arguments).output().unwrap()
}

fn serve(dir: &Dir) -> (Server, String) {
    let server = Server::start(&Setup::new(&dir.join("data")).with("--durability", "nosync"));
    let target = format!("redis://127.0.0.1:{}", server.port());
    (server, target)
}

/// How many commands the server has run.
fn commands(server: &Server) -> u64 {
    server.connect().info("stats", "total_commands_processed").unwrap().parse().unwrap()
}

/// An agent that ends with the test.
struct Agent {
    process: Child,
    address: String,
}

impl Agent {
    fn start(dir: &Dir, secret: &str) -> Self {
        let mut command = basalt(dir);
        command.args(["agent", "--listen", "127.0.0.1:0"]).env("BASALT_BENCH_SECRET", secret).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("agent listens on ").unwrap().to_owned();
        Self { process, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn processes_of_this_machine_split_a_load_and_check_what_they_read() {
    let dir = Dir::new("bench-processes");
    let (server, target) = serve(&dir);
    let common =
        ["--target", &target, "-P", "workloadb", "-p", "recordcount=3001", "--processes", "2", "--clients", "4"];
    let load = bench(&dir, &[&["load", "--quiet"], &common[..]].concat());
    assert!(load.status.success(), "{}", text(&load));
    assert_eq!(server.connect().call("DBSIZE").int(), 3001);
    let run = ["run", "-p", "operationcount=4000", "--out", "run", "--quiet"];
    let run = bench(&dir, &[&run[..], &common[..]].concat());
    let said = text(&run);
    assert!(run.status.success() && said.contains("0 wrong") && said.contains("Client process 127.0.0.1:"), "{said}");
    let report = std::fs::read_to_string(dir.join("run").join("report.json")).unwrap();
    assert!(report.contains("\"operations\": 4000") && report.contains("clock_offset_us"), "{report}");
    let same = bench(&dir, &["compare", "run", "run"]);
    // Too short to know its own noise, and it says so.
    assert_eq!(same.status.code(), Some(2), "{}", text(&same));
    assert!(text(&same).contains("Whether B is worse than A cannot be told"), "{}", text(&same));
}

#[test]
fn an_agent_that_is_killed_fails_the_run_and_is_named() {
    let dir = Dir::new("bench-agent-dies");
    let (server, target) = serve(&dir);
    let secret = "open sesame";
    let (stays, dies) = (Agent::start(&dir, secret), Agent::start(&dir, secret));
    let agents = format!("{},{}", stays.address, dies.address);
    let common = ["--target", &target, "-P", "workloadc", "-p", "recordcount=500", "--clients", "2", "--quiet"];
    let with = |task: &str, secret: &str, more: &[&str]| {
        let mut command = basalt(&dir);
        command.args([&[task, "--agents", &agents], &common[..], more].concat()).env("BASALT_BENCH_SECRET", secret);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let stranger = with("load", "guess", &[]).wait_with_output().unwrap();
    assert!(!stranger.status.success() && text(&stranger).contains("does not know"), "{}", text(&stranger));
    let load = with("load", secret, &[]).wait_with_output().unwrap();
    assert!(load.status.success(), "{}", text(&load));
    // Longer than the test waits for anything: only the death can end it.
    let run = with("run", secret, &["-p", "operationcount=0", "--duration", "3600s", "--out", "lost"]);
    let before = commands(&server);
    eventually("the agents read", Duration::from_secs(60), || (commands(&server) > before + 1000).then_some(()));
    let address = dies.address.clone();
    drop(dies);
    let run = run.wait_with_output().unwrap();
    let said = text(&run);
    assert!(!run.status.success() && said.contains(&format!("agent {address} (2 of 2) is gone")), "{said}");
    let report = std::fs::read_to_string(dir.join("lost").join("report.json")).unwrap();
    assert!(report.contains("\"outcome\": \"failed\"") && report.contains("\"lost\": \""), "{report}");
}

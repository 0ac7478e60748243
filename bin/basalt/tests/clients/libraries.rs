//! The libraries that programs use, fetched from their registries: each against a store of three nodes, one of which dies.

use crate::common::{Dir, Nodes, announce};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::PoisonError;

/// Where libraries and built programs stay from one run to the next.
fn cache(library: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("a directory of the target directory")
        .join("clients")
        .join(library)
}

/// What the script ends with where the language of a library is not installed.
const LANGUAGE_MISSING: i32 = 3;

/// Fetches the library and builds its program; false where there is no registry to be had and that was said before.
fn install(library: &str) -> bool {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/install");
    let output = Command::new("timeout").arg("300").arg(script).arg(library).arg(cache(library)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return true;
    }
    if output.status.code() == Some(LANGUAGE_MISSING) {
        announce(&format!("SKIPPED: {library}: {said}"));
        return false;
    }
    assert!(
        std::env::var("BASALT_OFFLINE").is_ok_and(|value| value == "1"),
        "{library} could not be installed (BASALT_OFFLINE=1 goes without):\n{said}"
    );
    announce(&format!("SKIPPED: {library} could not be installed: {said}"));
    false
}

/// Runs the program, which says KILL when a node is to die and OK at the end; it knows the first node.
fn run(library: &str, program: &[&str]) {
    // Times are measured, and building takes the whole machine.
    let _alone = crate::MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    if !install(library) {
        return;
    }
    let dir = Dir::new(library);
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "12"), ("--durability", "nosync")]);
    nodes.wait_spread();
    let mut command = Command::new("timeout");
    command.arg("60").args(program).arg(nodes.port(0).to_string()).current_dir(cache(library));
    let messages = dir.join("program");
    let file = std::fs::File::create(&messages).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).spawn().unwrap();
    let mut last = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        last = line.unwrap();
        match last.as_str() {
            // The one that the program was told of: it must have learnt of the others.
            "KILL" => nodes.kill(0),
            said => announce(&format!("{library}: {said}")),
        }
    }
    let status = child.wait().unwrap();
    let messages = std::fs::read_to_string(messages).unwrap();
    assert!(status.success() && last == "OK", "{library}: {status}\n{messages}");
}

#[test]
fn redis_py_uses_a_store_that_loses_a_node() {
    run("redis-py", &["venv/bin/python", "program.py"]);
}

#[test]
fn go_redis_uses_a_store_that_loses_a_node() {
    run("go-redis", &["./program"]);
}

#[test]
fn jedis_uses_a_store_that_loses_a_node() {
    run("jedis", &["java", "-cp", ".:lib/*", "Program"]);
}

#[test]
fn ioredis_uses_a_store_that_loses_a_node() {
    run("ioredis", &["node", "program.js"]);
}

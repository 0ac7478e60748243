//! The harness of the black-box tests: the real binary, real sockets, real files, nothing of Basalt's own code.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    reason = "each test file uses its part, and a test may fail by unwrapping"
)]

mod bucket;
mod dir;
mod nodes;
mod ports;
mod program;
mod random;
mod redis;
mod server;
mod transcript;
mod wire;

pub use bucket::FakeBucket;
pub use dir::{Dir, tree_hash};
pub use nodes::{Client, Nodes, passing, slot};
pub use ports::{free_port, free_ports};
pub use program::{basalt, run, signal, text};
pub use random::Random;
pub use redis::{Redis, fill};
pub use server::{Server, Setup};
pub use transcript::replay;
pub use wire::{Connection, Value};

use std::io::Write;
use std::time::{Duration, Instant};

/// Says something that the test runner does not swallow: what was skipped and why, or a seed.
pub fn announce(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Says that something is not tested here, because `need` cannot be had, and why. What BASALT_REQUIRE lists (with commas:
/// `redis,mount,strace,python,java,go,node,etcd`) must be there: then the test fails.
pub fn skip(need: &str, why: &str) {
    let required = std::env::var("BASALT_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|word| word.trim() == need);
    assert!(!is_required, "BASALT_REQUIRE lists `{need}`, and it cannot be had: {why}");
    announce(&format!("SKIPPED ({need}): {why}"));
}

/// A number from the environment, or what stands in for it.
pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

/// Asks again until `probe` answers; fails the test when `limit` has passed.
pub fn eventually<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a program is on the path.
pub fn installed(program: &str) -> bool {
    std::process::Command::new(program)
        .arg("--version")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok()
}

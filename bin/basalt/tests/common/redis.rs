//! A Redis of a test's own, and keys for it.

use super::{Connection, Dir, Value, eventually, free_port, installed, skip};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A Redis by itself, of which no key's slot matters.
pub struct Redis {
    child: Child,
    port: u16,
    bus_port: u16,
    data: PathBuf,
}

impl Redis {
    pub fn start(dir: &Dir) -> Option<Self> {
        Self::start_with(dir, None)
    }

    /// One that loads an RDB file.
    pub fn start_with(dir: &Dir, rdb: Option<&Path>) -> Option<Self> {
        Self::run(dir, rdb, &[])
    }

    /// A node of a cluster.
    pub fn start_clustered(dir: &Dir) -> Option<Self> {
        Self::run(dir, None, &["--cluster-enabled", "yes"])
    }

    fn run(dir: &Dir, rdb: Option<&Path>, arguments: &[&str]) -> Option<Self> {
        if !installed("redis-server") {
            skip("redis", "redis-server is not installed");
            return None;
        }
        let port = free_port();
        let data = dir.join(&format!("redis-{port}"));
        std::fs::create_dir_all(&data).unwrap();
        if let Some(rdb) = rdb {
            std::fs::copy(rdb, data.join("dump.rdb")).unwrap();
        }
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]).arg(&data);
        command.args(["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]);
        let bus_port = free_port();
        command.args(["--cluster-port", &bus_port.to_string()]).args(arguments);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let redis = Self { child, port, bus_port, data };
        eventually("redis-server listens", LIMIT, || {
            // While it loads it answers PING with an error.
            let answer = Connection::open(port).ok()?.try_call(&["PING"]).ok()?;
            (!answer.is_error()).then_some(())
        });
        Some(redis)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn bus_port(&self) -> u16 {
        self.bus_port
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.port).unwrap()
    }

    /// Where a file of its folder is.
    pub fn file(&self, name: &str) -> String {
        self.data.join(name).display().to_string()
    }

    /// Has it write its keys to a file; where that is.
    pub fn save(&self) -> String {
        assert_eq!(self.connect().call("SAVE"), Value::ok());
        self.file("dump.rdb")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // A test that failed has said so already.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Keys of every type, small and large.
pub fn fill(redis: &mut Connection) {
    for n in 0..300 {
        for words in [
            format!("SET string{n} {n}"),
            format!("SET late{n} {} PX 100000000", "x".repeat(n + 1)),
            format!("RPUSH list a{n} {n} {}", "y".repeat(n % 90 + 1)),
            format!("SADD numbers {n}"),
            format!("SADD few {}", n % 5),
            format!("SADD words w{n}"),
            format!("ZADD sorted {n}.5 m{n}"),
            format!("ZADD fewer {n} m{}", n % 7),
            format!("HSET hash f{n} {n}"),
            format!("HSET small f{} {n}", n % 3),
            format!("XADD stream {n}-1 field {n} other v"),
            format!("PFADD log e{n}"),
            format!("SETBIT bits {} 1", n * 7),
        ] {
            assert!(!redis.call(&words).is_error(), "{words}");
        }
    }
    redis.call("XGROUP CREATE stream group 0");
    redis.call("XREADGROUP GROUP group one COUNT 5 STREAMS stream >");
}

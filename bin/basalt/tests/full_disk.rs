//! A full disk refuses writes in clear words, goes on answering reads, and heals by itself when there is room.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Connection, Dir, Random, Server, Setup, Value, announce, eventually, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A small file system in memory, gone when dropped.
struct Mount(PathBuf);

impl Mount {
    /// None where this is not permitted.
    fn new(path: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&path).unwrap();
        let options = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(path))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn key(n: u64) -> String {
    format!("key{n}")
}

/// Values that do not compress, from their keys.
fn value(n: u64) -> Vec<u8> {
    Random::new(n).bytes(32 * 1024)
}

fn set(connection: &mut Connection, n: u64) -> Value {
    connection.try_call(&[b"SET".as_slice(), key(n).as_bytes(), &value(n)]).unwrap()
}

fn check_all(connection: &mut Connection, count: u64) {
    for n in 0..count {
        let got = connection.call(&format!("GET {}", key(n)));
        assert!(got == Value::Bulk(value(n)), "{} is not what was acknowledged", key(n));
    }
}

fn ballast(path: &Path) {
    std::fs::write(path, Random::new(7).bytes(96 << 20)).unwrap();
}

#[test]
fn a_full_disk_refuses_writes_and_heals_with_sync() {
    refuses_and_heals("sync");
}

#[test]
fn a_full_disk_refuses_writes_and_heals_with_nosync() {
    refuses_and_heals("nosync");
}

fn refuses_and_heals(durability: &str) {
    let dir = Dir::new(&format!("full-disk-{durability}"));
    let Some(mount) = Mount::new(dir.join("disk"), "256m") else {
        skip("mount", "a file system cannot be mounted here");
        return;
    };
    ballast(&mount.0.join("ballast"));
    let setup = Setup::new(&mount.0.join("data")).with("--memory", "128M").with("--durability", durability);
    let server = Server::start(&setup);
    let mut connection = server.connect();

    let mut count = 0;
    let begun = Instant::now();
    let refusal = loop {
        match set(&mut connection, count) {
            Value::Error(text) => break text,
            answer => assert_eq!(answer, Value::ok()),
        }
        count += 1;
        assert!(count < 256 * 32, "more was acknowledged than there is room");
        assert!(begun.elapsed() < Duration::from_secs(120), "after {count} writes it is neither full nor done");
    };
    assert!(refusal.to_lowercase().contains("space") || refusal.contains("full"), "unclear: {refusal}");
    announce(&format!("full_disk, {durability}: after {count} writes: -{refusal}"));

    // Reads go on, old connections and new; a refused write is not there.
    check_all(&mut connection, count);
    let mut other = server.connect();
    assert_eq!(other.call("PING"), Value::Simple("PONG".to_owned()));
    assert!(other.call(&format!("GET {}", key(count))).bytes().is_none(), "a refused write is seen");

    std::fs::remove_file(mount.0.join("ballast")).unwrap();
    eventually("writes are taken again", Duration::from_secs(30), || {
        (set(&mut other, count) == Value::ok()).then_some(())
    });
    count += 1;
    check_all(&mut other, count);
    server.kill();

    let server = Server::start(&setup);
    check_all(&mut server.connect(), count);
    server.kill();
}

#[test]
fn a_store_starts_on_a_full_disk_and_answers_reads() {
    let dir = Dir::new("full-start");
    let Some(mount) = Mount::new(dir.join("disk"), "256m") else {
        skip("mount", "a file system cannot be mounted here");
        return;
    };
    let setup = Setup::new(&mount.0.join("data")).with("--memory", "128M");
    let server = Server::start(&setup);
    let mut connection = server.connect();
    for n in 0..500 {
        assert_eq!(set(&mut connection, n), Value::ok());
    }
    server.kill();
    // Fill all that is left, to the last byte.
    let _ = std::fs::write(mount.0.join("ballast"), vec![1; 300 << 20]);
    match Server::try_start(&setup) {
        Ok(server) => check_all(&mut server.connect(), 500),
        Err(messages) => assert!(messages.to_lowercase().contains("space"), "it does not say why:\n{messages}"),
    }
    std::fs::remove_file(mount.0.join("ballast")).unwrap();
    let server = Server::start(&setup);
    check_all(&mut server.connect(), 500);
    server.kill();
}

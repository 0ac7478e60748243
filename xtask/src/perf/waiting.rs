//! Very many clients that wait in a blocking command: what each of them takes of the node's memory.

use super::bench::Bench;
use super::ceiling::{Ceiling, Rows};
use super::machine::process_memory_bytes;
use super::progress;
use super::redis::start_with;
use super::server::Server;
use super::spread::grouped;
use super::wire::Connection;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// What a client may take.
const BYTES_MAX: f64 = 1024.0;
/// An address has 28,000 ports for connections that go out.
const CLIENTS_AN_ADDRESS: u64 = 10_000;
/// Besides those of the clients.
const OTHER_DESCRIPTORS: u64 = 2_000;
const BOUND: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// Clients that connect, and then each wait for an element of a list of their own.
pub fn measure(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let clients = bench.options.scale(100_000, 5_000);
    let descriptors = clients + OTHER_DESCRIPTORS;
    allow(descriptors)?;
    let mut unlimited = Command::new("sh");
    unlimited.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"")]).arg(&bench.basalt);
    let most = format!("maxclients={}", clients + OTHER_DESCRIPTORS / 4);
    let arguments = ["--durability", "nosync", "--memory", "1G", "--set", &most];
    let server = start_with(bench, unlimited, "basalt", &arguments)?;
    server.wait_until_quiet()?;
    let nobody = process_memory_bytes(server.id())?;
    progress::doing(format!("connecting {clients} clients"));
    let mut streams = Vec::new();
    for number in 0..clients {
        streams.push(open(&server, number)?);
        progress::counted(number, clients);
    }
    server.wait_until_quiet()?;
    let idle = process_memory_bytes(server.id())?;
    progress::doing(format!("BLPOP of {clients} clients"));
    for (number, stream) in streams.iter_mut().enumerate() {
        let request = super::wire::request(&["BLPOP", &format!("list:{number}"), "0"]);
        stream.write_all(&request).map_err(|error| format!("client {number}: {error}"))?;
        progress::counted(number as u64, clients);
    }
    until_all_wait(&server, clients)?;
    server.wait_until_quiet()?;
    let waiting = process_memory_bytes(server.id())?;
    drop(streams);
    server.stop()?;
    let each = |bytes: u64| bytes.saturating_sub(nobody) as f64 / clients as f64;
    let what = |what: &str| format!("{} clients on one node: bytes {what}", grouped(clients as f64));
    let mut rows = Rows::default();
    rows.push(Ceiling::new(what("of one that waits in BLPOP"), "bytes", BYTES_MAX, each(waiting)))?;
    rows.push(Ceiling::new(what("of the wait alone"), "bytes", BYTES_MAX, each(waiting) - each(idle)))?;
    rows.push(Ceiling::told(what("of one that is connected and has asked once"), "bytes", each(idle)))?;
    Ok(rows.all())
}

/// Raises this program's limit of open files: the clients are all here.
fn allow(descriptors: u64) -> Result<(), String> {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|most| most >= descriptors) {
        return Ok(());
    }
    let maximum = now.maximum.map(|most| most.max(descriptors));
    setrlimit(Resource::Nofile, Rlimit { current: Some(descriptors), maximum })
        .map_err(|error| format!("{descriptors} open files: {error}; `ulimit -n` must allow them, or run as root"))
}

/// Connects from one of several addresses of this machine, and has one request answered.
fn open(server: &Server, number: u64) -> Result<TcpStream, String> {
    let failed = |error: std::io::Error| format!("client {number}: {error}");
    let from = Ipv4Addr::new(127, 0, 1, 1 + (number / CLIENTS_AN_ADDRESS) as u8);
    let made = || -> rustix::io::Result<TcpStream> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddrV4::new(from, 0))?;
        connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, server.port))?;
        Ok(socket.into())
    };
    let mut stream = made().map_err(|error| failed(error.into()))?;
    stream.set_read_timeout(Some(BOUND)).map_err(failed)?;
    stream.write_all(PING).map_err(failed)?;
    let mut answer = [0; PONG.len()];
    stream.read_exact(&mut answer).map_err(failed)?;
    let said = String::from_utf8_lossy(&answer);
    if answer == *PONG { Ok(stream) } else { Err(format!("client {number}: answered with {said}")) }
}

fn until_all_wait(server: &Server, clients: u64) -> Result<(), String> {
    let (begun, bound) = (Instant::now(), progress::within(BOUND));
    loop {
        let waiting = Connection::open(server.port)?.told("blocked_clients")?;
        if waiting == clients {
            return Ok(());
        }
        if begun.elapsed() > bound {
            return Err(format!("{waiting} of {clients} clients wait after {} s", bound.as_secs()));
        }
        std::thread::sleep(POLL);
    }
}

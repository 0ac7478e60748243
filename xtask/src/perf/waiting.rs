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
/// Clients whose first requests are on their way at once.
const AT_A_TIME: u64 = 100;
/// Besides those of the clients: the node's files, above all.
const OTHER_DESCRIPTORS: u64 = 4_000;
const BOUND: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// Clients that connect, and then each wait for an element of a list of their own.
pub fn measure(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let clients = allowed(bench.options.scale(100_000, 5_000));
    let most = format!("maxclients={}", clients + OTHER_DESCRIPTORS / 8);
    let arguments = ["--durability", "nosync", "--memory", "1G", "--set", &most];
    let server = start_with(bench, Command::new(&bench.basalt), "basalt", &arguments)?;
    server.wait_until_quiet()?;
    let alone = process_memory_bytes(server.id())?;
    progress::doing(format!("connecting {clients} clients"));
    let mut streams = Vec::new();
    for first in (0..clients).step_by(AT_A_TIME as usize) {
        for number in first..clients.min(first + AT_A_TIME) {
            streams.push(open(&server, number).map_err(|error| format!("client {number}: {error}"))?);
        }
        streams[first as usize..].iter_mut().try_for_each(answered)?;
        progress::counted(first, clients);
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
    let each = |bytes: u64| bytes.saturating_sub(alone) as f64 / clients as f64;
    let what = |what: &str| format!("{} clients on one node: bytes {what}", grouped(clients as f64));
    let mut rows = Rows::default();
    rows.push(Ceiling::new(what("of one that waits in BLPOP"), "bytes", BYTES_MAX, each(waiting)))?;
    rows.push(Ceiling::new(what("of the wait alone"), "bytes", BYTES_MAX, each(waiting) - each(idle)))?;
    rows.push(Ceiling::told(what("of one that is connected and has asked once"), "bytes", each(idle)))?;
    Ok(rows.all())
}

/// Raises this program's limit of open files for as many clients as are wanted, as far as it may; for how many it is enough. The
/// node's limit is the same: it is started by this program.
fn allowed(wanted: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    let raised = |descriptors| {
        let maximum = now.maximum.map(|most| most.max(descriptors));
        setrlimit(Resource::Nofile, Rlimit { current: Some(descriptors), maximum }).is_ok()
    };
    let enough = wanted + OTHER_DESCRIPTORS;
    if now.current.is_none_or(|most| most >= enough) || raised(enough) {
        return wanted;
    }
    // Only the system's operator may go beyond the hard limit.
    let hard = now.maximum.filter(|most| raised(*most)).or(now.current).unwrap_or(enough);
    let clients = hard.saturating_sub(OTHER_DESCRIPTORS).min(wanted);
    eprintln!(
        "the limit of open files, {hard}, allows {clients} clients of {wanted}: `ulimit -Hn` is to allow {enough}"
    );
    clients
}

/// Connects from one of several addresses of this machine, and sends a first request.
fn open(server: &Server, number: u64) -> std::io::Result<TcpStream> {
    let from = Ipv4Addr::new(127, 0, 1, 1 + (number / CLIENTS_AN_ADDRESS) as u8);
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(from, 0))?;
    connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, server.port))?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(BOUND))?;
    stream.write_all(PING)?;
    Ok(stream)
}

/// Reads the answer to that request.
fn answered(stream: &mut TcpStream) -> Result<(), String> {
    let mut answer = [0; PONG.len()];
    stream.read_exact(&mut answer).map_err(|error| format!("a client that asks for the first time: {error}"))?;
    let said = String::from_utf8_lossy(&answer);
    if answer == *PONG { Ok(()) } else { Err(format!("a client that asks for the first time is answered with {said}")) }
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

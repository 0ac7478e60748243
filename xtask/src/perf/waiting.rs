//! Clients that wait in blocking commands: what each of very many takes of the node's memory, and what others wait for where they wait
//! for very many keys.

use super::bench::Bench;
use super::bounded::{pause, waits_rows};
use super::ceiling::{Ceiling, Rows};
use super::machine::process_memory_bytes;
use super::others::meanwhile;
use super::progress;
use super::redis::{start_basalt, start_with};
use super::server::Server;
use super::spread::grouped;
use super::wire::{Connection, request};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// What a client may take beside its connection.
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
        let request = request(&["BLPOP", &format!("list:{number}"), "0"]);
        stream.write_all(&request).map_err(|error| format!("client {number}: {error}"))?;
        progress::counted(number as u64, clients);
    }
    until_waiting(server.port, clients)?;
    server.wait_until_quiet()?;
    let waiting = process_memory_bytes(server.id())?;
    drop(streams);
    server.stop()?;
    let each = |bytes: u64| bytes.saturating_sub(alone) as f64 / clients as f64;
    let what = |what: &str| format!("{} clients on one node: bytes {what}", grouped(clients as f64));
    let mut rows = Rows::default();
    rows.push(Ceiling::new(what("of a wait in BLPOP"), "bytes", BYTES_MAX, each(waiting) - each(idle)))?;
    rows.push(Ceiling::told(what("of one that is connected and has asked once"), "bytes", each(idle)))?;
    rows.push(Ceiling::told(what("of one that waits, with its connection"), "bytes", each(waiting)))?;
    Ok(rows.all())
}

/// As many keys as one client may wait for.
const KEYS: u64 = 4_096;
/// Keys that one entry writes.
const WRITTEN_KEYS: u64 = 100_000;
/// Within this time, in s, all of them begin to wait: then those leave whose time is over.
const TIMEOUT_S: &str = "20";

/// Clients that wait for as many keys as they may: they begin all at once, and leave all at once.
pub fn many_keys(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let clients = bench.options.scale(50, 5);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "256M"])?;
    let mut rows = Rows::default();
    let key = |client: u64, n: u64| format!("{{b}}{}", client * KEYS + n);
    let words = |client: u64, first: &[&str], last: &[&str]| -> Vec<u8> {
        let keys: Vec<String> = (0..KEYS).map(|n| key(client, n)).collect();
        let words = first.iter().copied().chain(keys.iter().map(String::as_str)).chain(last.iter().copied());
        request(&words.collect::<Vec<_>>())
    };
    let ends = vec!["$"; KEYS as usize];
    let each = |first: &[&str], last: &[&str]| (0..clients).map(|client| words(client, first, last)).collect();
    let of_blpop = |timeout: &str| -> Vec<Vec<u8>> { each(&["BLPOP"], &[timeout]) };
    let xread: Vec<Vec<u8>> = each(&["XREAD", "BLOCK", "0", "STREAMS"], &ends);
    for (what, requests, closes) in
        [("BLPOP", of_blpop("0"), true), ("BLPOP", of_blpop(TIMEOUT_S), false), ("XREAD of $", xread, true)]
    {
        let (what, how) =
            (format!("{clients} clients in {what} of 4,096 keys"), if closes { "closed" } else { "timeout" });
        let mut streams = (0..clients)
            .map(|number| open(&server, number))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| e.to_string())?;
        streams.iter_mut().try_for_each(answered)?;
        let (streams, waits) = meanwhile(server.port, move || {
            for (stream, request) in streams.iter_mut().zip(&requests) {
                stream.write_all(request).map_err(|error| error.to_string())?;
            }
            until_waiting(server.port, clients).map(|()| streams)
        })?;
        rows.extend(waits_rows(&format!("{what} begin to wait ({how})"), waits))?;
        let ((), waits) = meanwhile(server.port, move || {
            // Those that are to be closed are so here, at once.
            let open = (!closes).then_some(streams);
            until_waiting(server.port, 0)?;
            pause(1).map(|()| drop(open))
        })?;
        rows.extend(waits_rows(&format!("{what} leave ({how})"), waits))?;
    }
    server.stop().map(|()| rows.all())
}

/// An entry that leaves an element at each of very many keys, for which clients wait or do not.
pub fn written_keys(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let keys = bench.options.scale(WRITTEN_KEYS, 5_000);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "256M"])?;
    let script = "for n = 0, ARGV[1] - 1 do redis.call('RPUSH', '{b}' .. n, 'element') end";
    let mut rows = Rows::default();
    for is_awaited in [false, true] {
        let mut streams = Vec::new();
        for first in (0..keys).step_by(KEYS as usize).filter(|_| is_awaited) {
            let names: Vec<String> = (first..keys.min(first + KEYS)).map(|n| format!("{{b}}{n}")).collect();
            let words = std::iter::once("BLPOP").chain(names.iter().map(String::as_str)).chain(["0"]);
            let mut stream = open(&server, first).map_err(|error| error.to_string())?;
            answered(&mut stream)?;
            stream.write_all(&request(&words.collect::<Vec<_>>())).map_err(|error| error.to_string())?;
            streams.push(stream);
        }
        until_waiting(server.port, streams.len() as u64)?;
        let ((), waits) = meanwhile(server.port, || {
            let mut client = Connection::open(server.port)?;
            client.ask(&["EVAL", script, "1", "{b}", &keys.to_string()])?;
            client.answer()?;
            until_waiting(server.port, 0)?;
            pause(1)
        })?;
        let who = if is_awaited { "for each of which a client waits" } else { "for which none waits" };
        rows.extend(waits_rows(&format!("an entry writes {keys} keys {who}"), waits))?;
        let mut client = Connection::open(server.port)?;
        client.ask(&["FLUSHALL"])?;
        client.answer()?;
        drop(streams);
    }
    server.stop().map(|()| rows.all())
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

/// Until so many clients wait in blocking commands.
fn until_waiting(port: u16, clients: u64) -> Result<(), String> {
    let (begun, bound) = (Instant::now(), progress::within(BOUND));
    loop {
        let waiting = Connection::open(port)?.told("blocked_clients")?;
        if waiting == clients {
            return Ok(());
        }
        if begun.elapsed() > bound {
            return Err(format!("{waiting} clients wait after {} s, and {clients} were to", bound.as_secs()));
        }
        std::thread::sleep(POLL);
    }
}

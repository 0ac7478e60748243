//! Reads of rows that only the disk has, each by every way that there is.
#![allow(clippy::unwrap_used)]

use super::deferred::DeferredRead;
use super::deferred_get::DeferredGet;
use super::reader_thread::ReaderThread;
use super::uring_reader::DiskReader;
use crate::api::{KeyTarget, Routed, route};
use crate::mailbox::{Mailbox, WorkerMessage};
use crate::os::steady_us;
use crate::testing::TestNode;
use mio::{Events, Poll, Token, Waker};
use node::read::ReadRequest;
use node::session::Consistency;
use node::{EncodedCommand, Ticket};
use resp::table;
use std::io::ErrorKind;
use std::time::Duration;

const MAIL: Token = Token(0);
const READS: Token = Token(1);
const LSM: &[(&str, &str)] = &[("engine", "lsm")];

/// A store that was filled and started again.
fn cold_node() -> TestNode {
    let mut node = TestNode::start(LSM);
    let filler = "x".repeat(900);
    for n in 0..400 {
        assert_eq!(node.call(&format!("SET key:{n:04} {n}-{filler}")), "+OK\r\n");
    }
    for n in 0..5 {
        let fields: String = (0..300).map(|field| format!(" f{field:03} {n}-{field}-{filler}")).collect();
        assert_eq!(node.call(&format!("HSET large:{n}{fields}")), ":300\r\n");
        assert_eq!(node.call(&format!("MSET {{{n}}}a 1{filler} {{{n}}}b 2{filler} {{{n}}}c 3{filler}")), "+OK\r\n");
    }
    assert_eq!(node.call("SET gone x PX 1"), "+OK\r\n");
    node.restart(LSM);
    node
}

/// The way of a read's blocks into memory.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The event loop's io_uring reader.
    Ring,
    /// The reader thread.
    Thread,
    /// A thread that waits.
    Pool,
}

fn deferred(node: &TestNode, line: &str) -> DeferredRead {
    let store = node.store().clone();
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let spec = table::resolve(&args).unwrap();
    let Ok(Routed::Read(KeyTarget { slot, .. }, handler)) = route(&store, spec, &args) else {
        panic!("{line} is no read")
    };
    let request = ReadRequest::new(slot, Consistency::Absolute, steady_us());
    let attempt = store.access().begin_read(request).unwrap();
    let command = EncodedCommand::of(spec, &args);
    // No worker has this number: what goes to the pool instead is answered to nowhere, and the test sees that.
    let ticket = Ticket { worker: 9, ..Ticket::NONE };
    DeferredRead::Get(DeferredGet { store, ticket, spec, command, handler, attempt, seed: 1, held: Vec::new() })
}

fn reply(messages: &mut Vec<WorkerMessage>) -> String {
    let Some(WorkerMessage::Answer { reply, .. }) = messages.pop() else {
        panic!("the pool has got it, or nothing has")
    };
    String::from_utf8(reply).unwrap()
}

/// Waits for an event, but not for long: what is waited for may have happened.
fn wait(poll: &mut Poll) {
    match poll.poll(&mut Events::with_capacity(8), Some(Duration::from_millis(10))) {
        Err(e) if e.kind() != ErrorKind::Interrupted => panic!("{e}"),
        _ => {}
    }
}

fn answer(node: &TestNode, way: Way, line: &str) -> String {
    let mut poll = Poll::new().unwrap();
    let mut messages = Vec::new();
    let read = deferred(node, line);
    match way {
        Way::Ring => {
            let mut reader = DiskReader::new(node.store(), 1, poll.registry(), READS).unwrap();
            reader.go(&mut vec![read], &mut messages);
            while reader.underway() > 0 {
                if !reader.is_behind() {
                    wait(&mut poll);
                }
                reader.go(&mut Vec::new(), &mut messages);
            }
        }
        Way::Thread => {
            let mailbox = Mailbox::new(Waker::new(poll.registry(), MAIL).unwrap());
            let thread = ReaderThread::start("reader-test", node.store(), 1, mailbox.clone()).unwrap();
            thread.take([read].into_iter());
            while thread.underway() > 0 {
                wait(&mut poll);
            }
            drop(thread);
            mailbox.take(&mut messages);
        }
        Way::Pool => messages.extend(read.wait().unwrap_or_else(|_| panic!("it waits for the disk alone"))),
    }
    reply(&mut messages)
}

/// Different rows for each way: what one has read is in memory for the next.
#[test]
fn each_way_of_a_cold_read_gives_the_same_answers() {
    let node = cold_node();
    for (n, way) in [Way::Ring, Way::Thread, Way::Pool].into_iter().enumerate() {
        let filler = "x".repeat(900);
        let bulk = |text: String| format!("${}\r\n{text}\r\n", text.len());
        for (line, expected) in [
            (format!("GET key:{:04}", 100 * n + 7), bulk(format!("{}-{filler}", 100 * n + 7))),
            (format!("GET key:{:04}x", 100 * n + 7), "$-1\r\n".to_owned()),
            (
                format!("STRLEN key:{:04}", 100 * n + 30),
                format!(":{}\r\n", filler.len() + 1 + (100 * n + 30).to_string().len()),
            ),
            (format!("EXISTS key:{:04}", 100 * n + 60), ":1\r\n".to_owned()),
            (format!("MGET {{{n}}}a {{{n}}}none {{{n}}}c"), {
                format!("*3\r\n{}$-1\r\n{}", bulk(format!("1{filler}")), bulk(format!("3{filler}")))
            }),
            (format!("HGET large:{n} f150"), bulk(format!("{n}-150-{filler}"))),
            (format!("HLEN large:{n}"), ":300\r\n".to_owned()),
            (format!("HGET large:{n} none"), "$-1\r\n".to_owned()),
            (format!("HGET key:{:04} f", 100 * n + 90), {
                "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".to_owned()
            }),
            ("GET gone".to_owned(), "$-1\r\n".to_owned()),
        ] {
            assert_eq!(answer(&node, way, &line), expected, "{line}, {way:?}");
        }
    }
}

/// More reads than the ring takes at a time: all are answered.
#[test]
fn a_reader_answers_more_reads_than_the_disk_has_at_a_time() {
    let node = cold_node();
    let mut poll = Poll::new().unwrap();
    let mailbox = Mailbox::new(Waker::new(poll.registry(), MAIL).unwrap());
    let thread = ReaderThread::start("reader-test", node.store(), 1, mailbox.clone()).unwrap();
    let reads: Vec<DeferredRead> = (0..400).map(|n| deferred(&node, &format!("GET key:{n:04}"))).collect();
    thread.take(reads.into_iter());
    while thread.underway() > 0 {
        wait(&mut poll);
    }
    drop(thread);
    let mut messages = Vec::new();
    mailbox.take(&mut messages);
    let lengths = messages.iter().map(|message| match message {
        WorkerMessage::Answer { reply, .. } => reply.len(),
        _ => 0,
    });
    assert!(lengths.clone().all(|length| length > 900), "each has its value");
    assert_eq!(lengths.count(), 400);
}

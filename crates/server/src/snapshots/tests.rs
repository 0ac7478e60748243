//! Transfers between nodes in one process, over real sockets.
#![allow(clippy::unwrap_used)]

use super::parts::{BEGIN, Begin, DONE, END, GO_ON, REFUSED, ROWS, put_row, words};
use super::stream::Parts;
use super::*;
use crate::links::{Identity, LinkEvent, Links, LinksOptions, Packing, Purpose, SharedIdentity, call};
use mio::{Events, Poll, Token};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use storage::{Engine, EngineKind, Ingest, Ingested, SharedResources, Slice, Span, StorageOptions, WriteBatch};
use vocab::{NodeId, ReplicaId, ShardId};

const PATIENCE: Duration = Duration::from_secs(20);
const SHARD: ShardId = ShardId(3);

fn until(what: &str, reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a host was told.
#[derive(Default)]
struct Told {
    ingests: usize,
    received: Vec<Received>,
    sent: Vec<Result<(), String>>,
}

/// A host that takes everything in, or nothing.
struct Host {
    engine: Arc<dyn Engine>,
    refusal: Option<&'static str>,
    told: Mutex<Told>,
    /// Ingestions that have not been dropped.
    alive: Arc<AtomicUsize>,
    /// The keys in the order in which they came.
    keys: Arc<Mutex<Vec<Vec<u8>>>>,
    _folder: tempfile::TempDir,
}

impl Host {
    fn new(kind: EngineKind, refusal: Option<&'static str>) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let engine =
            storage::open_engine(kind, folder.path(), &SharedResources::new(StorageOptions::default())).unwrap();
        let (told, alive, keys) = (Mutex::default(), Arc::default(), Arc::default());
        Arc::new(Self { engine, refusal, told, alive, keys, _folder: folder })
    }

    fn sent(&self) -> Vec<Result<(), String>> {
        self.told.lock().unwrap().sent.clone()
    }

    fn received(&self) -> usize {
        self.told.lock().unwrap().received.len()
    }

    fn fill(&self, rows: usize, value_bytes: usize) {
        let writes = (0..rows).map(|i| {
            let value = vec![i as u8; value_bytes + i % 7];
            (Slice::from(format!("r{i:08}").as_bytes()), Some(Slice::from(&value[..])))
        });
        self.engine.apply(90, WriteBatch { writes: writes.collect(), ..WriteBatch::default() });
    }
}

impl SnapshotHost for Host {
    fn ingest(&self, _: NodeId, _: ShardId, _: &[u8]) -> Result<Box<dyn Ingest>, String> {
        if let Some(why) = self.refusal {
            return Err(why.to_owned());
        }
        self.told.lock().unwrap().ingests += 1;
        self.alive.fetch_add(1, Ordering::SeqCst);
        let inner = self.engine.ingest().map_err(|e| e.to_string())?;
        Ok(Box::new(Watched { inner, alive: Alive(self.alive.clone()), keys: self.keys.clone() }))
    }

    fn received(&self, snapshot: Received) {
        self.told.lock().unwrap().received.push(snapshot);
    }

    fn sent(&self, _: NodeId, _: ShardId, _: ReplicaId, outcome: Result<(), String>) {
        self.told.lock().unwrap().sent.push(outcome);
    }
}

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An ingestion that remembers what came.
struct Watched {
    inner: Box<dyn Ingest>,
    alive: Alive,
    keys: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Ingest for Watched {
    fn put(&mut self, key: Slice, value: Slice) -> storage::Result<()> {
        self.keys.lock().unwrap().push(key.to_vec());
        self.inner.put(key, value)
    }

    fn finish(self: Box<Self>, index: u64, meta: Vec<(Slice, Slice)>) -> storage::Result<Box<dyn Ingested>> {
        let Self { inner, alive, .. } = *self;
        drop(alive);
        inner.finish(index, meta)
    }
}

/// A node: its transfers, and a thread with its links.
struct Node {
    id: u64,
    identity: SharedIdentity,
    address: String,
    host: Arc<Host>,
    snapshots: Arc<Snapshots>,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn options() -> SnapshotOptions {
    SnapshotOptions { busy_within: Duration::from_millis(100), ..SnapshotOptions::default() }
}

impl Node {
    fn start(id: u64, host: Arc<Host>, options: SnapshotOptions) -> Self {
        let identity = Identity::new(NodeId(id), Vec::new(), b"secret".to_vec()).shared();
        let snapshots = Arc::new(Snapshots::new(identity.clone(), host.clone(), options));
        let mut poll = Poll::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let link_options = LinksOptions {
            identity: identity.clone(),
            listener: Some(listener),
            packing: Packing::Auto,
            guard: Box::new(|_, _| Ok(())),
        };
        let registry = poll.registry().try_clone().unwrap();
        let mut links = Links::new(registry, Token(usize::MAX - 1), link_options).unwrap();
        let ending = Arc::new(AtomicBool::new(false));
        let (inward, ended) = (snapshots.clone(), ending.clone());
        let run = move || {
            let mut events = Events::with_capacity(16);
            while !ended.load(Ordering::SeqCst) {
                poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
                for event in &events {
                    links.notice(event.token(), event, Instant::now(), &mut |event| {
                        let LinkEvent::Snapshot { node, stream } = event else { panic!("{event:?}") };
                        inward.receive(node, stream);
                    });
                }
            }
        };
        let thread = Some(std::thread::spawn(run));
        Self { id, identity, address, host, snapshots, ending, thread }
    }

    fn outbound(&self, to: u64, address: &str) -> Outbound {
        Outbound {
            to: NodeId(to),
            address: address.to_owned(),
            shard: SHARD,
            replica: ReplicaId(7),
            snapshot: self.host.engine.snapshot(),
            meta: vec![("counters".as_bytes().into(), "some".as_bytes().into())],
            message: b"message".to_vec(),
            bytes_approx: 1000,
        }
    }

    fn send(&self, to: &Self) -> bool {
        self.snapshots.send(self.outbound(to.id, &to.address)).is_ok()
    }

    /// A connection of node 1, by hand.
    fn connect(&self, as_node: &Self) -> Parts {
        let (stream, _) = call(&self.address, as_node.identity.now(), Purpose::Snapshot, None, PATIENCE).unwrap();
        Parts::new(stream, PATIENCE).unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
        self.snapshots.stop();
    }
}

/// Passes bytes on to `to`; cuts the nth connection after so many bytes of the caller.
fn proxy(to: &str, cuts: Vec<u64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let to = to.to_owned();
    let run = move || {
        for bytes in cuts.into_iter().chain([u64::MAX]) {
            let (caller, _) = listener.accept().unwrap();
            let called = TcpStream::connect(&to).unwrap();
            let (mut back, mut from) = (caller.try_clone().unwrap(), called.try_clone().unwrap());
            let answers = std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut back);
            });
            let mut called = called;
            let _ = std::io::copy(&mut (&caller).take(bytes), &mut called);
            let _ = called.shutdown(Shutdown::Both);
            let _ = caller.shutdown(Shutdown::Both);
            answers.join().unwrap();
        }
    };
    std::thread::spawn(run);
    address
}

fn all() -> Span {
    Span { start: Vec::new(), end: Vec::new() }
}

fn begin(transfer: u64) -> Begin {
    Begin { transfer, shard: SHARD, index: 5, bytes_approx: 0, meta: Vec::new(), message: b"m".to_vec() }
}

fn end(rows: u64, bytes: u64) -> Vec<u8> {
    [rows.to_le_bytes(), bytes.to_le_bytes()].concat()
}

#[test]
fn a_snapshot_arrives_whole_and_unchanged() {
    let source = Node::start(1, Host::new(EngineKind::Lsm, None), options());
    let target = Node::start(2, Host::new(EngineKind::Lsm, None), options());
    source.host.fill(3000, 1000);
    // One row that is larger than a chunk.
    let large = vec![(Slice::from(&b"s"[..]), Some(Slice::from(&vec![9; 3_000_000][..])))];
    source.host.engine.apply(91, WriteBatch { writes: large, ..WriteBatch::default() });
    assert!(source.send(&target));
    // What comes later is not a part of it.
    let later = source.host.engine.snapshot();
    source.host.engine.apply(
        92,
        WriteBatch { writes: vec![(Slice::from(&b"t"[..]), Some(Slice::from(&b"1"[..])))], ..WriteBatch::default() },
    );
    until("it is sent", || !source.host.sent().is_empty());
    assert_eq!(source.host.sent(), [Ok(())]);
    let received = target.host.told.lock().unwrap().received.pop().unwrap();
    assert_eq!((received.from, received.shard, received.index), (NodeId(1), SHARD, 91));
    assert_eq!(received.message, b"message");
    assert_eq!(received.meta, source.outbound(2, "").meta);
    target.host.engine.install(received.ingested).unwrap();
    assert_eq!(target.host.engine.applied_index(), 91);
    assert_eq!(target.host.engine.meta(b"counters").unwrap().as_deref(), Some(&b"some"[..]));
    assert_eq!(target.host.engine.snapshot().digest(all()).unwrap(), later.digest(all()).unwrap());
    until("its place is free", || target.snapshots.transfers().is_empty());
    assert!(source.snapshots.transfers().is_empty() && source.snapshots.may_send(SHARD, NodeId(2), 0));
}

#[test]
fn a_broken_connection_goes_on_where_it_was() {
    let source = Node::start(1, Host::new(EngineKind::Memory, None), options());
    let target = Node::start(2, Host::new(EngineKind::Memory, None), options());
    source.host.fill(5000, 1000);
    let address = proxy(&target.address, vec![0, 100, 1_000_000, 300_000, 2_000_000]);
    source.snapshots.send(source.outbound(2, &address)).ok().unwrap();
    until("it is sent", || !source.host.sent().is_empty());
    assert_eq!(source.host.sent(), [Ok(())]);
    assert_eq!(target.host.told.lock().unwrap().ingests, 1, "none began anew");
    let keys = target.host.keys.lock().unwrap();
    assert_eq!(keys.len(), 5000);
    assert!(keys.is_sorted_by(|a, b| a < b), "each row once");
}

#[test]
fn who_does_not_want_it_says_why() {
    let source = Node::start(1, Host::new(EngineKind::Memory, None), options());
    let target = Node::start(2, Host::new(EngineKind::Memory, Some("no such shard here")), options());
    source.host.fill(10, 10);
    assert!(source.send(&target));
    until("it is refused", || !source.host.sent().is_empty());
    assert_eq!(source.host.sent(), [Err("no such shard here".to_owned())]);

    // No listener there: given up when patience ends.
    let hasty = SnapshotOptions { resume_within: Duration::from_millis(100), ..options() };
    let lonely = Node::start(3, Host::new(EngineKind::Memory, None), hasty);
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    lonely.snapshots.send(lonely.outbound(2, &unused)).ok().unwrap();
    until("it is given up", || !lonely.host.sent().is_empty());
    assert!(lonely.host.sent()[0].as_ref().unwrap_err().contains("cannot call the node at 127.0.0.1"));
    // Another service listens there.
    lonely.snapshots.send(lonely.outbound(9, &target.address)).ok().unwrap();
    until("it is given up", || lonely.host.sent().len() == 2);
    assert!(lonely.host.sent()[1].as_ref().unwrap_err().contains("answers where node 0000000000000009 is expected"));
}

#[test]
fn there_are_no_more_at_once_than_may_be() {
    let slow = SnapshotOptions { receive_rate: 1000, inbound_max: 1, ..options() };
    let alone = SnapshotOptions { outbound_max: 1, ..options() };
    let (first, second) = (
        Node::start(1, Host::new(EngineKind::Memory, None), alone),
        Node::start(4, Host::new(EngineKind::Memory, None), options()),
    );
    let target = Node::start(2, Host::new(EngineKind::Memory, None), slow);
    first.host.fill(1000, 1000);
    assert!(first.send(&target));
    assert!(!first.snapshots.may_send(SHARD, NodeId(2), 0) && !first.send(&target), "one at a time");
    until("rows come in", || !target.host.keys.lock().unwrap().is_empty());
    let mut other = second.outbound(2, &target.address);
    other.shard = ShardId(8);
    second.snapshots.send(other).ok().unwrap();
    until("there is no room", || !second.host.sent().is_empty());
    assert_eq!(second.host.sent(), [Err("as many snapshots come in as may".to_owned())]);
    let status = target.snapshots.transfers();
    assert_eq!((status.len(), status[0].direction, status[0].peer), (1, Direction::In, NodeId(1)));
    target.snapshots.set_receive_rate(0);
    target.snapshots.cancel(SHARD);
    until("it ends", || !first.host.sent().is_empty() && target.snapshots.transfers().is_empty());
}

#[test]
fn what_is_cancelled_leaves_nothing() {
    for by_sender in [true, false] {
        let slow = SnapshotOptions { resume_within: Duration::from_millis(200), ..options() };
        let source =
            Node::start(1, Host::new(EngineKind::Memory, None), SnapshotOptions { send_rate: 300_000, ..slow.clone() });
        let target = Node::start(2, Host::new(EngineKind::Memory, None), slow);
        source.host.fill(5000, 1000);
        assert!(source.send(&target));
        until("rows come in", || source.snapshots.transfers().iter().any(|status| status.rows > 0));
        assert_eq!(target.host.alive.load(Ordering::SeqCst), 1);
        if by_sender {
            source.snapshots.cancel(SHARD)
        } else {
            target.snapshots.cancel(SHARD)
        }
        until("the sender knows", || !source.host.sent().is_empty());
        let why = source.host.sent()[0].clone().unwrap_err();
        assert!(if by_sender { why == "cancelled" } else { why.contains("not wanted") }, "{why}");
        until("nothing is left", || target.host.alive.load(Ordering::SeqCst) == 0);
        until("nothing goes on", || {
            target.snapshots.transfers().is_empty() && source.snapshots.may_send(SHARD, NodeId(2), 0)
        });
        assert_eq!((source.host.sent().len(), target.host.received()), (1, 0));
    }
}

#[test]
fn a_stop_ends_all_and_tells() {
    let slow = SnapshotOptions { send_rate: 300_000, ..options() };
    let source = Node::start(1, Host::new(EngineKind::Memory, None), slow);
    let target = Node::start(2, Host::new(EngineKind::Memory, None), options());
    source.host.fill(5000, 1000);
    assert!(source.send(&target));
    until("rows come in", || !target.host.keys.lock().unwrap().is_empty());
    // The target stops while it takes rows in, the source while it waits for the target to come back.
    target.snapshots.stop();
    assert_eq!(target.host.alive.load(Ordering::SeqCst), 0);
    source.snapshots.stop();
    assert_eq!(source.host.sent().len(), 1);
    assert!(!source.send(&target) && !source.snapshots.may_send(SHARD, NodeId(2), 0));
}

#[test]
fn the_latest_offer_wins() {
    let slow = SnapshotOptions { send_rate: 300_000, ..options() };
    let patient = SnapshotOptions { busy_within: PATIENCE, ..options() };
    let first = Node::start(1, Host::new(EngineKind::Memory, None), slow);
    let second = Node::start(4, Host::new(EngineKind::Memory, None), patient);
    let target = Node::start(2, Host::new(EngineKind::Memory, None), options());
    first.host.fill(5000, 1000);
    second.host.fill(10, 10);
    assert!(first.send(&target));
    until("rows come in", || !target.host.keys.lock().unwrap().is_empty());
    assert!(second.send(&target));
    until("both are told", || !first.host.sent().is_empty() && !second.host.sent().is_empty());
    assert_eq!(second.host.sent(), [Ok(())]);
    assert!(first.host.sent()[0].as_ref().unwrap_err().contains("not wanted"));
    assert_eq!(target.host.told.lock().unwrap().received[0].from, NodeId(4));
    assert_eq!(target.host.alive.load(Ordering::SeqCst), 0);
}

#[test]
fn a_lost_last_word_is_said_again() {
    let source = Node::start(1, Host::new(EngineKind::Memory, None), options());
    let target = Node::start(2, Host::new(EngineKind::Memory, None), options());
    let mut chunk = Vec::new();
    put_row(&mut chunk, b"ra", b"1");
    let mut parts = target.connect(&source);
    parts.say(BEGIN, &begin(7).encode()).unwrap();
    parts.say(ROWS, &chunk).unwrap();
    parts.say(END, &end(1, 3)).unwrap();
    until("it is there", || target.host.received() == 1);
    drop(parts);
    let mut parts = target.connect(&source);
    parts.say(BEGIN, &begin(7).encode()).unwrap();
    assert_eq!(parts.hear().unwrap().0, DONE);
    assert_eq!(target.host.received(), 1);
}

#[test]
fn a_later_connection_takes_the_place_of_a_dead_one() {
    let source = Node::start(1, Host::new(EngineKind::Memory, None), options());
    let target = Node::start(2, Host::new(EngineKind::Memory, None), options());
    let mut dead = target.connect(&source);
    dead.say(BEGIN, &begin(7).encode()).unwrap();
    assert_eq!(dead.hear().unwrap().0, GO_ON);
    let mut alive = target.connect(&source);
    alive.say(BEGIN, &begin(7).encode()).unwrap();
    alive.stream().set_read_timeout(options().silence_max / 3).unwrap();
    assert_eq!(alive.hear().unwrap().0, GO_ON, "without waiting until the old one is given up");
    assert!(dead.hear().is_err());
    assert_eq!(target.host.told.lock().unwrap().ingests, 1);
}

#[test]
fn what_makes_no_sense_is_not_taken_in() {
    let source = Node::start(1, Host::new(EngineKind::Lsm, None), options());
    let target = Node::start(2, Host::new(EngineKind::Lsm, None), options());
    let (mut falling, mut reserved, mut cut) = (Vec::new(), Vec::new(), Vec::new());
    put_row(&mut falling, b"rb", b"1");
    put_row(&mut falling, b"ra", b"1");
    put_row(&mut reserved, b"\0x", b"1");
    put_row(&mut cut, b"ra", b"1");
    let whole = cut.clone();
    cut.pop();
    let table: [(&[u8], u64, &str); 4] = [
        (&falling, 2, "out of order"),
        (&reserved, 1, "reserved"),
        (&cut, 1, "makes no sense"),
        (&whole, 2, "rows are missing"),
    ];
    for (id, (chunk, rows, why)) in (1..).zip(table) {
        let mut parts = target.connect(&source);
        parts.say(BEGIN, &begin(id).encode()).unwrap();
        parts.say(ROWS, chunk).unwrap();
        // It may have been refused already.
        let _ = parts.say(END, &end(rows, rows * 3));
        let refusal = loop {
            match parts.hear().unwrap() {
                (REFUSED, refusal) => break words(refusal),
                (kind, _) => assert_ne!(kind, DONE),
            }
        };
        assert!(refusal.contains(why), "{refusal}");
        until("nothing is left", || target.host.alive.load(Ordering::SeqCst) == 0);
    }
    // Not even parts, or none in its place: closed, or waited for until the sender calls again.
    for bytes in [&[0; 64][..], &[0xFF; 64]] {
        let mut parts = target.connect(&source);
        parts.stream().write_all(bytes).unwrap();
        assert!(parts.hear().is_err());
    }
    let mut parts = target.connect(&source);
    parts.say(ROWS, &whole).unwrap();
    assert!(parts.hear().is_err());
    // A part that is damaged on its way.
    let mut damaged = vec![0; 4];
    damaged.extend_from_slice(&(begin(8).encode().len() as u32).to_le_bytes());
    damaged.push(BEGIN);
    damaged.extend_from_slice(&begin(8).encode());
    let mut parts = target.connect(&source);
    parts.stream().write_all(&damaged).unwrap();
    assert!(parts.hear().is_err());
    let mut parts = target.connect(&source);
    parts.say(BEGIN, &begin(9).encode()).unwrap();
    assert_eq!(parts.hear().unwrap().0, GO_ON);
    parts.stream().write_all(&[0xFF; 64]).unwrap();
    let mut again = target.connect(&source);
    again.say(BEGIN, &begin(9).encode()).unwrap();
    assert_eq!(again.hear().unwrap().0, GO_ON);
    again.say(END, &end(0, 0)).unwrap();
    assert_eq!(again.hear().unwrap().0, DONE);
    let received = target.host.told.lock().unwrap().received.pop().unwrap();
    assert_eq!(received.index, 5);
}

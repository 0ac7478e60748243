//! Nodes that talk over real sockets, in one thread, driven by one poll loop.
#![allow(clippy::unwrap_used)]

use super::handshake::Handshake;
use super::*;
use crate::net::Stream;
use mio::{Events, Poll, Token};
use node::peer_protocol::PeerMessage;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use vocab::limits::{PEER_CONTROL_BYTES_MAX, PEER_QUEUE_BYTES_MAX};
use vocab::{NodeId, ShardId, StoreId};

/// Longest that a test waits for something, by the clock on the wall.
const PATIENCE: Duration = Duration::from_secs(20);

/// A frame without messages, with its checksum.
const EMPTY_FRAME: [u8; 9] = [0x1D, 0xF7, 0x22, 0xC6, 0, 0, 0, 0, 0];

pub(super) struct World {
    poll: Poll,
    nodes: Vec<Option<Links>>,
    heard: Vec<Vec<LinkEvent>>,
    /// Time that the nodes believe to have passed.
    skipped: Duration,
    ticked: Option<Instant>,
}

impl World {
    pub(super) fn new() -> Self {
        Self { poll: Poll::new().unwrap(), nodes: Vec::new(), heard: Vec::new(), skipped: Duration::ZERO, ticked: None }
    }

    /// Adds a node; answers its place here.
    pub(super) fn start(&mut self, identity: Identity) -> usize {
        self.start_at(identity, "127.0.0.1:0".parse().unwrap())
    }

    fn start_at(&mut self, identity: Identity, address: SocketAddr) -> usize {
        let top = Token(usize::MAX - 1 - self.nodes.len() * Links::TOKENS);
        let listener = Some(TcpListener::bind(address).unwrap());
        let options = LinksOptions {
            identity: identity.shared(),
            listener,
            packing: Packing::Auto,
            guard: Box::new(|_, _| Ok(())),
        };
        self.nodes.push(Some(Links::new(self.poll.registry().try_clone().unwrap(), top, options).unwrap()));
        self.heard.push(Vec::new());
        self.nodes.len() - 1
    }

    fn links(&mut self, node: usize) -> &mut Links {
        self.nodes[node].as_mut().unwrap()
    }

    fn address(&mut self, node: usize) -> String {
        self.links(node).address().unwrap().to_string()
    }

    fn now(&self) -> Instant {
        Instant::now() + self.skipped
    }

    pub(super) fn dial(&mut self, from: usize, to: usize) {
        let (address, now) = (self.address(to), self.now());
        self.links(from).dial(&address, now);
    }

    fn turn(&mut self) {
        let mut events = Events::with_capacity(64);
        let busy = self.nodes.iter().flatten().any(Links::is_unfinished);
        let wait = if busy { Duration::ZERO } else { Duration::from_millis(2) };
        self.poll.poll(&mut events, Some(wait)).unwrap();
        let now = self.now();
        let ticks = self.ticked.is_none_or(|ticked| now - ticked > Duration::from_millis(20));
        for (links, heard) in self.nodes.iter_mut().zip(&mut self.heard) {
            let Some(links) = links else { continue };
            let hear = &mut |event| heard.push(event);
            for event in &events {
                if links.owns(event.token()) {
                    links.notice(event.token(), event, now, hear);
                }
            }
            links.resume(now, hear);
            if ticks {
                links.tick(now, hear);
            }
            links.flush(now);
        }
        if ticks {
            self.ticked = Some(now);
        }
    }

    pub(super) fn until(&mut self, what: &str, reached: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !reached(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", self.heard);
            self.turn();
        }
    }

    /// Lets the nodes believe that time passes, in steps in which they are heard.
    fn skip(&mut self, time: Duration) {
        let step = Duration::from_millis(200);
        let mut skipped = Duration::ZERO;
        while skipped < time {
            self.skipped += step;
            skipped += step;
            for _ in 0..3 {
                self.turn();
            }
        }
    }

    pub(super) fn is_up(&self, from: usize, to: u64) -> bool {
        self.nodes[from].as_ref().unwrap().is_up(NodeId(to))
    }

    /// What a node has heard, the newest last.
    pub(super) fn heard(&self, node: usize) -> &[LinkEvent] {
        &self.heard[node]
    }

    /// How many calls in a row of the contact that came first have failed.
    pub(super) fn failures(&self, node: usize) -> u32 {
        self.nodes[node].as_ref().and_then(|links| links.dialer.failures()).unwrap_or_default()
    }

    /// Sends a message; false if it was dropped.
    pub(super) fn send(&mut self, from: usize, to: u64, message: &PeerMessage) -> bool {
        self.links(from).send(NodeId(to), message)
    }

    fn downs(&self, node: usize) -> usize {
        self.heard[node].iter().filter(|event| matches!(event, LinkEvent::Down(_))).count()
    }

    pub(super) fn messages(&self, node: usize) -> Vec<(NodeId, PeerMessage)> {
        let message = |event: &LinkEvent| match event {
            LinkEvent::Message(from, message) => Some((*from, message.clone())),
            _ => None,
        };
        self.heard[node].iter().filter_map(message).collect()
    }
}

fn identity(node: u64) -> Identity {
    Identity::new(NodeId(node), format!("hello of {node}").into_bytes(), b"secret".to_vec())
}

fn asked(epoch: u64) -> PeerMessage {
    PeerMessage::MapAsked { epoch }
}

/// A node that is nothing but a socket: it calls `to` in a thread of its own while the world turns.
fn stranger(world: &mut World, to: usize, identity: Identity, purpose: Purpose) -> Result<Stream, String> {
    let address = world.address(to);
    let caller = std::thread::spawn(move || call(&address, identity, purpose, None, PATIENCE));
    let begun = Instant::now();
    while !caller.is_finished() {
        assert!(begun.elapsed() < PATIENCE);
        world.turn();
    }
    caller.join().unwrap().map(|(stream, _)| stream)
}

#[test]
fn two_nodes_meet_and_talk() {
    let mut world = World::new();
    let (a, b) = (world.start(identity(1)), world.start(identity(2)));
    world.links(b).identity().set_store(StoreId(7));
    world.dial(a, b);
    world.until("they meet", |world| world.is_up(a, 2) && world.is_up(b, 1));
    let LinkEvent::Up { node, store, hello, .. } = &world.heard[a][0] else { panic!("{:?}", world.heard) };
    assert_eq!((*node, *store, &hello[..]), (NodeId(2), Some(StoreId(7)), &b"hello of 2"[..]));

    let large = PeerMessage::Call { id: 9, shard: ShardId(3), command: vec![5; 20_000_000] };
    for i in 0..1000 {
        assert!(world.links(a).send(NodeId(2), &asked(i)));
        assert!(world.links(b).send(NodeId(1), &asked(i)));
    }
    assert!(world.links(a).send(NodeId(2), &large));
    assert!(!world.links(a).send(NodeId(3), &large), "that node is unknown");
    world.until("all arrives", |world| world.messages(b).len() == 1001 && world.messages(a).len() == 1000);
    let expected: Vec<_> = (0..1000).map(|i| (NodeId(1), asked(i))).chain([(NodeId(1), large)]).collect();
    assert!(world.messages(b) == expected, "in order");
    let stats = world.links(a).stats();
    assert_eq!((stats[0].sent_messages, stats[0].received_messages, stats[0].called), (1001, 1000, true));
    assert!(stats[0].sent_bytes > 20_000_000);
}

#[test]
fn one_connection_stays_however_many_call() {
    let mut world = World::new();
    let nodes: Vec<usize> = [5, 1, 9].map(|node| world.start(identity(node))).to_vec();
    let addresses: Vec<String> = nodes.iter().map(|&node| world.address(node)).collect();
    let now = world.now();
    for &node in &nodes {
        for (&other, id) in nodes.iter().zip([5, 1, 9]) {
            world.links(node).dial(&addresses[other], now);
            world.links(node).know(NodeId(id), &addresses[other], now);
        }
    }
    let whole = |world: &World| {
        world.nodes.iter().flatten().all(|links| links.connected().count() == 2 && links.connections.len() == 2)
    };
    world.until("all are connected", whole);
    world.skip(Duration::from_secs(2));
    world.until("all are still connected", whole);
    for &node in &nodes {
        let me = world.links(node).identity().now().node;
        assert!(world.links(node).stats().iter().all(|link| link.called == (me < link.node)), "the lower has called");
        let others = nodes.iter().zip([5, 1, 9]).filter(|(other, _)| **other != node).map(|(_, id)| NodeId(id));
        for other in others.collect::<Vec<_>>() {
            assert!(world.links(node).send(other, &asked(1)));
        }
    }
    world.until("all hear of all", |world| nodes.iter().all(|&node| world.messages(node).len() == 2));
}

#[test]
fn who_must_not_talk_does_not_and_it_is_said_once() {
    let (mut store, mut secret) = (identity(2), identity(2));
    store.store = Some(StoreId(8));
    secret.secret = Vec::new();
    for (other, kind) in
        [(store, RefusalKind::Store), (secret, RefusalKind::Secret), (identity(1), RefusalKind::Duplicate)]
    {
        let mut world = World::new();
        let mut first = identity(1);
        first.store = Some(StoreId(7));
        let (a, b) = (world.start(first), world.start(other));
        world.dial(a, b);
        world.until("it has failed several times", |world| {
            let links = world.nodes[a].as_ref().unwrap();
            links.dialer.failures().unwrap() >= 3
        });
        for node in [a, b] {
            let complaints: Vec<_> = world.links(node).dialer.complaints().collect();
            assert_eq!(complaints, [complaints::Complaint::Refusal(kind)]);
            // Of another store the operator is told.
            let told = |event: &LinkEvent| kind == RefusalKind::Store && matches!(event, LinkEvent::Stranger { .. });
            assert!(world.heard[node].iter().all(told) && world.heard[node].is_empty() == (kind != RefusalKind::Store));
        }
    }
}

#[test]
fn a_node_does_not_talk_to_itself() {
    let mut world = World::new();
    let a = world.start(identity(1));
    world.dial(a, a);
    world.until("it knows", |world| world.nodes[a].as_ref().unwrap().dialer.failures().is_none());
    world.until("both ends are gone", |world| world.nodes[a].as_ref().unwrap().connections.len() == 0);
    assert!(world.heard[a].is_empty());
}

#[test]
fn a_second_process_of_a_node_waits_until_the_first_is_gone() {
    let mut world = World::new();
    let (a, first, second) = (world.start(identity(1)), world.start(identity(2)), world.start(identity(2)));
    world.dial(first, a);
    world.until("the first is in", |world| world.is_up(a, 2));
    world.dial(second, a);
    world.until("the second fails", |world| world.nodes[second].as_ref().unwrap().dialer.failures().unwrap() > 1);
    assert!(world.is_up(first, 1) && !world.is_up(second, 1));
    world.nodes[first] = None;
    world.until("the second is in", |world| world.is_up(second, 1) && world.is_up(a, 2));
    let kinds: String =
        world.heard[a].iter().map(|event| if matches!(event, LinkEvent::Down(_)) { 'd' } else { 'u' }).collect();
    assert_eq!(kinds, "udu");
}

#[test]
fn a_node_that_comes_back_is_found_again() {
    let mut world = World::new();
    let (a, b) = (world.start(identity(1)), world.start(identity(2)));
    let (address, now) = (world.address(b), world.now());
    world.links(a).know(NodeId(2), &address, now);
    world.until("they meet", |world| world.is_up(a, 2) && world.is_up(b, 1));
    world.nodes[b] = None;
    world.until("it is missed", |world| !world.is_up(a, 2));
    assert!(!world.links(a).send(NodeId(2), &asked(1)));
    world.until("it is called", |world| world.nodes[a].as_ref().unwrap().dialer.failures().unwrap() > 2);
    let b = world.start_at(identity(2), address.parse().unwrap());
    world.until("they meet again", |world| world.is_up(a, 2) && world.is_up(b, 1));
    let now = world.now();
    let (links, heard) = (world.nodes[a].as_mut().unwrap(), &mut world.heard[a]);
    links.forget(NodeId(2), now, &mut |event| heard.push(event));
    assert_eq!((world.downs(a), world.links(a).deadline()), (2, None));
    world.until("the other one notices", |world| !world.is_up(b, 1));
}

#[test]
fn silence_is_noticed_and_the_idle_are_not_silent() {
    let mut world = World::new();
    let (a, b) = (world.start(identity(1)), world.start(identity(2)));
    world.dial(a, b);
    let mut silent = stranger(&mut world, a, identity(3), Purpose::Link).unwrap();
    world.until("all are there", |world| world.is_up(a, 2) && world.is_up(a, 3));
    world.skip(Duration::from_secs(2));
    assert!(world.is_up(a, 3));
    world.skip(Duration::from_secs(2));
    assert!(!world.is_up(a, 3) && world.is_up(a, 2) && world.is_up(b, 1));
    assert_eq!((world.downs(a), world.downs(b)), (1, 0));
    silent.set_read_timeout(PATIENCE).unwrap();
    assert!(silent.read_to_end(&mut Vec::new()).is_ok(), "it is told by the end of the stream");
    // One that says something and hangs up is missed at once.
    let mut brief = stranger(&mut world, a, identity(4), Purpose::Link).unwrap();
    world.until("it is there", |world| world.is_up(a, 4));
    brief.write_all(&EMPTY_FRAME).unwrap();
    drop(brief);
    for _ in 0..20 {
        world.turn();
    }
    assert!(!world.is_up(a, 4));
    // A process that slept itself does not blame the others.
    world.skipped += Duration::from_secs(30);
    world.turn();
    world.turn();
    assert!(world.is_up(a, 2) && world.is_up(b, 1));
}

#[test]
fn garbage_does_no_harm() {
    let mut world = World::new();
    let (a, b) = (world.start(identity(1)), world.start(identity(2)));
    world.dial(a, b);
    world.until("they meet", |world| world.is_up(a, 2) && world.is_up(b, 1));
    let address = world.address(a);
    let mut greeting = Vec::new();
    Handshake::dial(identity(3), Purpose::Link, None, [0; 32], &mut greeting);
    let cut = greeting.len() / 2;
    let mut damaged = greeting.clone();
    damaged[5] ^= 1;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 100_000], &damaged, &greeting.repeat(2), &[0xB4, 255, 255]] {
        let mut caller = TcpStream::connect(&address).unwrap();
        caller.write_all(bytes).unwrap();
        caller.set_nonblocking(true).unwrap();
        let begun = Instant::now();
        let closed = loop {
            world.turn();
            match caller.read(&mut [0; 4096]) {
                Ok(0) => break true,
                Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => break true,
                _ if begun.elapsed() > PATIENCE => break false,
                _ => {}
            }
        };
        assert!(closed, "{:?}", &bytes[..8.min(bytes.len())]);
    }
    // One that begins well and then says nothing does not stay.
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.write_all(&greeting[..cut]).unwrap();
    world.until("it is there", |world| world.nodes[a].as_ref().unwrap().connections.len() == 2);
    world.skip(Duration::from_millis(3500));
    assert_eq!(world.links(a).connections.len(), 1);
    // One that knows the secret and then talks nonsense.
    for nonsense in [&[0xFF; 64][..], &[0, 0, 0, 0, 1, 0, 0, 0, 0, 7]] {
        let mut caller = stranger(&mut world, a, identity(3), Purpose::Link).unwrap();
        world.until("it is in", |world| world.is_up(a, 3));
        caller.write_all(nonsense).unwrap();
        world.until("it is out", |world| !world.is_up(a, 3));
    }
    assert!(world.links(a).send(NodeId(2), &asked(1)));
    world.until("the others talk on", |world| world.messages(b).len() == 1);
    assert_eq!(world.downs(b), 0);
}

#[test]
fn one_that_never_reads_costs_a_bounded_amount() {
    let mut world = World::new();
    let a = world.start(identity(1));
    let _deaf = stranger(&mut world, a, identity(3), Purpose::Link).unwrap();
    world.until("it is in", |world| world.is_up(a, 3));
    let write = PeerMessage::Call { id: 0, shard: ShardId(1), command: vec![0; 1 << 20] };
    let mut sent = 0;
    while world.links(a).send(NodeId(3), &write) {
        sent += 1;
        assert!(sent < 1000, "the other side reads");
        world.turn();
    }
    let waiting = world.links(a).stats()[0].waiting_bytes;
    assert!(waiting <= PEER_QUEUE_BYTES_MAX && waiting > PEER_QUEUE_BYTES_MAX / 2);
    while world.links(a).send(NodeId(3), &PeerMessage::Map(vec![0; 1 << 20])) {
        world.turn();
    }
    let stats = world.links(a).stats();
    assert!(stats[0].waiting_bytes <= PEER_QUEUE_BYTES_MAX + PEER_CONTROL_BYTES_MAX);
    assert!(stats[0].dropped_messages >= 2);
}

#[test]
fn a_snapshot_connection_is_handed_over() {
    let mut world = World::new();
    let (a, b) = (world.start(identity(1)), world.start(identity(2)));
    world.dial(a, b);
    world.until("they meet", |world| world.is_up(b, 1));
    let mut sender = stranger(&mut world, b, identity(1), Purpose::Snapshot).unwrap();
    world.until("it is handed over", |world| matches!(world.heard[b].last(), Some(LinkEvent::Snapshot { .. })));
    let Some(LinkEvent::Snapshot { node, mut stream }) = world.heard[b].pop() else { panic!() };
    sender.write_all(b"rows").unwrap();
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!((node, &bytes), (NodeId(1), b"rows"));
    assert!(world.is_up(a, 2) && world.is_up(b, 1), "beside the link");
    let mut unknown = identity(1);
    unknown.secret = b"another".to_vec();
    let refused = stranger(&mut world, b, unknown, Purpose::Snapshot).unwrap_err();
    assert!(refused.contains("does not know the secret"), "{refused}");
}

//! What can happen in a simulated world.

use crate::bulk::{BulkAnswer, BulkRequest};
use crate::client_read::RunningRead;
use crate::collections::{CollectionRequest, Told};
use crate::effects::Prefetch;
use crate::fork::Fork;
use crate::history::Answer;
use crate::messages::{MessageRequest, Party, WireNews};
use crate::places::Place;
use crate::request::Request;
use cluster::{Change, Map};
use node::peer_protocol::{Order, PeerMessage};
use node::{AppliedAside, ApplyTask, SnapshotTask};
use replica::LogEntries;
use std::fmt;
use vocab::{NodeId, ShardId};

/// An event of the simulated world.
pub enum Event {
    /// Something comes to a node; void if its `life` is another by then, if one is named.
    At(Place, Option<u64>, NodeEvent),
    /// A client sends its next request.
    Think(usize),
    /// A client is answered; where it should have asked, if the node knows that.
    Reply(usize, usize, Answer, Option<NodeId>),
    /// A client has waited long enough for an operation.
    Impatient(usize, usize),
    /// A client sends the request of an operation again.
    Again(usize, usize),
    /// A hostile client sends its next request.
    BulkThink(usize),
    /// A hostile client is answered; by its number of the request.
    BulkReply(usize, u64, BulkAnswer, Option<NodeId>),
    /// A hostile client has waited long enough.
    BulkImpatient(usize, u64),
    /// A client of collections sends its next request.
    CollectionThink(usize),
    /// A client of collections is answered; by the tag of the request.
    CollectionReply(usize, u64, Told, Option<NodeId>),
    /// A client of collections has waited long enough.
    CollectionImpatient(usize, u64),
    /// A listener does its next thing.
    Listen(usize),
    /// A publisher sends its next messages.
    Publish(usize),
    /// A listener is told that another node leads the slot of its channel.
    NotHere(Party, Option<NodeId>),
    /// One of two nodes calls the other, for a link that keeps order.
    Dial(Place, Place),
    /// Something goes wrong.
    Fault,
    /// A node that is down is started.
    Start(Place),
    /// A node that stands still goes on.
    Resume(Place),
    /// A node's disk is as it should be again.
    Mend(Place),
    /// A node's wall clock is set right.
    SetClock(Place),
    /// Links are not cut any more.
    Join,
    /// The operator looks at what is to be done.
    Operate,
}

/// What can come to a node.
pub enum NodeEvent {
    /// 50 ms by its clock have passed.
    Tick,
    /// A message.
    Message(NodeId, Vec<u8>),
    /// The link to a node is there.
    LinkUp(NodeId),
    /// The link to a node has broken.
    LinkDown(NodeId),
    /// Something comes over the link that keeps order, to a node, of that number.
    Wire(NodeId, u64, WireNews),
    /// A publisher or a listener asks.
    Messages(Box<MessageRequest>),
    /// The log write under way is done.
    Written,
    /// Trees are to be flushed.
    Flush,
    /// It is killed, and started again.
    Restart,
    /// The rows of a snapshot are here.
    Rows(Box<SnapshotTask>),
    /// A snapshot was sent as a whole, or not.
    RowsSent(ShardId, vocab::ReplicaId, bool),
    /// A client asks: operation and request; since when it is held, if it is.
    Request(usize, Request, Option<u64>),
    /// A hostile client asks.
    Bulk(Box<BulkRequest>),
    /// A client of collections asks.
    Collection(Box<CollectionRequest>),
    /// The handler of a read is to run.
    RunRead(Box<RunningRead>),
    /// The handler of a read has run, with that answer or failure.
    ReadMade(Box<RunningRead>, Result<Vec<u8>, String>),
    /// The disk has answered for rows that a shard's entries wait for.
    Prefetch(Box<Prefetch>),
    /// A large entry is to be evaluated beside the event loop.
    ApplyAside(Box<ApplyTask>),
    /// It was.
    AppliedAside(Box<AppliedAside>),
    /// Entries for followers were read from the log.
    LogRead(Box<LogEntries>),
    /// The next part of a split is due.
    Fork(Box<Fork>),
    /// The operator orders something.
    Order(ShardId, Order),
}

impl NodeEvent {
    /// A message, as its bytes.
    pub fn message(from: NodeId, message: &PeerMessage) -> Self {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        Self::Message(from, bytes)
    }
}

/// A message about the store as a whole, without what would fill pages.
fn brief(message: &PeerMessage) -> String {
    match message {
        PeerMessage::Map(bytes) | PeerMessage::Bootstrap { map: bytes } => match Map::decode(bytes) {
            Ok(map) => format!("map {}", map.epoch),
            Err(e) => format!("{e}"),
        },
        PeerMessage::MapChanges { first, changes, .. } => {
            format!("changes from map {first} on, {} of them", changes.len())
        }
        PeerMessage::Propose { change } => match Change::decode(change) {
            Ok(Change::Begin(map)) => format!("proposes to begin with map {}", map.epoch),
            Ok(change) => format!("proposes {change:?}"),
            Err(e) => format!("proposes what is none: {e}"),
        },
        PeerMessage::Report(_) => "reports".to_owned(),
        PeerMessage::Join { .. } => "wants to join".to_owned(),
        other => format!("{other:?}"),
    }
}

impl fmt::Display for NodeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick => f.write_str("tick"),
            Self::Message(from, bytes) => match PeerMessage::decode(bytes) {
                Ok(PeerMessage::Raft { shard, message }) => write!(
                    f,
                    "from {} shard {shard} {:?} {}→{} term {} index {} log term {} commit {} entries {}{}",
                    from.0,
                    message.get_msg_type(),
                    message.from,
                    message.to,
                    message.term,
                    message.index,
                    message.log_term,
                    message.commit,
                    message.entries.len(),
                    if message.reject { " reject" } else { "" },
                ),
                Ok(other) => write!(f, "from {} {}", from.0, brief(&other)),
                Err(e) => write!(f, "from {}: {e}", from.0),
            },
            Self::LinkUp(node) => write!(f, "link to {} up", node.0),
            Self::LinkDown(node) => write!(f, "link to {} down", node.0),
            Self::Wire(node, number, WireNews::Up) => write!(f, "ordered link {number} to {} up", node.0),
            Self::Wire(node, number, WireNews::Down) => write!(f, "ordered link {number} to {} down", node.0),
            Self::Wire(from, number, WireNews::Message(bytes)) => match PeerMessage::decode(bytes) {
                Ok(message) => write!(f, "from {} over ordered link {number}: {message:?}", from.0),
                Err(e) => write!(f, "from {} over ordered link {number}: {e}", from.0),
            },
            Self::Messages(request) => write!(f, "{request}"),
            Self::Written => f.write_str("log written"),
            Self::Flush => f.write_str("flush"),
            Self::Restart => f.write_str("restart"),
            Self::Rows(task) => write!(f, "rows of shard {} as of {}", task.shard, task.point.index),
            Self::RowsSent(shard, to, whole) => write!(f, "rows of shard {shard} sent to replica {to}: {whole}"),
            Self::Request(operation, request, since_us) => {
                let held = if since_us.is_some() { " was held" } else { "" };
                write!(
                    f,
                    "operation {operation}{held}: {:?} group {} {:?}",
                    request.form, request.group, request.actions
                )
            }
            Self::Bulk(request) => {
                write!(f, "hostile client {} request {}: {:?}", request.client, request.number, request.kind)
            }
            Self::Collection(request) => {
                write!(f, "client {} of collections tag {}: {}", request.client, request.tag, request.text())
            }
            Self::RunRead(running) => write!(f, "read runs for {}", running.read),
            Self::ReadMade(running, _) => write!(f, "read made for {}", running.read),
            Self::Prefetch(prefetch) => write!(f, "rows for shard {} are read", prefetch.shard()),
            Self::ApplyAside(task) => write!(f, "an entry of shard {} is evaluated aside", task.shard()),
            Self::AppliedAside(_) => f.write_str("an entry was evaluated aside"),
            Self::LogRead(read) => write!(f, "entries of shard {} are read from the log", read.shard()),
            Self::Fork(fork) => write!(f, "split of shard {}: {}", fork.child(), fork.word()),
            Self::Order(shard, order) => write!(f, "shard {shard}: {order:?}"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(place, _, event) => write!(f, "node {} {event}", place + 1),
            Self::Think(client) => write!(f, "client {client} thinks"),
            Self::Reply(client, operation, answer, _) => {
                write!(f, "client {client} operation {operation} is answered {answer:?}")
            }
            Self::Impatient(client, operation) => write!(f, "client {client} gives operation {operation} up"),
            Self::Again(client, operation) => write!(f, "client {client} sends operation {operation} again"),
            Self::BulkThink(client) => write!(f, "hostile client {client} thinks"),
            Self::BulkReply(client, request, answer, _) => {
                write!(f, "hostile client {client} request {request} is answered {answer:?}")
            }
            Self::BulkImpatient(client, request) => write!(f, "hostile client {client} gives request {request} up"),
            Self::CollectionThink(client) => write!(f, "client {client} of collections thinks"),
            Self::CollectionReply(client, tag, told, _) => {
                write!(f, "client {client} of collections tag {tag} is answered {told:?}")
            }
            Self::CollectionImpatient(client, tag) => write!(f, "client {client} of collections gives tag {tag} up"),
            Self::Listen(number) => write!(f, "listener {number} thinks"),
            Self::Publish(number) => write!(f, "publisher {number} thinks"),
            Self::NotHere(party, leader) => write!(f, "client {} is told of leader {leader:?}", party.0),
            Self::Dial(a, b) => write!(f, "nodes {} and {} call", a + 1, b + 1),
            Self::Fault => f.write_str("fault"),
            Self::Start(place) => write!(f, "node {} starts", place + 1),
            Self::Resume(place) => write!(f, "node {} goes on", place + 1),
            Self::SetClock(place) => write!(f, "the wall clock of node {} is set right", place + 1),
            Self::Mend(place) => write!(f, "disk of node {} is mended", place + 1),
            Self::Join => f.write_str("links are joined"),
            Self::Operate => f.write_str("operator"),
        }
    }
}

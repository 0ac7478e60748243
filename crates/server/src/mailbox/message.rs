//! The messages to a worker, and their contents.

use super::answer_room::AnswerShare;
use super::queue::Queue;
use crate::net::Stream;
use node::blocking::{BlockingCommand, End, PendingLook};
use node::control::director::StoreStatus;
use node::peer_protocol::{NodeReport, PeerMessage};
use node::pubsub::{Delivery, Evicted, Subscriber};
use node::read::ReplyStream;
use node::session::{Keyspace, WaitFor};
use node::tracking::Invalidation;
use node::{AppliedAside, ArrivedSnapshot, DeniedCall, KeyHashes, Shard, Ticket, WatchedVersion, Write};
use replica::{LogEntries, Result as LogResult};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use vocab::{NodeId, ReplicaId, ShardId};

/// The worker of a ticket whose answer is for a caller in this process.
pub(crate) const EMBEDDED: u32 = u32::MAX;

/// The mailbox of a thread with an event loop; a worker's, unless another message is named.
pub(crate) type Mailbox<T = WorkerMessage> = Queue<T, mio::Waker>;

/// A write on its way to the worker that owns its shard.
pub(crate) struct Submission {
    /// The shard.
    pub(crate) shard: ShardId,
    /// What to write.
    pub(crate) write: Write,
    /// Hashes of the write's keys.
    pub(crate) keys: KeyHashes,
    /// The request that waits for the answer.
    pub(crate) ticket: Ticket,
    /// What its client waits in if it finds nothing, if it may wait: a request of very many keys is taken apart where there is the time
    /// for it.
    pub(crate) waits_in: Option<Box<BlockingCommand>>,
}

/// A replica that has been opened, on its way to its worker.
pub(crate) struct Opened {
    pub(crate) shard: Shard,
    /// The replica has never been part of its group, so it has promised nothing.
    pub(crate) fresh: bool,
}

/// The outcome of a fork of a shard's tree.
pub(crate) struct Forked {
    /// The shard that waits for the fork.
    pub(crate) parent: ShardId,
    /// The shard that the fork makes.
    pub(crate) child: ShardId,
    /// The child; none if it is open already, or if this node has no replica of it any more.
    pub(crate) outcome: Result<Option<Opened>, String>,
    /// Whether the child is to be led by this node.
    pub(crate) leads: bool,
}

/// A node that was called for a client of the worker.
pub(crate) struct Called {
    /// The node.
    pub(crate) node: NodeId,
    /// The connection's place among those of the worker.
    pub(crate) place: usize,
    /// The generation of the client.
    pub(crate) generation: u32,
    /// The connection, which does not block; or why there is none.
    pub(crate) stream: Result<Stream, String>,
}

/// A part of a long reply: the next one in its order.
pub(crate) struct ReplyPart {
    pub(crate) ticket: Ticket,
    pub(crate) bytes: Vec<u8>,
    /// What makes the next part; none if the reply cannot be made to its end.
    pub(crate) rest: Option<ReplyStream>,
}

/// What a transaction has asked of the whole store.
pub(crate) struct StoreAnswers {
    pub(crate) ticket: Ticket,
    /// What its shard has answered.
    pub(crate) outcome: Vec<u8>,
    /// One for each of its commands for the shell.
    pub(crate) answers: Vec<Vec<u8>>,
}

/// What a WATCH has found.
pub(crate) struct WatchedKeys {
    pub(crate) ticket: Ticket,
    pub(crate) keys: Vec<Vec<u8>>,
    /// Of each key; or the text of the error reply.
    pub(crate) versions: Result<Vec<WatchedVersion>, String>,
}

/// What has become of a script that this node did not know.
pub(crate) struct LearnedScript {
    /// The connection whose next request runs it: its place among those of the worker.
    pub(crate) place: usize,
    /// The generation of the client.
    pub(crate) generation: u32,
    /// The text of the error reply; none: it is known.
    pub(crate) failed: Option<String>,
}

/// A client that waits for followers: WAIT or WAITAOF.
pub(crate) struct WaitingClient {
    pub(crate) ticket: Ticket,
    pub(crate) wait: WaitFor,
    /// When the client's time is over; none: it waits without a limit.
    pub(crate) until: Option<Instant>,
    /// Every replica that holds the awaited writes has them on its disk.
    pub(crate) synced: bool,
}

/// A shard that is to propose no write until a backup has its snapshot.
pub(crate) struct WriteBarrier {
    pub(crate) backup: u64,
    pub(crate) shard: ShardId,
    /// The backup's moment, in ms since the epoch.
    pub(crate) at_ms: u64,
    /// How long the barrier stands at most.
    pub(crate) lasts: Duration,
}

/// A snapshot that has arrived as a whole.
pub(crate) struct ShardSnapshot {
    pub(crate) shard: ShardId,
    pub(crate) arrived: ArrivedSnapshot,
}

/// What a worker is told of subscribers.
pub(crate) enum SubscriberNews {
    /// A message for subscribers of this worker, among others.
    Push(Box<Delivery>),
    /// Subscriptions to a channel of a slot have ended, because another node leads the slot.
    Evicted(Box<Evicted>),
    /// What they may have cached has changed: for the clients of this worker, among others.
    Invalidated(Arc<Invalidation>),
    /// The same, for clients of this worker that are told instead of others.
    Redirected(Box<Invalidation>),
    /// A command was run: for the monitors of this worker.
    Monitored(Arc<[u8]>),
    /// What scripts of a client of this worker have run, for the monitors of its node.
    ScriptCalls(Subscriber, Vec<Vec<u8>>),
    /// Other nodes are to be told what this node's clients have subscribed to: for the worker that has the links.
    Announce,
}

/// What a worker is told of clients in blocking commands.
pub(crate) enum BlockingMessage {
    /// The client of this ticket waits.
    Waits(Ticket),
    /// The wait of the client of this ticket is to end.
    EndWait(Ticket, End),
    /// A thread of the pool has looked at what is pending in a group.
    Looked(Box<PendingLook>),
    /// CLIENT UNBLOCK.
    Unblock {
        /// The connection's place among its worker's.
        place: usize,
        /// The client's number.
        client: u64,
        /// How its wait is to end.
        end: End,
        /// The wait, if the node where it is had not begun it when it was told: a later one of the same client goes on.
        tried: Option<Ticket>,
    },
}

impl WorkerMessage {
    /// Bytes of the answer that it brings.
    pub(crate) fn answer_bytes(&self) -> usize {
        match self {
            Self::Answer { reply, .. } => reply.len(),
            Self::Part(part) => part.bytes.len(),
            _ => 0,
        }
    }
}

/// What a worker is told.
pub(crate) enum WorkerMessage {
    /// A script of a connection was refused commands.
    DeniedInScript(Ticket, Vec<DeniedCall>),
    /// The thread for large requests gives a connection back.
    GivenBack,
    /// Whether the event loop turns: it lets this go.
    Probe(Arc<()>),
    /// A new connection to serve.
    Connection(Stream, Keyspace),
    /// A new connection that is to begin with TLS.
    Handshake(Stream, Keyspace),
    /// A node was called for a client.
    Called(Box<Called>),
    /// A write for a shard that this worker owns.
    Write(Submission),
    /// The answer to a request of one of this worker's connections.
    Answer {
        /// The request.
        ticket: Ticket,
        /// The encoded reply.
        reply: Vec<u8>,
    },
    /// The answer before this was taken: there is room for others.
    Taken(AnswerShare),
    /// A part of the answer to such a request.
    Part(Box<ReplyPart>),
    /// What a transaction has asked of the whole store.
    StoreAnswers(Box<StoreAnswers>),
    /// The versions of keys that a connection watches from now on.
    Watched(Box<WatchedKeys>),
    /// A script is known now, or cannot be had.
    LearnedScript(Box<LearnedScript>),
    /// The rows that this write will find are in memory.
    WritePrefetched(Ticket),
    /// The rows that the next entries of this shard will find are in memory.
    EntriesPrefetched(ShardId),
    /// The oldest log write that a log thread has is done.
    Logged(LogResult<()>),
    /// A shard's memory was written to files: its log can be cut.
    Flushed(ShardId),
    /// A shard keeps old log files alive: its memory is to be written to files.
    Seal(ShardId),
    /// A read of this shard waits until the leader's lease is confirmed.
    AskLease(ShardId),
    /// A message of another node about shards of this worker.
    Peer(NodeId, PeerMessage),
    /// A message for another node, for the worker that has the links.
    Post(NodeId, PeerMessage),
    /// A thread has evaluated a large entry.
    AppliedAside(Box<AppliedAside>),
    /// Entries were read from the log for followers.
    LogRead(Box<LogEntries>),
    /// A fork has ended.
    Forked(Box<Forked>),
    /// A replica whose tree was forked.
    AdoptChild {
        /// The replica.
        opened: Box<Opened>,
        /// Whether it is to be led by this node.
        leads: bool,
    },
    /// A replica for this worker.
    Adopt(Box<Opened>),
    /// A replica of this worker is to be closed; the sender is told when none of its work is under way any more.
    Release(ShardId, SyncSender<()>),
    /// What this node reports to the director.
    Report(Box<NodeReport>),
    /// There is a newer map.
    Map(Arc<cluster::Map>),
    /// The metadata group's replica on this node has applied a newer map.
    MapApplied(cluster::MapUpdate),
    /// The link to a node has broken.
    LinkDown(NodeId),
    /// A request of so many bytes is coming in from another node.
    Bulk(usize),
    /// Some shard has another leader: requests that wait for one are looked at again.
    Led,
    /// About subscribers.
    Subscribers(SubscriberNews),
    /// A snapshot has arrived as a whole.
    SnapshotArrived(Box<ShardSnapshot>),
    /// A snapshot was sent, or could not be.
    SnapshotSent {
        /// The shard.
        shard: ShardId,
        /// The replica that it was for.
        replica: ReplicaId,
        /// Whether the replica has taken it as a whole.
        whole: bool,
    },
    /// About a client in a blocking command.
    Blocking(BlockingMessage),
    /// A client waits for followers.
    Wait(Box<WaitingClient>),
    /// A shard proposes no write until its backup's snapshot is taken.
    BeginBarrier(WriteBarrier),
    /// A backup's write barrier of a shard is over.
    EndBarrier { backup: u64, shard: ShardId },
    /// Hand over the director's status of the store, if the director is on this node.
    StoreStatus(SyncSender<Option<Box<StoreStatus>>>),
    /// The users have changed: connections go by it, and the sender is told when they do.
    UsersChanged(Option<SyncSender<()>>),
    /// Databases have the slots of others: the sender is told when the waits that go on elsewhere have been told to end.
    DatabasesExchanged(SyncSender<()>),
    /// Look at every connection again: one was killed, or a pause is over.
    Look,
    /// The send thread gives bytes back.
    Unsent,
    /// End.
    Stop,
}

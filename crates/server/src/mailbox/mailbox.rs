//! How threads speak to an event loop: a bounded-by-its-senders queue and one wake-up for many messages.

use crate::opening::Opened;
use crate::splitting::Forked;
use crate::waits::Waiting;
use node::director::NodeReport;
use node::peer::PeerMessage;
use node::{ArrivedSnapshot, Ticket, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use vocab::{NodeId, ReplicaId, ShardId};

/// What a worker is told.
pub(crate) enum Message {
    /// A new connection to serve.
    Connection(std::net::TcpStream),
    /// A write for a shard that this worker owns.
    Write {
        /// The shard.
        shard: u32,
        /// What to write.
        write: Write,
        /// Hashes of its keys.
        keys: Vec<u64>,
        /// Who waits.
        ticket: Ticket,
    },
    /// The answer to a request of one of this worker's connections.
    Answer {
        /// Who waits.
        ticket: Ticket,
        /// The encoded reply.
        reply: Vec<u8>,
    },
    /// What a write will find is in memory.
    Warm(Ticket),
    /// What the next entries of that shard will find is in memory.
    RowsWarm(ShardId),
    /// The log write under way is done.
    Logged(replica::Result<()>),
    /// A shard's memory was written to files: its log can be cut.
    Flushed(u32),
    /// A shard holds old log files: write its memory to files.
    Seal(u32),
    /// A read of that shard waits for its leader to be confirmed.
    AskLease(u32),
    /// A message of another node about shards of this worker.
    Peer(NodeId, PeerMessage),
    /// A message for another node, for the worker with the links.
    Post(NodeId, PeerMessage),
    /// The fork that a shard waits for is made, or cannot be.
    Forked(Box<Forked>),
    /// A replica whose tree was forked, and whether it is to be led here.
    AdoptChild(Box<Opened>, bool),
    /// A replica for this worker.
    Adopt(Box<Opened>),
    /// A replica of this worker is to be closed: told back once nothing of it is under way any more.
    Release(ShardId, SyncSender<()>),
    /// What this node tells the director.
    Report(Box<NodeReport>),
    /// There is a newer map.
    Map(Arc<cluster::Map>),
    /// The metadata group's replica on this node has applied a newer map.
    MapApplied(Arc<cluster::Map>),
    /// The link to a node has broken.
    LinkDown(NodeId),
    /// Some shard has another leader: whoever waits for one may look again.
    Led,
    /// A snapshot has arrived as a whole.
    SnapshotArrived(ShardId, Box<ArrivedSnapshot>),
    /// A snapshot was sent, or could not be.
    SnapshotSent(ShardId, ReplicaId, bool),
    /// A client waits for followers.
    Wait(Box<Waiting>),
    /// Hold a shard's writes back, for a backup.
    Hold(crate::backup::Asked),
    /// Let a shard's writes go on.
    EndHold(ShardId),
    /// Hand over what the director sees, if it is here.
    Picture(std::sync::mpsc::SyncSender<Option<Box<node::director::StorePicture>>>),
    /// Look at a connection again (it was killed, or what held it is over).
    Look,
    /// The send thread gives something back.
    Unsent,
    /// End.
    Stop,
}

/// The mailbox of a worker, or of another thread with an event loop.
pub(crate) struct Inbox<T = Message> {
    messages: Mutex<Vec<T>>,
    waker: mio::Waker,
    armed: AtomicBool,
}

impl<T> Inbox<T> {
    pub(crate) fn new(waker: mio::Waker) -> Arc<Self> {
        Arc::new(Self { messages: Mutex::new(Vec::new()), waker, armed: AtomicBool::new(false) })
    }

    /// Puts a message in and wakes the thread, unless it has been woken already.
    pub(crate) fn send(&self, message: T) {
        self.lock().push(message);
        self.wake();
    }

    /// The same for several at once.
    pub(crate) fn send_all(&self, messages: impl Iterator<Item = T>) {
        let mut queue = self.lock();
        let before = queue.len();
        queue.extend(messages);
        let grown = queue.len() > before;
        drop(queue);
        if grown {
            self.wake();
        }
    }

    fn wake(&self) {
        if !self.armed.swap(true, Ordering::AcqRel)
            && let Err(e) = self.waker.wake()
        {
            log::error!("a thread cannot be woken: {e}");
        }
    }

    /// Takes all messages; `into` must be empty.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        debug_assert!(into.is_empty());
        self.armed.store(false, Ordering::Release);
        std::mem::swap(&mut *self.lock(), into);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<T>> {
        self.messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

//! One replica with its log and its tree, and what a server would do around it.

use crate::group::history::History;
use replica::{Entry, Error, LogStore, LogWrite, MemoryLog, Message, Replica, SnapshotPoint, is_member_change};
use std::collections::VecDeque;
use std::sync::Arc;
use vocab::{ReplicaId, ShardId};

pub const SHARD: ShardId = ShardId(1);
/// Little: so that who was away gets what it lacks in many parts.
pub const LOG_READ_BYTES: u64 = 100;

/// What a tree would hold: where it is, and a hash over all that brought it there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub index: u64,
    pub term: u64,
    pub hash: u64,
}

impl Tree {
    pub fn apply(&mut self, entry: &Entry) {
        assert_eq!(entry.index, self.index + 1, "an entry was passed over");
        let mut hash = self.hash ^ entry.term;
        for byte in entry.data.iter() {
            hash = hash.wrapping_mul(0x0100_0000_01B3) ^ u64::from(*byte);
        }
        *self = Self { index: entry.index, term: entry.term, hash: hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) };
    }
}

/// A message on its way, with the rows if it is a snapshot.
pub struct Parcel {
    pub message: Message,
    pub rows: Option<Tree>,
}

/// One replica with its log and its tree.
pub struct Node {
    pub id: ReplicaId,
    pub log: Arc<MemoryLog>,
    pub replica: Option<Replica>,
    /// It said that it cannot go on.
    pub diverged: bool,
    pub tree: Tree,
    flushed: Tree,
    installed: Option<SnapshotPoint>,
    arrived: Option<Tree>,
    /// Writes under way: what to write, and which turn that is.
    writes: VecDeque<(LogWrite, u64)>,
    /// Whether every write is synced, or only those that ask.
    sync: bool,
    /// What it has to say.
    pub out: Vec<Parcel>,
}

impl Node {
    pub fn new(id: ReplicaId, voters: &[ReplicaId], sync: bool) -> Self {
        let log = Arc::new(MemoryLog::default());
        Replica::bootstrap(&*log, SHARD, id, voters, &[]).unwrap();
        Self {
            id,
            log,
            replica: None,
            diverged: false,
            tree: Tree::default(),
            flushed: Tree::default(),
            installed: None,
            arrived: None,
            writes: VecDeque::new(),
            sync,
            out: Vec::new(),
        }
    }

    pub fn start(&mut self, seed: u64) {
        let state = self.log.state(SHARD).unwrap().expect("it was made known");
        let (log, installed) = (self.log.clone(), self.installed.as_ref());
        let replica = Replica::open(log, SHARD, state, self.flushed.index, installed, seed);
        self.tree = self.flushed;
        self.replica = Some(replica.unwrap_or_else(|e| panic!("replica {}: {e}", self.id)));
    }

    /// The machine goes down; of the log's unsynced writes only the first `kept` are still there.
    pub fn crash(&mut self, kept: usize) {
        self.replica = None;
        self.writes.clear();
        self.out.clear();
        self.arrived = None;
        self.log.crash_keeping(kept);
    }

    pub fn replica(&mut self) -> &mut Replica {
        self.replica.as_mut().expect("it is up")
    }

    pub fn leads(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.serves())
    }

    pub fn receive(&mut self, parcel: Parcel, history: &mut History) {
        match self.offer(parcel, history) {
            Ok(()) => {}
            Err(Error::Diverged(_)) if !self.sync => self.fall_out(),
            Err(e) => panic!("replica {}: {e}", self.id),
        }
    }

    pub fn offer(&mut self, parcel: Parcel, history: &mut History) -> replica::Result<()> {
        let Some(replica) = &mut self.replica else { return Ok(()) };
        if parcel.rows.is_some() {
            if replica.is_installing() {
                return Ok(());
            }
            self.arrived = parcel.rows;
        }
        let taken = replica.step(parcel.message);
        self.pump(history);
        taken
    }

    fn fall_out(&mut self) {
        self.crash(0);
        self.diverged = true;
    }

    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// The oldest write under way reaches the log.
    pub fn finish_write(&mut self, history: &mut History) {
        let Some((write, number)) = self.writes.pop_front() else { return };
        let sync = self.sync || write.wants_sync();
        self.log.write(write, sync).unwrap();
        let messages = self.replica().persisted(number);
        self.post(messages, history);
        self.pump(history);
    }

    /// Everything applied goes to the tree's files, and the log is cut.
    pub fn flush(&mut self) {
        self.log.sync().unwrap();
        self.flushed = self.tree;
        let mut write = LogWrite::default();
        let flushed = self.flushed.index;
        // A tree's worth of log, if the tree was sent.
        let rows_bytes = if self.replica().has_sent_rows() { 1 << 20 } else { 0 };
        if self.replica().truncate(flushed, rows_bytes, &mut write).unwrap() {
            self.writes.push_back((write, 0));
        }
    }

    /// Whether the newest write under way must be synced whatever the durability is.
    pub fn wants_sync(&self) -> bool {
        self.writes.back().is_some_and(|(write, _)| write.wants_sync())
    }

    /// Does what there is to do, but for writing the log.
    pub fn pump(&mut self, history: &mut History) {
        let mut write = LogWrite::default();
        let mut number = 0;
        if let Some(read) = self.replica().begin_log_read(LOG_READ_BYTES) {
            self.replica().log_was_read(read.run());
        }
        while let Some(turn) = self.replica().ready(&mut write).unwrap() {
            number = number.max(turn.number);
            if let Some(point) = turn.snapshot {
                let rows = self.arrived.take().expect("a snapshot is accepted when its rows are here");
                assert_eq!((rows.index, rows.term), (point.index, point.term));
                (self.tree, self.flushed) = (rows, rows);
                self.installed = Some(point.clone());
                // A crash right here leaves a tree that is ahead of its log.
                if history.crashes_when_installing() {
                    return self.crash(0);
                }
                assert_eq!(self.replica().installed(&point, &mut write).unwrap(), turn.number);
            }
            self.post(turn.messages, history);
            for entry in &turn.committed {
                self.tree.apply(entry);
                history.applied(self.id, &self.tree);
                if is_member_change(entry) {
                    self.replica().members_changed(entry, &mut write).unwrap();
                }
            }
            if let Some(last) = turn.committed.last() {
                self.replica().applied(last);
            }
            // A leader answers from what it has applied, as soon as it is confirmed.
            for context in turn.read_states {
                history.read(context, self.tree.index);
            }
            let replica = self.replica();
            if turn.role_changed && replica.is_leader() {
                history.leads(replica.me(), replica.term());
            }
            replica.validate();
        }
        self.arrived = None;
        if !write.is_empty() {
            self.writes.push_back((write, number));
        }
        self.replica().validate();
    }

    fn post(&mut self, messages: Vec<Message>, history: &mut History) {
        let point = self.replica().snapshot_point();
        for mut message in messages {
            history.said(self.id, &message);
            let mut rows = None;
            if message.has_snapshot() {
                self.replica().sends_rows(ReplicaId(message.to), point.index);
                point.put_into(&mut message);
                rows = Some(self.tree);
                assert_eq!((self.tree.index, self.tree.term), (point.index, point.term));
            }
            // As over the wire.
            let mut bytes = Vec::new();
            replica::wire::encode(&message, &mut bytes);
            let message = replica::wire::decode(&bytes).unwrap();
            self.out.push(Parcel { message, rows });
        }
    }
}

//! What a replica asks of its caller (raft's *Ready*), and what it tells of itself.

use crate::members::Members;
use raft::eraftpb::{ConfState, Entry, EntryType, Message, SnapshotMetadata};
use vocab::ReplicaId;

/// What a replica asks of its caller.
#[derive(Debug, Default)]
pub struct Ready {
    /// To be given back to `persisted` once the log write that this was added to is done. 0: nothing was added.
    pub number: u64,
    /// Entries to apply now, in order. Those without data are the group's own.
    pub committed: Vec<Entry>,
    /// Messages for other replicas, to be sent now.
    pub messages: Vec<Message>,
    /// Answers to `read_index`: its context. A read may be made from what is applied: no replica shows more.
    pub read_states: Vec<u64>,
    /// The role of this replica or its leader is not what it was.
    pub role_changed: bool,
    /// A snapshot was accepted: its rows are to be installed, then `installed` called, and `number` handed back when
    /// that is written. Until `installed` there is nothing more to do.
    pub snapshot: Option<SnapshotPoint>,
}

/// The state of a shard as of an entry, without its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SnapshotPoint {
    /// The last entry applied.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// The members as of then.
    pub conf_state: ConfState,
}

impl SnapshotPoint {
    /// What a message says that carries a snapshot.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        message.get_snapshot().get_metadata().into()
    }

    /// Makes `message`, which carries a snapshot, carry this one.
    pub fn put_into(&self, message: &mut Message) {
        let metadata = message.mut_snapshot().mut_metadata();
        metadata.index = self.index;
        metadata.term = self.term;
        metadata.set_conf_state(self.conf_state.clone());
    }

    /// The members as of then.
    #[must_use]
    pub fn members(&self) -> Members {
        Members::from(&self.conf_state)
    }
}

impl From<&SnapshotMetadata> for SnapshotPoint {
    fn from(metadata: &SnapshotMetadata) -> Self {
        Self { index: metadata.index, term: metadata.term, conf_state: metadata.get_conf_state().clone() }
    }
}

/// Where a replica stands, for INFO and `inspect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The term.
    pub term: u64,
    /// Whether this replica leads.
    pub leads: bool,
    /// Who leads, as far as it knows.
    pub leader: Option<ReplicaId>,
    /// How many vote.
    pub voters: usize,
    /// How many learn.
    pub learners: usize,
    /// Last entry that the tree's files made unnecessary.
    pub truncated: u64,
    /// Last applied entry.
    pub applied: u64,
    /// Last committed entry.
    pub committed: u64,
    /// Last entry.
    pub last: u64,
    /// Its term; 0: there is none.
    pub last_term: u64,
}

/// How far another replica is, as its leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerState {
    /// Which.
    pub id: ReplicaId,
    /// Whether it does not vote.
    pub learner: bool,
    /// It holds entries up to here.
    pub matched: u64,
    /// It was heard of lately.
    pub active: bool,
    /// It is being sent a snapshot.
    pub snapshot: bool,
}

/// Whether an entry carries commands (rather than being the group's own).
#[must_use]
pub fn has_commands(entry: &Entry) -> bool {
    entry.get_entry_type() == EntryType::EntryNormal && !entry.data.is_empty()
}

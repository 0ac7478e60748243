//! What has happened in a whole group, and what must never be in it.

use crate::group::node::Tree;
use replica::{Message, MessageType};
use std::collections::BTreeMap;
use vocab::ReplicaId;

/// What the nodes of a group have committed and acknowledged, checked after every step.
#[derive(Default)]
pub struct History {
    /// Whether only what was synced counts: without, a crash may take back what a majority agreed on.
    strict: bool,
    leaders: BTreeMap<u64, ReplicaId>,
    votes: BTreeMap<(ReplicaId, u64), u64>,
    terms: BTreeMap<ReplicaId, u64>,
    states: BTreeMap<u64, Tree>,
    reads: BTreeMap<u64, u64>,
    /// How many reads were answered.
    pub reads_answered: u64,
    /// How many snapshots were sent.
    pub snapshots: u64,
    /// Crashes to come in the middle of an installation.
    pub crashes: u64,
    /// How many came.
    pub crashed_installing: u64,
}

impl History {
    pub fn new(strict: bool) -> Self {
        Self { strict, ..Self::default() }
    }

    /// The furthest that anyone has applied.
    pub fn last_applied(&self) -> u64 {
        self.states.last_key_value().map_or(0, |(index, _)| *index)
    }

    pub fn terms_led(&self) -> usize {
        self.leaders.len()
    }

    pub fn leads(&mut self, id: ReplicaId, term: u64) {
        let leader = *self.leaders.entry(term).or_insert(id);
        assert_eq!(leader, id, "two leaders in term {term}");
    }

    pub fn applied(&mut self, id: ReplicaId, tree: &Tree) {
        let state = *self.states.entry(tree.index).or_insert(*tree);
        assert!(!self.strict || state == *tree, "replica {id} applied {tree:?}, another one {state:?}");
    }

    pub fn asked(&mut self, context: u64) {
        self.reads.insert(context, self.last_applied());
    }

    pub fn read(&mut self, context: u64, index: u64) {
        let floor = self.reads[&context];
        self.reads_answered += 1;
        assert!(!self.strict || index >= floor, "a read as of {index}, when {floor} had been applied");
    }

    /// A message leaves: its term and its vote must never be taken back.
    pub fn said(&mut self, id: ReplicaId, message: &Message) {
        let (kind, term) = (message.get_msg_type(), message.term);
        self.snapshots += u64::from(kind == MessageType::MsgSnapshot);
        if matches!(kind, MessageType::MsgRequestPreVote | MessageType::MsgRequestPreVoteResponse) {
            return;
        }
        let said = self.terms.entry(id).or_default();
        assert!(term >= *said || kind == MessageType::MsgAppendResponse, "replica {id} is back in term {term}");
        *said = term.max(*said);
        let vote = match kind {
            MessageType::MsgRequestVote => id.0,
            MessageType::MsgRequestVoteResponse if !message.reject => message.to,
            _ => return,
        };
        let voted = *self.votes.entry((id, term)).or_insert(vote);
        assert_eq!(voted, vote, "replica {id} votes twice in term {term}");
    }

    /// What a replica knew when it was started must cover what it had said before.
    pub fn started(&self, id: ReplicaId, term: u64) {
        let said = self.terms.get(&id).copied().unwrap_or(0);
        assert!(term >= said, "replica {id} starts in term {term}, and had spoken in {said}");
    }

    pub fn crashes_when_installing(&mut self) -> bool {
        let now = self.crashes > 0;
        if now {
            self.crashes -= 1;
            self.crashed_installing += 1;
        }
        now
    }
}

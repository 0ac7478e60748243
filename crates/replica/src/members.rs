//! The members of a group, and the entries that change them.

use crate::error::{Error, Result};
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};
use vocab::{Reader, ReplicaId};

/// The members of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Who votes.
    pub voters: Vec<ReplicaId>,
    /// While the group is between two sets of voters: those of the set that it leaves. Empty otherwise.
    pub voters_outgoing: Vec<ReplicaId>,
    /// Who receives everything and does not vote.
    pub learners: Vec<ReplicaId>,
}

impl Members {
    /// Whether `id` is one of them, in whatever way.
    #[must_use]
    pub fn contains(&self, id: ReplicaId) -> bool {
        [&self.voters, &self.voters_outgoing, &self.learners].iter().any(|ids| ids.contains(&id))
    }
}

impl From<&ConfState> for Members {
    fn from(state: &ConfState) -> Self {
        let sorted = |ids: &[u64]| {
            let mut ids: Vec<_> = ids.iter().copied().map(ReplicaId).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        // A voter that is on its way out may be on its way to learner too: it counts as a voter until then.
        Self {
            voters: sorted(&state.voters),
            voters_outgoing: sorted(&state.voters_outgoing),
            learners: sorted(&state.learners),
        }
    }
}

/// What becomes of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// It votes.
    Voter,
    /// It receives everything and does not vote.
    Learner,
    /// It is no member.
    Remove,
}

/// One replica's part of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberChange {
    /// Which.
    pub id: ReplicaId,
    /// What becomes of it.
    pub kind: MemberKind,
}

/// The change in raft-rs's words. One part is made at once; several go through a state in which both sets of voters
/// must agree, which the leader ends by itself.
pub(crate) fn conf_change(changes: &[MemberChange]) -> ConfChangeV2 {
    let single = |change: &MemberChange| {
        let mut single = ConfChangeSingle { node_id: change.id.0, ..ConfChangeSingle::default() };
        single.set_change_type(match change.kind {
            MemberKind::Voter => ConfChangeType::AddNode,
            MemberKind::Learner => ConfChangeType::AddLearnerNode,
            MemberKind::Remove => ConfChangeType::RemoveNode,
        });
        single
    };
    let mut change = ConfChangeV2::default();
    change.set_changes(changes.iter().map(single).collect::<Vec<_>>().into());
    change
}

/// Reads a change out of an entry. It came over the network, so that no general parser sees it: of protobuf, this knows
/// what raft-rs writes, and no more.
pub(crate) fn decode_conf_change(data: &[u8]) -> Result<ConfChangeV2> {
    let malformed = || Error::Malformed("a change of members that cannot be read".to_owned());
    let mut change = ConfChangeV2::default();
    let mut changes = Vec::new();
    let mut rest = Reader::new(data);
    while let Ok(tag) = rest.u8() {
        match tag {
            TAG_CHANGES => {
                let mut one = Reader::new(rest.bytes().map_err(|_| malformed())?);
                let mut single = ConfChangeSingle::default();
                while let Ok(tag) = one.u8() {
                    match (tag, one.varint().map_err(|_| malformed())?) {
                        (TAG_TYPE, 0) => single.set_change_type(ConfChangeType::AddNode),
                        (TAG_TYPE, 1) => single.set_change_type(ConfChangeType::RemoveNode),
                        (TAG_TYPE, 2) => single.set_change_type(ConfChangeType::AddLearnerNode),
                        (TAG_ID, id) if id != 0 => single.node_id = id,
                        _ => return Err(malformed()),
                    }
                }
                if single.node_id == 0 || changes.len() == vocab::limits::MEMBERS_MAX {
                    return Err(malformed());
                }
                changes.push(single);
            }
            _ => return Err(malformed()),
        }
    }
    change.set_changes(changes.into());
    Ok(change)
}

/// Field 2 of a change, bytes.
const TAG_CHANGES: u8 = 0x12;
/// Field 1 of one part, a number.
const TAG_TYPE: u8 = 0x08;
/// Field 2 of one part, a number.
const TAG_ID: u8 = 0x10;

/// Whether raft-rs can be given these members: it ends the process over others.
pub(crate) fn is_sound(state: &ConfState) -> bool {
    let ids = [&state.voters, &state.voters_outgoing, &state.learners, &state.learners_next];
    let distinct = |ids: &Vec<u64>| {
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.len() == ids.len()
    };
    let joint = !state.voters_outgoing.is_empty();
    ids.iter().all(|ids| ids.len() <= vocab::limits::MEMBERS_MAX && distinct(ids) && !ids.contains(&0))
        && !state.voters.is_empty()
        && !state.learners.iter().any(|id| state.voters.contains(id) || state.voters_outgoing.contains(id))
        && state.learners_next.iter().all(|id| state.voters_outgoing.contains(id) && !state.voters.contains(id))
        && (joint || !state.auto_leave)
}

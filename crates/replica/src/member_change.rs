//! The entry by which a leader changes its group's members.

use crate::error::{Error, Result, raft_error};
use crate::members::{MemberChange, MemberKind, Members, conf_change};
use crate::raft_storage::RaftStorage;
use protobuf::Message as _;
use raft::eraftpb::{Entry, EntryType};
use raft::{Changer, Raft, RawNode};
use vocab::{ReplicaId, ShardId, limits};

/// Makes a replica the only member of its group, without asking the others.
pub(crate) fn leave_alone(raw: &mut RawNode<RaftStorage>, shard: ShardId) -> Result<()> {
    let me = ReplicaId(raw.raft.id);
    let mut members = Members::from(raw.store().conf_state());
    let mut make = |changes: &[MemberChange]| -> Result<Members> {
        let state = raw.apply_conf_change(&conf_change(changes)).map_err(|e| raft_error(shard, &e))?;
        let members = Members::from(&state);
        raw.mut_store().set_conf_state(state);
        Ok(members)
    };
    if !members.voters.contains(&me) {
        return Err(Error::Members("only one that votes can go on alone"));
    }
    if !members.voters_outgoing.is_empty() {
        members = make(&[])?;
    }
    for id in members.voters.into_iter().chain(members.learners).filter(|id| *id != me) {
        make(&[MemberChange { id, kind: MemberKind::Remove }])?;
    }
    Ok(())
}

/// The entry that makes `changes` to the members of the group that `raft` leads; `context` travels with it.
pub(crate) fn change_entry(raft: &Raft<RaftStorage>, changes: &[MemberChange], context: Vec<u8>) -> Result<Entry> {
    let me = ReplicaId(raft.id);
    let members = Members::from(raft.store().conf_state());
    let mut after: Vec<_> = [&members.voters[..], &members.learners].concat();
    after.extend(changes.iter().map(|change| change.id));
    after.sort_unstable();
    after.dedup();
    if raft.has_pending_conf() || !members.voters_outgoing.is_empty() {
        return Err(Error::Members("another change is under way"));
    }
    if changes.is_empty() || changes.iter().any(|change| change.id.0 == 0) {
        return Err(Error::Members("there is nothing to change"));
    }
    if after.len() > limits::MEMBERS_MAX {
        return Err(Error::Members("there are as many as can be"));
    }
    if changes.iter().any(|change| change.id == me && change.kind != MemberKind::Voter) {
        return Err(Error::Members("a leader must hand over before it leaves"));
    }
    let change = conf_change(changes);
    let mut changer = Changer::new(raft.prs());
    let tried = match change.enter_joint() {
        Some(auto_leave) => changer.enter_joint(auto_leave, &change.changes),
        None => changer.simple(&change.changes),
    };
    if tried.is_err() {
        return Err(Error::Members("the group would be left without voters"));
    }
    let data = change.write_to_bytes().map_err(|_| Error::Members("it cannot be written down"))?;
    let mut entry = Entry { data: data.into(), context: context.into(), ..Entry::default() };
    entry.set_entry_type(EntryType::EntryConfChangeV2);
    Ok(entry)
}

//! How a group's members are changed: proposed by the leader, applied by every replica when it is committed.

use crate::error::{Error, Result};
use crate::log_write::{LogWrite, is_member_change};
use crate::members::{MemberChange, MemberKind, Members, conf_change, decode_conf_change};
use crate::replica::{Replica, raft_error};
use protobuf::Message as _;
use raft::Changer;
use raft::eraftpb::{Entry, EntryType};
use vocab::limits;

impl Replica {
    /// Proposes to change the members: one part is made at once, several through a state in which both sets of voters
    /// must agree, which ends by itself. `context` travels with the entry. One change at a time.
    pub fn propose_members(&mut self, changes: &[MemberChange], context: Vec<u8>) -> Result<(u64, u64)> {
        if !self.is_leader() {
            return Err(Error::NotLeader);
        }
        let me = self.me();
        let members = self.members();
        let mut after: Vec<_> = [&members.voters[..], &members.learners].concat();
        after.extend(changes.iter().map(|change| change.id));
        after.sort_unstable();
        after.dedup();
        if self.raw.raft.has_pending_conf() || !members.voters_outgoing.is_empty() {
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
        let mut changer = Changer::new(self.raw.raft.prs());
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
        self.propose_entry(entry)
    }

    /// Applies a committed entry that changes the members (`is_member_change`), before `applied` is told of it.
    /// Answers the new members, if they are new.
    pub fn members_changed(&mut self, entry: &Entry, write: &mut LogWrite) -> Result<Option<Members>> {
        if !self.change_members(entry)? {
            return Ok(None);
        }
        let state = self.raw.store().conf_state().clone();
        self.members_noted = entry.index;
        let members = Members::from(&state);
        write.members(self.shard(), state, entry.index, true);
        // raft-rs goes on leading without a vote, and ends the process where it looks for its own progress. Those that stay
        // are told before: the last of them may not know that it needs nobody's vote, and wait for that of one who is gone.
        if self.is_leader() && !self.raw.raft.promotable() {
            let term = self.term();
            self.lets_tell(entry.index);
            self.ping();
            self.raw.raft.become_follower(term, raft::INVALID_ID);
        }
        Ok(Some(members))
    }

    fn change_members(&mut self, entry: &Entry) -> Result<bool> {
        if !is_member_change(entry) || entry.index <= self.members_noted {
            return Ok(false);
        }
        // A change that does not fit is passed over; all replicas find so.
        let Ok(change) = decode_conf_change(&entry.data) else { return Ok(false) };
        let Ok(state) = self.raw.apply_conf_change(&change) else { return Ok(false) };
        self.raw.mut_store().set_conf_state(state);
        Ok(true)
    }

    /// Makes this replica the only member, without asking anybody: for a group that has lost its majority for good, and
    /// whose operator goes on with what is left. What only others held is lost, and they must never come back.
    pub fn go_on_alone(&mut self, write: &mut LogWrite) -> Result<Members> {
        self.check()?;
        let me = self.me();
        let members = self.members();
        if !members.voters.contains(&me) {
            return Err(Error::Members("only one that votes can go on alone"));
        }
        if !members.voters_outgoing.is_empty() {
            self.make_change(&[])?;
        }
        let members = self.members();
        for id in members.voters.into_iter().chain(members.learners).filter(|id| *id != me) {
            self.make_change(&[MemberChange { id, kind: MemberKind::Remove }])?;
        }
        self.members_noted = self.members_noted.max(self.applied);
        write.members(self.shard(), self.raw.store().conf_state().clone(), self.members_noted, true);
        Ok(self.members())
    }

    fn make_change(&mut self, changes: &[MemberChange]) -> Result<()> {
        let shard = self.shard();
        let state = self.raw.apply_conf_change(&conf_change(changes)).map_err(|e| raft_error(shard, &e))?;
        self.raw.mut_store().set_conf_state(state);
        Ok(())
    }

    /// Whether the log holds a change of members that may not be applied yet.
    #[must_use]
    pub fn is_changing_members(&self) -> bool {
        self.raw.raft.has_pending_conf()
    }

    /// Finds out who the members are as of what the tree holds: the log may know it as of an earlier entry.
    pub(crate) fn catch_up_members(&mut self) -> Result<()> {
        const BATCH_BYTES: u64 = 4 << 20;
        let mut next = self.members_noted.max(self.raw.store().truncated().0) + 1;
        while next <= self.applied {
            let entries = self.raw.store().log().fetch(self.shard(), next, self.applied + 1, BATCH_BYTES)?;
            let Some(last) = entries.last() else {
                return Err(raft_error(self.shard(), &raft::Error::Store(raft::StorageError::Unavailable)));
            };
            next = last.index + 1;
            for entry in &entries {
                self.change_members(entry)?;
            }
        }
        self.members_noted = self.members_noted.max(self.applied);
        Ok(())
    }

    /// Has the log note that nothing before what is applied changes the members any more, once in a while; true if
    /// something was added to `write`.
    pub(crate) fn note_members(&mut self, flushed: u64, write: &mut LogWrite) -> bool {
        if self.members_noted >= flushed || self.is_installing() {
            return false;
        }
        self.members_noted = self.applied;
        write.members(self.shard(), self.raw.store().conf_state().clone(), self.applied, false);
        true
    }
}

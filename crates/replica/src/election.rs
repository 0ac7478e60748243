//! When a replica stands for election, and when it must not.
//!
//! raft-rs draws its timeouts from the thread's generator; here they are drawn from a seed, so that a simulation can
//! be run again, and raft-rs's own never strike.

use crate::error::Result;
use crate::replica::{Replica, raft_error};
use raft::eraftpb::{Message, MessageType};
use vocab::Prng;

/// Ticks without word of a leader after which a replica may vote for another: what leases rest on.
pub(crate) const ELECTION_TICKS: usize = 16;
/// Ticks over which replicas spread their patience, so that they do not stand all at once.
const SPREAD_TICKS: u64 = 10;
/// Ticks between a leader's signs of life.
pub(crate) const HEARTBEAT_TICKS: usize = 4;
/// So that raft-rs never stands by itself.
pub(crate) const NEVER_TICKS: usize = 1 << 40;

/// A replica's patience.
pub(crate) struct ElectionTimer {
    prng: Prng,
    ticks: usize,
    /// Ticks for which it neither votes nor stands: before the restart it may have promised a leader not to.
    mute: usize,
    /// The commit index as the leader last told it without entries.
    told: u64,
}

impl ElectionTimer {
    pub(crate) fn new(seed: u64, was_member: bool) -> Self {
        let mut timer =
            Self { prng: Prng::new(seed), ticks: 0, mute: if was_member { ELECTION_TICKS } else { 0 }, told: 0 };
        timer.draw();
        timer
    }

    fn draw(&mut self) {
        self.ticks = ELECTION_TICKS + self.prng.below(SPREAD_TICKS) as usize;
    }
}

impl Replica {
    /// Its group has only just been made out of another one: it has promised nobody anything, whatever its term is.
    pub fn begin_anew(&mut self) {
        self.timer.mute = 0;
    }

    /// Time passes: one tick of the group's clock. True if there may be something to do.
    pub fn tick(&mut self) -> bool {
        if self.has_failed() {
            return false;
        }
        self.timer.mute = self.timer.mute.saturating_sub(1);
        let ready = self.raw.tick() | self.tell_commit();
        let raft = &self.raw.raft;
        if self.is_leader() || raft.election_elapsed < self.timer.ticks || !raft.promotable() || !self.may_stand() {
            return ready;
        }
        self.timer.draw();
        self.raw.raft.election_elapsed = 0;
        // It fails only for a reason that `turn` reports.
        self.raw.campaign().is_ok() || ready
    }

    /// The leader was not heard of for so long that this replica may vote for another, though its clock stood still.
    pub fn end_promise(&mut self) {
        if !self.is_leader() {
            self.raw.raft.election_elapsed = self.raw.raft.election_elapsed.max(ELECTION_TICKS);
        }
    }

    /// Sends a sign of life to all followers now, if this replica leads.
    pub fn ping(&mut self) {
        if self.is_leader() && !self.has_failed() {
            self.raw.ping();
        }
    }

    /// Tells followers of what was committed since they were last told, if entries have not told them: once a tick rather
    /// than once an entry, which would double the messages.
    fn tell_commit(&mut self) -> bool {
        let tellable = self.tellable();
        let news = self.is_leader() && !self.is_alone() && tellable > self.timer.told;
        if news {
            self.timer.told = tellable;
            self.raw.ping();
        }
        news
    }

    /// Stands for election now rather than after a timeout: right for a group of one. Does nothing where that could
    /// break a promise made before a restart, or where the log is not written yet.
    pub fn campaign(&mut self) -> Result<()> {
        self.check()?;
        if self.may_stand() { self.raw.campaign().map_err(|e| raft_error(self.shard(), &e)) } else { Ok(()) }
    }

    /// Whether it may stand: raft-rs ends the process when one wins whose log is not all written, or who has not got
    /// over its snapshot yet.
    fn may_stand(&self) -> bool {
        let log = &self.raw.raft.raft_log;
        let written = log.persisted == log.last_index() && log.applied >= self.raw.store().truncated().0;
        written && !self.is_installing() && (!self.is_mute() || self.is_alone())
    }

    /// Whether it keeps out of elections.
    fn is_mute(&self) -> bool {
        self.timer.mute > 0
    }

    /// Whether `message` asks for what it may not do now.
    pub(crate) fn must_ignore(&self, message: &Message) -> bool {
        match message.get_msg_type() {
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => {
                self.is_mute() && message.context != raft::CAMPAIGN_TRANSFER
            }
            MessageType::MsgTimeoutNow => !self.may_stand(),
            _ => false,
        }
    }

    /// Hands leadership to `to`; false if it cannot. It takes effect in a moment or, if `to` does not answer, not at
    /// all. Meanwhile nothing can be proposed, and leases are void.
    pub fn transfer_leader(&mut self, to: vocab::ReplicaId) -> bool {
        let known = self.raw.store().conf_state().voters.contains(&to.0);
        if self.has_failed() || !self.is_leader() || to == self.me() || !known {
            return false;
        }
        self.raw.transfer_leader(to.0);
        self.is_transferring()
    }

    /// Whether leadership is being handed over.
    #[must_use]
    pub fn is_transferring(&self) -> bool {
        self.raw.raft.lead_transferee.is_some()
    }

    /// Whether nobody else votes.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        let members = self.raw.store().conf_state();
        members.voters_outgoing.is_empty() && members.voters == [self.me().0]
    }
}

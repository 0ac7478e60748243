//! Whether a request can run here: on a replica that leads, on one that follows if that is enough, or elsewhere.

use crate::directory::Known;
use crate::mailbox::WorkerMessage;
use crate::os::steady_us;
use crate::shared::NodeShared;
use node::ShardView;
use node::session::Consistency;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{ShardId, Slot};

/// How long a request waits for its shard to have a leader before it is refused.
pub(crate) const HOLD_US: u64 = 2_000_000;
/// How long a read waits until its replica has been told that it is not too old.
const FRESH_WITHIN_US: u64 = 1_000_000;
/// Between two looks of a thread that may wait.
const PAUSE: Duration = Duration::from_micros(200);

/// Where a request can run.
pub(crate) enum Access<'a> {
    /// Here, on the leader: the answer counts if `ShardView::readable` says so afterwards.
    Leader(&'a Arc<ShardView>),
    /// Here, on any replica.
    Follower(&'a Arc<ShardView>),
    /// The client is told so.
    Refused(String),
    /// Nobody leads, or nobody that is known: that may change in a moment.
    Wait,
}

impl NodeShared {
    /// Where a request for a shard can run.
    pub(crate) fn access<'a>(
        &self,
        known: &'a Known,
        shard: usize,
        slot: Slot,
        consistency: Consistency,
    ) -> Access<'a> {
        let view = known.view(shard);
        if let Some(view) = view
            && view.leading()
        {
            // It is giving the slot away: who gets it is known in a moment.
            return if shard == 0 || view.owns(slot) { Access::Leader(view) } else { Access::Wait };
        }
        let view = view.filter(|view| view.has_slot(slot));
        if consistency.allows_followers() {
            return match view {
                // It applies its log again: the leader answers meanwhile.
                Some(view) if consistency == Consistency::Any && view.is_replaying() => {
                    self.elsewhere(known, shard, slot)
                }
                Some(view) => self.follower(view, consistency),
                // This node has no replica of it.
                None => self.elsewhere(known, shard, slot),
            };
        }
        self.elsewhere(known, shard, slot)
    }

    fn follower<'a>(&self, view: &'a Arc<ShardView>, consistency: Consistency) -> Access<'a> {
        let ready = match consistency {
            Consistency::Absolute => false,
            Consistency::Any => view.has_joined(),
            Consistency::Lag { ms } => view.lag_ms(self.now_ms()).is_some_and(|lag| lag <= ms),
            Consistency::Version { token } => view.engine().applied_index() >= token,
        };
        if !ready && matches!(consistency, Consistency::Lag { .. }) {
            view.want_fresh();
        }
        match (ready, consistency) {
            (true, _) => Access::Follower(view),
            // It will come.
            (false, Consistency::Version { .. } | Consistency::Lag { .. }) => Access::Wait,
            (false, _) => Access::Refused(consistency.refusal()),
        }
    }

    fn elsewhere(&self, known: &Known, shard: usize, slot: Slot) -> Access<'static> {
        if known.map.is_none() {
            return Access::Refused(
                "CLUSTERDOWN The cluster is down: this node belongs to no store yet (basalt ctl init)".to_owned(),
            );
        }
        match self.redirection(shard, slot) {
            Some(text) => Access::Refused(text),
            None => self.given_up(known, shard).map_or(Access::Wait, Access::Refused),
        }
    }

    /// Why a shard will have no leader again, if the only replica that it has is here and cannot go on.
    fn given_up(&self, known: &Known, shard: usize) -> Option<String> {
        let why = known.view(shard)?.broken()?;
        let shards = &known.map.as_ref()?.shards;
        let voters = shards.get(&ShardId(shard as u32))?.voters().count();
        (voters == 1).then(|| format!("ERR {why}"))
    }

    /// What a client is told of a shard that another node leads; `None` if no such node is known.
    pub(crate) fn redirection(&self, shard: usize, slot: Slot) -> Option<String> {
        let known = self.known();
        let leader = known.place(shard)?.leader.node().filter(|node| *node != self.node())?;
        let node = known.map.as_ref()?.nodes.get(&leader)?;
        Some(format!("MOVED {slot} {}:{}", node.client_host, node.client_port))
    }

    /// How long a request waits before it is refused, in µs.
    pub(crate) fn hold_us(&self, consistency: Consistency) -> u64 {
        if matches!(consistency, Consistency::Lag { .. }) { FRESH_WITHIN_US } else { HOLD_US }
    }

    /// What a client is told that has waited for too long.
    pub(crate) fn no_leader(&self, consistency: Consistency) -> String {
        match consistency {
            Consistency::Version { .. } | Consistency::Lag { .. } => consistency.refusal(),
            _ => "CLUSTERDOWN The cluster is down: no leader of the shard is known".to_owned(),
        }
    }

    /// Waits until a request for a slot can run here, on whichever shard has it by then; the error is what its client is
    /// told. For threads that may wait.
    pub(crate) fn await_access(&self, slot: Slot, consistency: Consistency) -> Result<(Arc<ShardView>, bool), String> {
        let begun = Instant::now();
        loop {
            let known = self.known();
            let shard = known.shard_of(slot).unwrap_or_default();
            match self.access(&known, shard, slot, consistency) {
                Access::Leader(view) => return Ok((view.clone(), true)),
                Access::Follower(view) => return Ok((view.clone(), false)),
                Access::Refused(text) => return Err(text),
                Access::Wait
                    if begun.elapsed() > Duration::from_micros(self.hold_us(consistency)) || self.is_stopping() =>
                {
                    return Err(self.no_leader(consistency));
                }
                Access::Wait => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Has the leader of a shard confirmed.
    pub(crate) fn ask_lease(&self, shard: usize) {
        if let Some(mailbox) = self.mailbox(self.owner_of(shard)) {
            mailbox.send(WorkerMessage::AskLease(ShardId(shard as u32)));
        }
    }

    /// Waits until a read that came at `arrived_us`, and has been made, is known to be linearizable; false if it is not.
    /// For threads that may wait.
    pub(crate) fn confirm_read(&self, view: &ShardView, arrived_us: u64) -> bool {
        let begun = Instant::now();
        let mut asked = false;
        loop {
            if view.readable(arrived_us, steady_us()) {
                return true;
            }
            if !view.leading() || begun.elapsed() > Duration::from_micros(HOLD_US) || self.is_stopping() {
                return false;
            }
            if !std::mem::replace(&mut asked, true) {
                self.ask_lease(view.id().0 as usize);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

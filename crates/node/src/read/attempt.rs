//! One read, from its request to the release of its answer.

use super::{Deadline, LocalShard, NotHere, Refusal, Replica, read_access};
use crate::command::{Outcome, conclude, conclude_on};
use crate::guarantees::Consistency;
use crate::shard_handle::ShardHandle;
use resp::Reply;
use std::sync::Arc;
use vocab::{Moment, ShardId, Slot, SlotSpan};

/// What a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The slot of its keys, or of the first of them.
    pub slot: Slot,
    /// Where its keys are, if they are of several slots.
    pub wider: Option<SlotSpan>,
    /// What its client is promised.
    pub consistency: Consistency,
    /// When the request was there, in µs of the steady clock: the answer is no older.
    pub arrived_us: u64,
    /// Since when it has been waiting; `arrived_us` if it has not.
    pub waiting_since_us: u64,
}

/// What a read does first.
#[derive(Debug)]
pub enum Begin<A> {
    /// Run the handler over [`Attempt::handle`], then ask [`Attempt::finish`].
    Run(A),
    /// Have the leader of the shard confirmed, then begin again.
    WaitForLease(ShardId),
    /// This node's replica does not serve the read now.
    NotHere(NotHere),
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It is sent.
    Answer,
    /// It is dropped, and the read begins again.
    Again(Again),
}

/// Why an answer is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The slot was given to another shard, or is about to be.
    SlotMoved,
    /// The leader is not known to have led all the time.
    Unconfirmed,
    /// The replica went back to a state from before its restart.
    Replaying,
}

impl ReadRequest {
    /// A request that was there at `arrived_us`.
    #[must_use]
    pub fn new(slot: Slot, consistency: Consistency, arrived_us: u64) -> Self {
        Self { slot, wider: None, consistency, arrived_us, waiting_since_us: arrived_us }
    }

    /// The same of keys that are there, if they are of several slots.
    #[must_use]
    pub fn over(self, wider: Option<SlotSpan>) -> Self {
        Self { wider, ..self }
    }

    /// Where its keys are.
    fn span(&self) -> SlotSpan {
        self.wider.unwrap_or(self.slot.into())
    }

    /// Decides where the read goes, by what this node knows of the slot's shard. `None`: the node belongs to no store.
    ///
    /// `turn` is the time as the caller's loop has it, which may be older than the request: what the lease says by it is
    /// looked at again by [`Attempt::finish`]. How far a replica lags is told by the clock itself.
    pub fn begin(
        self,
        local: Option<LocalShard<'_>>,
        turn: Moment,
        clock: impl FnOnce() -> Moment,
    ) -> Begin<Attempt<&Arc<ShardHandle>>> {
        let now = if matches!(self.consistency, Consistency::Lag { .. }) { clock() } else { turn };
        let deadline = Deadline::for_read(self.consistency, self.waiting_since_us);
        let (handle, leads) = match read_access(local, self.slot, self.consistency, deadline, now) {
            Ok(Replica::Leader(leader)) => (leader.handle(), true),
            Ok(Replica::Follower(handle)) => (handle, false),
            Err(why) => return Begin::NotHere(why),
        };
        let roles = handle.lease().roles();
        // A replica that has just become leader may not have applied all that was acknowledged before.
        if leads && !handle.lease().readable(self.arrived_us, now.mono_us) {
            return match Deadline::for_leader(self.waiting_since_us).is_over(now.mono_us) {
                true => Begin::NotHere(NotHere::Refuse(Refusal::after_wait(self.consistency))),
                false => Begin::WaitForLease(handle.id()),
            };
        }
        Begin::Run(Attempt { handle, leads, roles, request: self })
    }
}

/// A read that runs on one replica. `H` is how its shard's handle is held: borrowed on an event loop, owned elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<H = Arc<ShardHandle>> {
    handle: H,
    leads: bool,
    /// The count of changes of role when the attempt began.
    roles: u64,
    request: ReadRequest,
}

impl<H: AsRef<ShardHandle>> Attempt<H> {
    /// The shard to read.
    pub fn handle(&self) -> &H {
        &self.handle
    }

    /// What is asked for.
    pub fn request(&self) -> ReadRequest {
        self.request
    }

    /// Whether the slot is still the shard's. Once it is not, its rows go, some before others: a read that finds them so has
    /// met no damage.
    pub fn has_slot(&self) -> bool {
        let handle = self.handle.as_ref();
        handle.id() == ShardId::META || handle.has_all(self.request.span())
    }

    /// Whether the replica leads its shard.
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// Turns the failure of the handler into its reply, which begins at `mark`. A read may have waited: where its slot was given
    /// away meanwhile, nothing that it met is damage.
    pub fn conclude(&self, done: Outcome, reply: &mut Reply, mark: usize) {
        match &done {
            Err(_) if !self.has_slot() => conclude(done, reply, mark),
            _ => conclude_on(self.handle.as_ref(), done, reply, mark),
        }
    }

    /// Whether the answer that was just made counts. To be asked after the read: the process may have been stopped for any
    /// time between two instructions. `now_us` is asked for the steady clock, if it is needed at all.
    pub fn finish(&self, now_us: impl FnOnce() -> u64) -> Finish {
        let (handle, request) = (self.handle.as_ref(), &self.request);
        if !self.leads {
            let replays = request.consistency == Consistency::Any && handle.is_replaying();
            return match handle.has_all(request.span()) {
                true if replays => Finish::Again(Again::Replaying),
                true => Finish::Answer,
                false => Finish::Again(Again::SlotMoved),
            };
        }
        // The slot first, see `ShardHandle::owns`: a leader gives a slot away before another one answers for it.
        if handle.id() != ShardId::META && !handle.owns_all(request.span()) {
            return Finish::Again(Again::SlotMoved);
        }
        if handle.lease().is_unquestioned() {
            return Finish::Answer;
        }
        let confirmed = handle.lease().readable(request.arrived_us, now_us());
        // The count of roles last: a later term's confirmation says nothing of the rows that were read before it.
        match confirmed && handle.lease().roles() == self.roles {
            true => Finish::Answer,
            false => Finish::Again(Again::Unconfirmed),
        }
    }
}

impl From<Attempt<&Arc<ShardHandle>>> for Attempt {
    fn from(attempt: Attempt<&Arc<ShardHandle>>) -> Self {
        Self { handle: attempt.handle.clone(), leads: attempt.leads, roles: attempt.roles, request: attempt.request }
    }
}

/// What is known of a replica's leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// A majority has confirmed it since `arrived_us`, or its lease has not ended.
    Confirmed,
    /// A majority has yet to answer: have the leader ask, and look again.
    Wait,
    /// It leads no more, or was not confirmed in time.
    Lost,
}

/// Whether a replica leads since `arrived_us`, for what waits until that is known.
#[must_use]
pub fn confirm_leader(handle: &ShardHandle, arrived_us: u64, deadline: Deadline, now_us: u64) -> Confirmation {
    if handle.lease().readable(arrived_us, now_us) {
        Confirmation::Confirmed
    } else if !handle.leading() || deadline.is_over(now_us) {
        Confirmation::Lost
    } else {
        Confirmation::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{ARRIVED, Fixture, SHARD, SLOT};
    use super::*;
    use vocab::limits::LEADER_WAIT_US_MAX;

    const NOW: u64 = ARRIVED.mono_us;
    const READ: ReadRequest = ReadRequest {
        slot: SLOT,
        wider: None,
        consistency: Consistency::Absolute,
        arrived_us: NOW,
        waiting_since_us: NOW,
    };
    const ANY: ReadRequest = ReadRequest { consistency: Consistency::Any, ..READ };

    fn word(begun: &Begin<Attempt<&Arc<ShardHandle>>>) -> &'static str {
        match begun {
            Begin::Run(_) => "run",
            Begin::WaitForLease(shard) => {
                assert_eq!(*shard, SHARD);
                "lease"
            }
            Begin::NotHere(NotHere::Wait { .. }) => "wait",
            Begin::NotHere(NotHere::Redirect(_)) => "redirect",
            Begin::NotHere(NotHere::Refuse(_)) => "refuse",
        }
    }

    #[test]
    fn a_leader_that_is_not_confirmed_is_waited_for() {
        // Confirmed at, lease until, now, and what the read does.
        let cases = [
            (0, 0, NOW, "lease"),
            (NOW - 1, NOW, NOW, "lease"),
            (NOW - 1, NOW + 1, NOW, "run"),
            (NOW, 0, NOW, "run"),
            (NOW - 1, u64::MAX, NOW, "run"),
            (NOW - 1, 0, NOW + LEADER_WAIT_US_MAX - 1, "lease"),
            (NOW - 1, 0, NOW + LEADER_WAIT_US_MAX, "refuse"),
        ];
        for (i, (confirmed_us, until_us, mono_us, expected)) in cases.into_iter().enumerate() {
            let fixture = Fixture::new(3);
            fixture.lead(confirmed_us, until_us);
            let begun = READ.begin(Some(fixture.local()), Moment { mono_us, ..ARRIVED }, || unreachable!("a lag"));
            assert_eq!(word(&begun), expected, "case {i}");
        }
    }

    /// What happens between the read's begin, with its lease, and its end, and what becomes of the answer.
    #[test]
    fn an_answer_counts_if_nothing_has_changed() {
        type Meanwhile = fn(&Fixture);
        let counts = Finish::Answer;
        let (moved, lost) = (Finish::Again(Again::SlotMoved), Finish::Again(Again::Unconfirmed));
        let cases: &[(&str, Meanwhile, u64, Finish)] = &[
            ("nothing", |_| {}, NOW + 99, counts),
            ("the lease ends", |_| {}, NOW + 100, lost),
            (
                "the lease ends, and the leader is confirmed",
                |f| f.handle.lease().confirm(NOW, NOW + 50),
                NOW + 100,
                counts,
            ),
            (
                "the lease ends, and it was confirmed before",
                |f| f.handle.lease().confirm(NOW - 1, NOW + 50),
                NOW + 100,
                lost,
            ),
            ("the lease is renewed", |f| f.handle.lease().confirm(NOW - 1, NOW + 300), NOW + 200, counts),
            (
                "it leads no more",
                |f| {
                    f.handle.lease().end();
                    f.handle.lease().set_leading(false);
                },
                NOW + 1,
                lost,
            ),
            ("it leads no more, and again", |f| f.lead(NOW + 5, NOW + 900), NOW + 10, lost),
            ("the slot is given away", Fixture::fence, NOW + 1, moved),
            ("the slot is another shard's", Fixture::give_away, NOW + 1, moved),
            (
                "both: the slot is told first",
                |f| {
                    f.fence();
                    f.handle.lease().end();
                },
                NOW + 1,
                moved,
            ),
        ];
        for (what, meanwhile, now_us, expected) in cases {
            let fixture = Fixture::new(3);
            fixture.lead(NOW - 500, NOW + 100);
            let Begin::Run(attempt) = READ.begin(Some(fixture.local()), ARRIVED, || ARRIVED) else {
                panic!("{what}: no run")
            };
            assert!(attempt.leads());
            meanwhile(&fixture);
            assert_eq!(attempt.finish(|| *now_us), *expected, "{what}");
            assert_eq!(<Attempt>::from(attempt).finish(|| *now_us), *expected, "{what}");
        }
    }

    #[test]
    fn how_far_a_follower_lags_is_told_by_the_clock() {
        let fixture = Fixture::new(3);
        fixture.handle.freshness().reach(ARRIVED.wall_ms);
        let read = ReadRequest { consistency: Consistency::Lag { ms: 100 }, ..READ };
        for (late_ms, expected) in [(100, "run"), (101, "wait")] {
            let now = Moment { wall_ms: ARRIVED.wall_ms + late_ms, ..ARRIVED };
            assert_eq!(word(&read.begin(Some(fixture.local()), ARRIVED, || now)), expected, "{late_ms} ms late");
        }
    }

    #[test]
    fn a_leader_without_rivals_is_not_asked_for_the_time() {
        let fixture = Fixture::new(1);
        fixture.lead(NOW, u64::MAX);
        let Begin::Run(attempt) = READ.begin(Some(fixture.local()), ARRIVED, || ARRIVED) else { panic!("no run") };
        assert_eq!(attempt.finish(|| unreachable!("the clock is not needed")), Finish::Answer);
    }

    #[test]
    fn what_a_follower_answers_counts_while_it_has_the_slot() {
        type Meanwhile = fn(&Fixture);
        let cases: &[(&str, Meanwhile, Finish)] = &[
            ("nothing", |_| {}, Finish::Answer),
            ("its leader gives the slot away", Fixture::fence, Finish::Answer),
            ("the slot is another shard's", Fixture::give_away, Finish::Again(Again::SlotMoved)),
            ("it is started again", |f| f.handle.set_replayed_at(9), Finish::Again(Again::Replaying)),
        ];
        for (what, meanwhile, expected) in cases {
            let fixture = Fixture::new(3);
            let Begin::Run(attempt) = ANY.begin(Some(fixture.local()), ARRIVED, || ARRIVED) else {
                panic!("{what}: no run")
            };
            assert!(!attempt.leads() && attempt.request() == ANY);
            meanwhile(&fixture);
            assert_eq!(attempt.finish(|| NOW), *expected, "{what}");
        }
    }

    #[test]
    fn a_leader_is_confirmed_waited_for_or_lost() {
        let deadline = Deadline::for_leader(NOW);
        let fixture = Fixture::new(3);
        let at = |now_us| confirm_leader(&fixture.handle, NOW, deadline, now_us);
        assert_eq!(at(NOW), Confirmation::Lost, "it follows");
        fixture.lead(NOW - 1, 0);
        assert_eq!(at(NOW), Confirmation::Wait);
        assert_eq!(at(deadline.until_us()), Confirmation::Lost, "for too long");
        fixture.handle.lease().confirm(NOW, 0);
        assert_eq!(at(NOW), Confirmation::Confirmed);
    }
}

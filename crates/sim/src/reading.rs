//! A client's read on a node. The simulator drives `node::read`, as a server does, and decides nothing itself: it makes
//! time pass, and lets the process stand still, between the steps.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::check::weak::WeakRead;
use crate::client_read::{ClientRead, RunningRead, Source};
use crate::event::{NodeEvent, Place};
use crate::history::{Answer, Outcome as Told};
use crate::host;
use crate::schedule::MILLISECOND;
use crate::world::{Outcome, World, node_id};
use node::ShardView;
use node::read::{Again, Attempt, Begin, Finish, NotHere, ReadRequest};
use node::session::Consistency;
use vocab::{Moment, ShardId};

/// Whether a planted bug reads although the protocol says no.
fn reads_anyway(bug: Option<Bug>, asked: &ReadRequest, handle: &ShardView, begun: &Begin<impl Sized>) -> bool {
    let follows = !handle.leading() && handle.has_slot(asked.slot);
    match (bug, begun) {
        (Some(Bug::ReadAnywhere), _) | (Some(Bug::NoLease), Begin::WaitForLease(_)) => true,
        (Some(Bug::BlindReplica), Begin::NotHere(NotHere::Wait { .. })) => {
            follows && matches!(asked.consistency, Consistency::Lag { .. } | Consistency::Version { .. })
        }
        (Some(Bug::BeforeReplay), Begin::NotHere(_)) => {
            follows && asked.consistency == Consistency::Any && handle.is_replaying()
        }
        _ => false,
    }
}

/// Whether a planted bug answers although the protocol says no.
fn answers_anyway(bug: Option<Bug>, why: Again) -> bool {
    matches!(
        (bug, why),
        (Some(Bug::NoLease | Bug::LeaseOnce), Again::Unconfirmed) | (Some(Bug::OwnerOnce), Again::SlotMoved)
    )
}

impl World {
    /// A read begins, or begins again.
    pub(crate) fn begin_read(&mut self, place: Place, read: ClientRead) -> Outcome {
        let (turn, now) = (self.turn(place), self.moment(place));
        let Some(process) = &mut self.hosts[place].process else { return Ok(()) };
        let shard = process.shard_of(read.asked.slot);
        let handle = shard.and_then(|shard| process.core.shard(shard)).map(|here| here.view().clone());
        let begun = read.asked.begin(process.local(node_id(place), shard, handle.as_ref()), turn, || now);
        if let Some(handle) = &handle
            && reads_anyway(self.bug, &read.asked, handle, &begun)
        {
            let source = Source::Bug(handle.clone());
            return self.read_soon(place, read, source);
        }
        match begun {
            Begin::Run(attempt) => {
                let attempt = Attempt::from(attempt);
                self.read_soon(place, read, Source::Attempt(attempt))
            }
            Begin::WaitForLease(shard) => {
                process.reads.entry(shard).or_default().push(read);
                self.ask_lease(place, shard, now);
                Ok(())
            }
            Begin::NotHere(NotHere::Wait { .. }) => {
                self.park(place, read);
                Ok(())
            }
            Begin::NotHere(NotHere::Redirect(node)) => {
                self.refuse(read.operation, Some(node));
                Ok(())
            }
            Begin::NotHere(NotHere::Refuse(_)) => {
                self.refuse(read.operation, None);
                Ok(())
            }
        }
    }

    /// The handler runs: at once if the row is in memory, else when the disk has answered.
    fn read_soon(&mut self, place: Place, read: ClientRead, source: Source) -> Outcome {
        let running = RunningRead { read, source, began: self.now() };
        running.handle().note_operations(running.read.asked.slot, 1);
        if !self.prng.happens(self.plan.cold_reads_per_mille) {
            self.run_read(place, running);
            return Ok(());
        }
        let most = *self.prng.pick(&[1, 20, 200, if self.healing { 20 } else { 4_000 }]);
        let delay = self.prng.below(most * MILLISECOND);
        self.later(delay, place, NodeEvent::RunRead(Box::new(running)));
        Ok(())
    }

    /// The handler of a read runs.
    pub(crate) fn run_read(&mut self, place: Place, running: RunningRead) {
        let now = self.moment(place);
        let clock = match self.bug {
            Some(Bug::OldClock) => Moment { wall_ms: now.wall_ms - 3_600_000, ..now },
            _ => now,
        };
        let reply = host::read(running.handle(), &running.read.request, clock);
        let delay = if self.prng.happens(900) { 0 } else { self.prng.below(20 * MILLISECOND) };
        self.later(delay, place, NodeEvent::ReadMade(Box::new(running), reply));
    }

    /// The handler of a read has run: its answer goes out if it counts.
    pub(crate) fn read_made(&mut self, place: Place, running: RunningRead, reply: &[u8]) -> Outcome {
        let now = self.moment(place);
        let finish = match &running.source {
            Source::Attempt(attempt) => attempt.finish(|| now.mono_us),
            Source::Bug(_) => Finish::Answer,
        };
        let shard = running.handle().id();
        match finish {
            Finish::Again(why) if !answers_anyway(self.bug, why) => {
                if why == Again::Unconfirmed {
                    self.ask_lease(place, shard, now);
                }
                self.park(place, running.read);
                Ok(())
            }
            Finish::Again(_) | Finish::Answer => self.answer_read(place, &running, reply),
        }
    }

    fn answer_read(&mut self, place: Place, running: &RunningRead, reply: &[u8]) -> Outcome {
        let answer = running.read.request.answer(reply)?;
        if running.is_weak() {
            self.check_weak(place, running, &answer)?;
        }
        self.answer(running.read.operation, answer, None);
        Ok(())
    }

    fn check_weak(&mut self, place: Place, running: &RunningRead, answer: &Answer) -> Outcome {
        let (request, shard) = (&running.read.request, running.handle().id());
        if let (Answer::Done(outcomes), [(key, _)]) = (answer, &request.actions[..])
            && let [Told::Read(seen)] = outcomes[..]
        {
            let values = self.groups.get(&shard).map(crate::check::raft::Group::values);
            let logged = seen.and_then(|(value, _)| values?.get(&value).copied());
            let made = WeakRead {
                replica: (place, self.hosts[place].life, shard),
                group: request.group,
                key: *key,
                seen,
                consistency: running.read.asked.consistency,
                began: running.began,
                ended: self.now(),
            };
            self.weak.check(&made, logged, self.plan.slack())?;
        }
        Ok(())
    }

    /// A read waits for news of its shard.
    fn park(&mut self, place: Place, read: ClientRead) {
        let Some(process) = &mut self.hosts[place].process else { return };
        let shard = process.shard_of(read.asked.slot).unwrap_or(ShardId::META);
        process.reads.entry(shard).or_default().push(read);
    }

    fn ask_lease(&mut self, place: Place, shard: ShardId, now: Moment) {
        if let Some(process) = &mut self.hosts[place].process {
            process.core.ask_lease(shard, now);
        }
    }

    /// The time as the node's event loop has it: of when its turn began, which is long ago where the process stood still
    /// in between.
    pub(crate) fn turn(&self, place: Place) -> Moment {
        self.hosts[place].turn.unwrap_or_else(|| self.moment(place))
    }
}

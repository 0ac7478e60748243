//! A client's read on a node. The simulator drives `node::read`, as a server does, and decides nothing itself: it makes
//! time pass, and lets the process stand still, between the steps.

use crate::bug::Bug;
use crate::chance::Chance;
use crate::check::weak::WeakRead;
use crate::checkers::Outcome;
use crate::client_read::{ClientRead, Reader, RunningRead, Source};
use crate::collections::Told;
use crate::event::NodeEvent;
use crate::history::{Answer, Outcome as Made};
use crate::host;
use crate::places::{Place, node_id};
use crate::request::Request;
use crate::schedule::MILLISECOND;
use crate::store::Store;
use node::ShardHandle;
use node::read::{Again, Attempt, Begin, Finish, NotHere, ReadRequest};
use node::session::Consistency;
use vocab::{Moment, NodeId, ShardId};

/// Whether a planted bug reads although the protocol says no.
fn reads_anyway(bug: Option<Bug>, asked: &ReadRequest, handle: &ShardHandle, begun: &Begin<impl Sized>) -> bool {
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

/// A read begins, or begins again.
pub fn begin_read(store: &mut Store, place: Place, read: ClientRead) -> Outcome {
    let (turn, now) = (store.turn(place), store.moment(place));
    let Some(process) = &mut store.nodes[place].process else { return Ok(()) };
    let shard = process.shard_of(read.asked.slot);
    let handle = shard.and_then(|shard| process.core.shard(shard)).map(|here| here.handle().clone());
    let begun = read.asked.begin(process.local(node_id(place), shard, handle.as_ref()), turn, || now);
    if let Some(handle) = &handle
        && reads_anyway(store.env.bug(), &read.asked, handle, &begun)
    {
        let source = Source::Bug(handle.clone());
        return read_soon(store, place, read, source);
    }
    match begun {
        Begin::Run(attempt) => {
            let attempt = Attempt::from(attempt);
            read_soon(store, place, read, Source::Attempt(attempt))
        }
        Begin::WaitForLease(shard) => {
            process.reads.park(shard, read);
            ask_lease(store, place, shard, now);
            Ok(())
        }
        Begin::NotHere(NotHere::Wait { .. }) => {
            park(store, place, read);
            Ok(())
        }
        Begin::NotHere(NotHere::Redirect(node)) => {
            refuse(store, &read, Some(node));
            Ok(())
        }
        Begin::NotHere(NotHere::Refuse(_)) => {
            refuse(store, &read, None);
            Ok(())
        }
    }
}

/// The handler runs: at once if the row is in memory, else when the disk has answered.
fn read_soon(store: &mut Store, place: Place, read: ClientRead, source: Source) -> Outcome {
    let running = RunningRead { read, source, began: store.env.now() };
    running.handle().note_operations(running.read.asked.slot, 1);
    if !store.env.happens(store.env.plan().cold_reads_per_mille) {
        run_read(store, place, running);
        return Ok(());
    }
    let most = *store.env.pick(&[1, 20, 200, if store.env.is_gentle() { 20 } else { 4_000 }]);
    let delay = store.env.below(most * MILLISECOND);
    store.env.later(delay, place, NodeEvent::RunRead(Box::new(running)));
    Ok(())
}

/// The handler of a read runs.
pub fn run_read(store: &mut Store, place: Place, running: RunningRead) {
    let now = store.moment(place);
    let clock = match store.env.bug() {
        Some(Bug::OldClock) => Moment { wall_ms: now.wall_ms - 3_600_000, ..now },
        Some(Bug::LocalExpiry) => store.raw_moment(place),
        _ => now,
    };
    let reply = host::read(running.handle(), &running.read.args(), clock);
    let delay = if store.env.happens(900) { 0 } else { store.env.below(20 * MILLISECOND) };
    store.env.later(delay, place, NodeEvent::ReadMade(Box::new(running), reply));
}

/// The handler of a read has run: its answer goes out if it counts.
pub fn read_made(store: &mut Store, place: Place, running: RunningRead, reply: Result<Vec<u8>, String>) -> Outcome {
    let now = store.moment(place);
    let finish = match &running.source {
        Source::Attempt(attempt) => attempt.finish(|| now.mono_us),
        Source::Bug(_) => Finish::Answer,
    };
    let shard = running.handle().id();
    match finish {
        Finish::Again(why) if !answers_anyway(store.env.bug(), why) => {
            if why == Again::Unconfirmed {
                ask_lease(store, place, shard, now);
            }
            park(store, place, running.read);
            Ok(())
        }
        // A failed read that does not count may have met rows of a slot that was given away, which are being removed.
        Finish::Again(_) | Finish::Answer => answer_read(store, place, &running, &reply?),
    }
}

fn answer_read(store: &mut Store, place: Place, running: &RunningRead, reply: &[u8]) -> Outcome {
    match &running.read.reader {
        Reader::Client(operation, request) => {
            let answer = request.answer(reply)?;
            if running.is_weak() {
                check_weak(store, place, running, request, &answer)?;
            }
            store.answer(*operation, answer, None);
        }
        Reader::Collection(request) => {
            let told = request.answer(reply)?;
            store.answer_collection(request, told, None);
        }
    }
    Ok(())
}

/// A read is not answered here.
fn refuse(store: &mut Store, read: &ClientRead, leader: Option<NodeId>) {
    match &read.reader {
        Reader::Client(operation, _) => store.refuse(*operation, leader),
        Reader::Collection(request) => store.answer_collection(request, Told::Refused, leader),
    }
}

fn check_weak(store: &mut Store, place: Place, running: &RunningRead, request: &Request, answer: &Answer) -> Outcome {
    let shard = running.handle().id();
    if let (Answer::Done(outcomes), [(key, _)]) = (answer, &request.actions[..])
        && let [Made::Read(seen)] = outcomes[..]
    {
        let made = WeakRead {
            replica: (place, store.env.life(place), shard),
            group: request.group,
            key: *key,
            seen,
            consistency: running.read.asked.consistency,
            began: running.began,
            ended: store.env.now(),
        };
        store.checks.weak_read(&made, shard, store.env.plan().slack())?;
    }
    Ok(())
}

/// A read waits for news of its shard.
fn park(store: &mut Store, place: Place, read: ClientRead) {
    let Some(process) = &mut store.nodes[place].process else { return };
    let shard = process.shard_of(read.asked.slot).unwrap_or(ShardId::META);
    process.reads.park(shard, read);
}

fn ask_lease(store: &mut Store, place: Place, shard: ShardId, now: Moment) {
    if let Some(process) = &mut store.nodes[place].process {
        process.core.ask_lease(shard, now);
    }
}

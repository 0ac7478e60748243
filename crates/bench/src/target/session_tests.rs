//! What a session makes of trouble: each request is answered with the next line of a script.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::time::Duration;

use client::{Access, Answer, Failure, Frame};

use super::super::outcome::{Fault, OpOutcome};
use super::super::transport::{About, ArgumentSink};
use super::*;
use crate::workload::{Config, OpKind, Properties, Task};

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Done,
    Missing,
    Absent,
    Record,
    /// A record of one field, with its version.
    Versioned(u64),
    Again(Failure),
    Lost(Failure),
}

struct Script {
    fates: VecDeque<Fate>,
    asked: Vec<(u32, Access)>,
    /// What was asked and is answered.
    answered: Vec<Access>,
}

/// A reply to KV.GET of a record that the checks accept.
fn versioned(version: u64) -> Vec<u8> {
    let mut properties = Properties::new();
    properties.set("recordcount", "10");
    properties.set("fieldcount", "1");
    let workload = Workload::plan(Config::read(&properties).unwrap(), Task::Run).unwrap();
    let operation = Operation { key: b"user1".to_vec(), ..Operation::default() };
    let mut packed = Vec::new();
    let hash = crate::workload::key_hash(b"user1");
    super::super::packed::push(b"field0", 0, |out| workload.write_value(&operation, hash, 0, out), &mut packed);
    [format!("*2\r\n${}\r\n", packed.len()).into_bytes(), packed, format!("\r\n:{version}\r\n").into_bytes()].concat()
}

struct Ignored;

impl ArgumentSink for Ignored {
    fn arg(&mut self, _bytes: &[u8]) {}
    fn number(&mut self, _number: u64) {}
}

impl Transport for Script {
    type Request<'a> = Ignored;

    fn request(&mut self, about: About<'_>) -> Ignored {
        self.asked.push((about.lane, about.access));
        Ignored
    }

    fn finish(&mut self) {}

    fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, Answer<'_>, Instant)) -> io::Result<()> {
        for (lane, access) in std::mem::take(&mut self.asked) {
            self.answered.push(access);
            let mut record = Vec::new();
            let answer = match self.fates.pop_front().unwrap_or(Fate::Done) {
                Fate::Done => Answer::Reply(Frame::Int(1)),
                Fate::Missing => Answer::Reply(Frame::Int(0)),
                Fate::Absent => Answer::Reply(Frame::Null),
                Fate::Record => Answer::Reply(Frame::Bulk(b"")),
                Fate::Versioned(version) => {
                    record.extend_from_slice(&versioned(version));
                    Answer::Reply(Frame::read(&record, &mut resp::FrameState::default()).unwrap().unwrap().0)
                }
                Fate::Again(failure) => Answer::Again(failure),
                Fate::Lost(failure) => Answer::Failed(failure),
            };
            each(lane, answer, Instant::now());
        }
        if let Some(until) = until {
            std::thread::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(5)));
        }
        Ok(())
    }
}

/// An operation that is under way and will meet these fates.
fn begun(kind: OpKind, fates: &[Fate], patience: Duration) -> RecordSession<Script> {
    let mut properties = Properties::new();
    properties.set("recordcount", "10");
    properties.set("basalt.record", "string");
    let task = if kind == OpKind::Delete { Task::Delete } else { Task::Run };
    let workload = Arc::new(Workload::plan(Config::read(&properties).unwrap(), task).unwrap());
    let script = Script { fates: fates.iter().copied().collect(), asked: Vec::new(), answered: Vec::new() };
    let manner = Manner { verifies: false, patience: Some(patience), ..Manner::default() };
    let mut session = RecordSession::new(script, workload, 1, manner);
    *session.operation(0) = Operation { kind, key: b"user1".to_vec(), ..Operation::default() };
    session.start(0);
    session
}

/// How an operation ends that meets these fates.
fn end(kind: OpKind, fates: &[Fate], patience: Duration) -> OpOutcome {
    end_of(&mut begun(kind, fates, patience))
}

fn end_of(session: &mut RecordSession<Script>) -> OpOutcome {
    let (mut done, end) = (Vec::new(), Instant::now() + Duration::from_secs(10));
    while done.is_empty() && Instant::now() < end {
        session.wait(Some(end), &mut done).unwrap();
    }
    done.remove(0).outcome
}

#[test]
fn the_leader_is_asked_for_what_a_replica_does_not_have() {
    use Access::{LeaderRead, Read};
    use Fate::{Absent, Again, Record};
    for (may_lag, fates, expected, asked) in [
        (true, vec![Record], (Ok(()), false), vec![Read]),
        (true, vec![Absent, Record], (Ok(()), true), vec![Read, LeaderRead]),
        (true, vec![Absent, Absent], (Err(Fault::NotFound), false), vec![Read, LeaderRead]),
        (true, vec![Absent, Again(Failure::Moved), Record], (Ok(()), true), vec![Read, LeaderRead, LeaderRead]),
        (false, vec![Absent], (Err(Fault::NotFound), false), vec![Read]),
    ] {
        let mut session = begun(OpKind::Read, &fates, Duration::MAX);
        session.manner.may_lag = may_lag;
        let outcome = end_of(&mut session);
        assert_eq!((outcome.result, outcome.stale), expected, "{fates:?}");
        assert_eq!(session.transport.answered, asked, "{fates:?}");
    }
}

#[test]
fn only_what_is_safe_is_attempted_again() {
    use Failure::{Disconnected, Down, Moved, TimedOut, Unreachable};
    use Fate::{Again, Done, Lost, Missing};
    let ok = |retries: u32| (Ok(()), retries, false);
    let error = |kind: &str, unknown: bool| (Err(Fault::error(kind)), 0, unknown);
    for (kind, fates, expected) in [
        (OpKind::Update, vec![Again(Moved), Again(Down), Again(Unreachable), Done], ok(3)),
        (OpKind::Update, vec![Lost(Disconnected)], error("disconnected", true)),
        (OpKind::Update, vec![Lost(TimedOut)], error("timeout", true)),
        (OpKind::Insert, vec![Again(Disconnected), Done], ok(1)),
        (OpKind::Delete, vec![Again(Disconnected), Missing], ok(1)),
        (OpKind::Delete, vec![Again(Moved), Missing], (Err(Fault::NotFound), 1, false)),
    ] {
        let outcome = end(kind, &fates, Duration::from_secs(5));
        assert_eq!((outcome.result, outcome.retries, outcome.unknown), expected, "{kind:?} {fates:?}");
    }
}

#[test]
fn patience_ends_with_the_last_error_and_tells_what_is_unknown() {
    let endless = [Fate::Again(Failure::Down); 100];
    let outcome = end(OpKind::Update, &endless, Duration::from_millis(30));
    assert_eq!((outcome.result, outcome.unknown), (Err(Fault::error("CLUSTERDOWN")), false));
    assert!((2..20).contains(&outcome.retries), "with pauses between: {}", outcome.retries);
    let mut fates = endless;
    fates[0] = Fate::Again(Failure::Disconnected);
    assert!(end(OpKind::Insert, &fates, Duration::from_millis(30)).unknown, "the first attempt may have been done");
}

#[test]
fn a_run_that_is_to_end_does_not_wait_for_what_is_refused_again_and_again() {
    let mut session = begun(OpKind::Update, &[Fate::Again(Failure::Down); 100], Duration::MAX);
    let mut done = Vec::new();
    session.wait(Some(Instant::now()), &mut done).unwrap();
    assert!(done.is_empty() && session.waiting.len() == 1, "it waits for its next attempt");
    session.hurry();
    // The first sends what waited.
    for _ in 0..2 {
        session.wait(Some(Instant::now()), &mut done).unwrap();
    }
    assert_eq!(done.remove(0).outcome.result, Err(Fault::error("CLUSTERDOWN")));
}

/// Compare-and-set of two lanes that read one version: a store that acknowledges both has lost an update.
#[test]
fn a_lost_update_is_wrong() {
    let session = |fates: &[Fate]| {
        let mut properties = Properties::new();
        properties.set("recordcount", "10");
        properties.set("fieldcount", "1");
        properties.set("basalt.update", "cas");
        let workload = Arc::new(Workload::plan(Config::read(&properties).unwrap(), Task::Run).unwrap());
        let script = Script { fates: fates.iter().copied().collect(), asked: Vec::new(), answered: Vec::new() };
        RecordSession::new(script, workload, 2, Manner::default())
    };
    let outcomes = |fates: &[Fate]| {
        let mut session = session(fates);
        for lane in 0..2 {
            *session.operation(lane) =
                Operation { kind: OpKind::Update, key: b"user1".to_vec(), ..Operation::default() };
            session.start(lane);
        }
        let mut done = Vec::new();
        let end = Instant::now() + Duration::from_secs(10);
        while done.len() < 2 && Instant::now() < end {
            session.wait(Some(end), &mut done).unwrap();
        }
        done.into_iter().map(|done| done.outcome.result).collect::<Vec<_>>()
    };
    let read = Fate::Versioned;
    assert_eq!(outcomes(&[read(5), read(5), Fate::Done, Fate::Done]), [Ok(()), Err(Fault::Wrong)]);
    assert_eq!(outcomes(&[read(5), read(5), Fate::Done, Fate::Absent, read(6), Fate::Done]), [Ok(()), Ok(())]);
}

/// A session of a run with these properties, whose requests will meet these fates.
fn session_of(properties: &[(&str, &str)], fates: &[Fate], manner: Manner) -> RecordSession<Script> {
    let mut given = Properties::new();
    given.set("recordcount", "10");
    properties.iter().for_each(|(name, value)| given.set(name, value));
    let workload = Arc::new(Workload::plan(Config::read(&given).unwrap(), Task::Run).unwrap());
    let script = Script { fates: fates.iter().copied().collect(), asked: Vec::new(), answered: Vec::new() };
    RecordSession::new(script, workload, 1, manner)
}

fn start(session: &mut RecordSession<Script>, kind: OpKind) {
    *session.operation(0) = Operation { kind, key: b"user1".to_vec(), tag: 1, ..Operation::default() };
    session.start(0);
}

#[test]
fn a_tag_that_was_added_and_that_a_replica_lacks_is_asked_of_the_leader() {
    use Access::{LeaderRead, Read, Write};
    use Fate::{Done, Missing};
    for (may_lag, fates, expected, asked) in [
        (true, vec![Done, Missing, Done], (Ok(()), true), vec![Write, Read, LeaderRead]),
        (true, vec![Done, Missing, Missing], (Err(Fault::Wrong), false), vec![Write, Read, LeaderRead]),
        (false, vec![Done, Missing], (Err(Fault::Wrong), false), vec![Write, Read]),
    ] {
        let manner = Manner { may_lag, ..Manner::default() };
        let mut session = session_of(&[("basalt.record", "tags")], &fates, manner);
        let [added, asked_for] = [OpKind::Update, OpKind::Read].map(|kind| {
            start(&mut session, kind);
            end_of(&mut session)
        });
        assert_eq!(added.result, Ok(()));
        assert_eq!((asked_for.result, asked_for.stale), expected, "{fates:?}");
        assert_eq!(session.transport.answered, asked, "{fates:?}");
    }
}

#[test]
fn an_adapter_tells_that_the_record_of_an_update_is_missing() {
    for (tells_missing, kind, result) in [
        (true, OpKind::Update, Err(Fault::NotFound)),
        // Redis has added no field.
        (false, OpKind::Update, Ok(())),
        (true, OpKind::Insert, Ok(())),
    ] {
        let mut session = session_of(&[], &[Fate::Missing], Manner { tells_missing, ..Manner::default() });
        start(&mut session, kind);
        assert_eq!(end_of(&mut session).result, result, "{tells_missing} {kind:?}");
    }
}

#[test]
fn an_update_that_loses_races_ends_with_the_run() {
    let fates = [5, 6, 7].map(|version| [Fate::Versioned(version), Fate::Absent]).concat();
    let properties = [("fieldcount", "1"), ("basalt.update", "cas")];
    let mut session = session_of(&properties, &fates, Manner::default());
    start(&mut session, OpKind::Update);
    let mut done = Vec::new();
    // The read, and the write that loses.
    for _ in 0..2 {
        session.wait(Some(Instant::now()), &mut done).unwrap();
    }
    assert!(done.is_empty());
    session.hurry();
    let outcome = end_of(&mut session);
    assert_eq!((outcome.result, outcome.conflicts), (Err(Fault::error("conflict")), 2));
}

//! One operation of a session, from its first request to its end: which request comes next, and what was wrong.

use std::time::{Duration, Instant};

use client::{Access, Answer, Failure, Frame};

use super::collections::{self, Answered, CollectionState, Judged};
use super::outcome::{Fault, OpOutcome};
use super::replies::{Checker, Page};
use crate::workload::{Collection, Fields, OpKind, Operation, RecordForm, Workload};

/// An update that loses this many races in a row is an error.
const CONFLICTS_MAX: u32 = 10_000;
/// An update may lose races for so long at least, even if what is refused is not attempted again for so long: others make
/// progress meanwhile.
const RACES_FOR: Duration = Duration::from_secs(10);
/// The pause between two refused attempts; it doubles with every refusal…
const BACK_OFF: Duration = Duration::from_millis(5);
/// …up to this.
const BACK_OFF_MAX: Duration = Duration::from_millis(100);
/// The number of attempts without a pause, when another node may do at once what this one could not.
const IMMEDIATE_MAX: u32 = 3;

/// What a lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The operation's only request.
    Only,
    /// The read before a write.
    ReadFirst,
    /// The write after it.
    WriteAfter,
}

/// How a session makes its operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Whether values are compared.
    pub(super) verifies: bool,
    /// How long an operation is retried; none: without end.
    pub(super) patience: Option<Duration>,
    /// Whether the run is to end: nothing is retried any more.
    pub(super) hurries: bool,
    /// Whether any replica answers reads. It may be behind, so if it lacks a record the leader is asked.
    pub(super) may_lag: bool,
    /// Whether scans follow the store's own order, from the record that was asked for.
    pub(super) scans_unordered: bool,
    /// Whether 0 as the answer to HSET says that there is no such record, as with adapters. Redis counts the fields that it has
    /// added.
    pub(super) tells_missing: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            verifies: true,
            patience: None,
            hurries: false,
            may_lag: false,
            scans_unordered: false,
            tells_missing: false,
        }
    }
}

pub(super) struct Lane {
    pub(super) operation: Operation,
    pub(super) step: Awaited,
    /// The packed record that was read and is to be changed.
    pub(super) record: Vec<u8>,
    pub(super) version: u64,
    pub(super) page: Page,
    /// For records that are collections.
    pub(super) collection: CollectionState,
    verified: bool,
    /// Whether a replica lacked the record, so that the leader is asked.
    pub(super) stale: bool,
    retries: u32,
    conflicts: u32,
    /// When the first attempt failed.
    troubled: Option<Instant>,
    /// When it lost its first race.
    raced: Option<Instant>,
    /// Whether an attempt at its write may have been made without an answer.
    perhaps_done: bool,
}

/// What a lane does after an answer.
pub(super) enum Next {
    /// Sends another request.
    Request,
    /// Sends the same request again at that time.
    Attempt(Instant),
    /// Sends the write, after a good read.
    Write,
    /// Ends the operation.
    End(Result<(), Fault>),
}

/// Whether an operation reads before it writes.
fn reads_first(workload: &Workload, operation: &Operation) -> bool {
    let config = &workload.config;
    if let RecordForm::Collection(collection) = config.record {
        return collections::has_two_steps(collection, operation.kind);
    }
    match operation.kind {
        OpKind::ReadModifyWrite => true,
        OpKind::Update if config.record == RecordForm::String => {
            config.compare_and_set || operation.write != Fields::All
        }
        _ => false,
    }
}

impl Lane {
    /// A lane that has done nothing yet.
    pub(super) fn new() -> Self {
        Self {
            operation: Operation::default(),
            step: Awaited::Only,
            record: Vec::new(),
            version: 0,
            page: Page::default(),
            collection: CollectionState::default(),
            verified: false,
            stale: false,
            retries: 0,
            conflicts: 0,
            troubled: None,
            raced: None,
            perhaps_done: false,
        }
    }

    /// Begins the lane's operation.
    pub(super) fn begin(&mut self, workload: &Workload) {
        if let RecordForm::Collection(collection) = workload.config.record {
            self.collection.begin(collection, workload, &mut self.operation);
        }
        self.step = if reads_first(workload, &self.operation) { Awaited::ReadFirst } else { Awaited::Only };
        (self.verified, self.stale, self.retries, self.conflicts) = (false, false, 0, 0);
        (self.troubled, self.raced, self.perhaps_done) = (None, None, false);
        self.page.begin(&self.operation.key);
    }

    /// Whether its operation is a read and a write, each of which is reported.
    pub(super) fn is_compound(&self, workload: &Workload) -> bool {
        self.operation.kind == OpKind::ReadModifyWrite && reads_first(workload, &self.operation)
    }

    /// Whether it has lost a race.
    pub(super) fn has_conflicted(&self) -> bool {
        self.conflicts > 0
    }

    /// The effect of the lane's next request on the store.
    pub(super) fn access(&self, workload: &Workload) -> Access {
        let is_collection = matches!(workload.config.record, RecordForm::Collection(_));
        match (self.step, self.operation.kind) {
            (_, kind) if is_collection && collections::changes(kind) => Access::Write,
            (Awaited::ReadFirst, _) => Access::LeaderRead,
            _ if self.stale => Access::LeaderRead,
            (Awaited::Only, OpKind::Read | OpKind::Scan) => Access::Read,
            // No other lane writes a record before its insert is acknowledged, or deletes what this one deletes.
            (_, OpKind::Insert | OpKind::Delete) => Access::Repeatable,
            _ if workload.config.repeats_updates && !workload.config.compare_and_set => Access::Repeatable,
            _ => Access::Write,
        }
    }

    pub(super) fn on_answer(
        &mut self,
        answer: Answer<'_>,
        at: Instant,
        workload: &Workload,
        checker: &mut Checker,
        manner: Manner,
    ) -> Next {
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::Failed(failure) => {
                self.perhaps_done = true;
                return Next::End(Err(Fault::error(failure.name())));
            }
            Answer::Again(failure) => return self.on_refusal(failure, at, workload, manner),
        };
        if let RecordForm::Collection(collection) = workload.config.record {
            return self.on_collection_answer(&reply, collection, workload, checker, manner);
        }
        let result = match (self.step, self.operation.kind) {
            (Awaited::ReadFirst, _) | (Awaited::Only, OpKind::Read) => self.on_read(&reply, workload, checker),
            (Awaited::Only, OpKind::Scan) => match checker.scan(&reply, workload, &self.operation, &mut self.page) {
                Ok(false) => return Next::Request,
                result => self.checked(result.map(|_| ()), checker, &reply),
            },
            (Awaited::Only, OpKind::Delete) => checker.deleted(&reply),
            // KV.PUT answers null when the version is another.
            (Awaited::WriteAfter, _) if reply == Frame::Null && workload.config.compare_and_set => {
                if self.races_again(at, manner) {
                    return Next::Request;
                }
                Err(Fault::error("conflict"))
            }
            (Awaited::WriteAfter, _) if workload.config.compare_and_set => {
                let written = checker.written(&reply);
                self.compared(written, workload, checker, &reply)
            }
            (_, OpKind::Update | OpKind::ReadModifyWrite) if manner.tells_missing && reply == Frame::Int(0) => {
                Err(Fault::NotFound)
            }
            _ => checker.written(&reply),
        };
        match result {
            Ok(()) if self.step == Awaited::ReadFirst => Next::Write,
            result => self.ended(result, workload, manner),
        }
    }

    fn on_collection_answer(
        &mut self,
        reply: &Frame<'_>,
        collection: Collection,
        workload: &Workload,
        checker: &mut Checker,
        manner: Manner,
    ) -> Next {
        let judged = Judged { verifies: checker.verifies, may_lag: manner.may_lag && !self.stale };
        let state = (&self.operation, &mut self.collection);
        match collections::on_reply(reply, (collection, workload), state, judged) {
            Answered::Half => Next::Write,
            Answered::Whole(result) => {
                let result = self.checked(result, checker, reply);
                self.ended(result, workload, manner)
            }
        }
    }

    /// Counts a lost race; whether the update is made again, from its read on.
    fn races_again(&mut self, at: Instant, manner: Manner) -> bool {
        self.conflicts += 1;
        let since = *self.raced.get_or_insert(at);
        let has_raced_long = |patience: Duration| at.saturating_duration_since(since) >= patience.max(RACES_FOR);
        if manner.hurries || self.conflicts >= CONFLICTS_MAX || manner.patience.is_some_and(has_raced_long) {
            return false;
        }
        self.step = Awaited::ReadFirst;
        true
    }

    /// What a lane does when its operation is answered.
    fn ended(&mut self, result: Result<(), Fault>, workload: &Workload, manner: Manner) -> Next {
        match result {
            // Its insert failed, so the record may be missing; then there is nothing to change either.
            Err(Fault::NotFound) if !workload.must_exist(self.operation.number) => Next::End(Ok(())),
            // An attempt without an answer has removed it.
            Err(Fault::NotFound) if self.operation.kind == OpKind::Delete && self.perhaps_done => Next::End(Ok(())),
            Err(Fault::NotFound) if manner.may_lag && self.access(workload) == Access::Read => {
                self.stale = true;
                self.page.begin(&self.operation.key);
                Next::Request
            }
            result => Next::End(result),
        }
    }

    /// Whether nothing was done, or doing it twice does no harm.
    #[cold]
    fn on_refusal(&mut self, failure: Failure, at: Instant, workload: &Workload, manner: Manner) -> Next {
        let access = self.access(workload);
        let sent = matches!(failure, Failure::Disconnected | Failure::TimedOut | Failure::Protocol);
        self.perhaps_done |= sent && access == Access::Repeatable;
        let since = *self.troubled.get_or_insert(at);
        let is_over = |patience: Duration| at.saturating_duration_since(since) >= patience;
        if manner.hurries || manner.patience.is_some_and(is_over) {
            return Next::End(Err(Fault::error(failure.name())));
        }
        self.retries += 1;
        let elsewhere = !matches!(failure, Failure::Down | Failure::Loading | Failure::Unreachable);
        if elsewhere && self.retries <= IMMEDIATE_MAX {
            return Next::Request;
        }
        Next::Attempt(at + (BACK_OFF * (1 << (self.retries - 1).min(8))).min(BACK_OFF_MAX))
    }

    fn on_read(&mut self, reply: &Frame<'_>, workload: &Workload, checker: &mut Checker) -> Result<(), Fault> {
        let result = match workload.config.record {
            RecordForm::Hash => checker.hash(reply, workload, &self.operation),
            RecordForm::Collection(_) => Ok(()),
            RecordForm::String => {
                let kept = (self.step == Awaited::ReadFirst).then_some(&mut self.record);
                checker.string(reply, workload, &self.operation, kept).map(|version| self.version = version)
            }
        };
        self.checked(result, checker, reply)
    }

    /// Notes that an answer was checked, unless an error took its place.
    fn checked(&mut self, result: Result<(), Fault>, checker: &mut Checker, reply: &Frame<'_>) -> Result<(), Fault> {
        if result == Err(Fault::Wrong) {
            checker.first_wrong.answer(&self.operation, reply);
        }
        self.verified |= checker.verifies && !matches!(result, Err(Fault::Error(_)));
        result
    }

    /// An acknowledged compare-and-set must be the only one that replaced its version.
    fn compared(
        &mut self,
        written: Result<(), Fault>,
        workload: &Workload,
        checker: &mut Checker,
        reply: &Frame<'_>,
    ) -> Result<(), Fault> {
        let is_lost =
            checker.verifies && written.is_ok() && !workload.is_first_update(&self.operation.key, self.version);
        self.checked(if is_lost { Err(Fault::Wrong) } else { written }, checker, reply)
    }

    pub(super) fn outcome(&self, result: Result<(), Fault>) -> OpOutcome {
        let unknown = self.perhaps_done && result.is_err();
        OpOutcome {
            stale: self.stale && result.is_ok(),
            result,
            verified: self.verified,
            retries: self.retries,
            conflicts: self.conflicts,
            unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn races_are_lost_for_a_while_and_not_without_end() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let patient = |patience: u64| Manner { patience: Some(Duration::from_secs(patience)), ..Manner::default() };
        for (patience, goes_on, ends) in [(0, 9, 10), (10, 9, 10), (30, 29, 30)] {
            let mut lane = Lane::new();
            for second in 5..=5 + goes_on {
                lane.step = Awaited::WriteAfter;
                assert!(lane.races_again(at(second), patient(patience)), "{patience}: at {second} s");
                assert_eq!(lane.step, Awaited::ReadFirst);
            }
            assert!(!lane.races_again(at(5 + ends), patient(patience)), "{patience}");
            assert_eq!(u64::from(lane.conflicts), goes_on + 2);
        }
        let mut lane = Lane::new();
        assert!((1..CONFLICTS_MAX).all(|_| lane.races_again(begun, Manner::default())));
        assert!(!lane.races_again(begun, Manner::default()), "without patience their number ends them");
        assert!(!Lane::new().races_again(begun, Manner { hurries: true, ..Manner::default() }));
    }
}

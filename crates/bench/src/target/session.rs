//! Operations on records of a store of the Redis kind, over any transport.
//!
//! | operation | a hash a record | a string a record |
//! |-|-|-|
//! | read | HGETALL, or HMGET of the fields | GET; KV.GET where updates compare versions |
//! | insert | HSET of all fields | SET |
//! | update | HSET | GET, change, SET; KV.GET, change, KV.PUT IFVERSION; SET alone when all fields are written |
//! | read-modify-write | a read, then an update | the same, one read for both |
//! | scan | KV.RANGE | KV.RANGE |
//! | delete | DEL | DEL |

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Access, Answer, Failure, Frame};

use super::outcome::{Completion, Fault, Outcome, Part};
use super::replies::{Checker, Page};
use super::requests;
use super::transport::Transport;
use crate::workload::{Fields, OpKind, Operation, RecordForm, Workload};

/// An update that loses so many races in a row is an error.
const CONFLICTS_MAX: u32 = 10_000;
/// Between two attempts that were refused; it doubles with every refusal…
const BACK_OFF: Duration = Duration::from_millis(5);
/// …up to this.
const BACK_OFF_MAX: Duration = Duration::from_millis(100);
/// So many attempts follow each other without a pause when another node may do at once what this one could not.
const IMMEDIATE_MAX: u32 = 3;

/// One thread's way to a target: lanes, each with one operation at a time.
pub trait Session {
    /// The operation of a lane that is not under way, to be filled in.
    fn operation(&mut self, lane: u32) -> &mut Operation;

    /// Starts the lane's operation. It leaves with the next [`Session::wait`].
    fn start(&mut self, lane: u32);

    /// Waits until operations end or `until` is reached, and adds those that ended to `done`. It may return early.
    ///
    /// # Errors
    /// The target is no longer there, or the system fails.
    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> io::Result<()>;

    /// Somebody wants the run to end: what was refused is attempted once more at the most.
    fn hurry(&mut self);
}

/// What a lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The operation's only request.
    Only,
    /// The read before a write.
    ReadFirst,
    /// The write after it.
    WriteAfter,
}

/// How a session goes about its work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Whether values are compared.
    pub(super) verifies: bool,
    /// An operation is attempted again for so long; none = for as long as it takes.
    pub(super) patience: Option<Duration>,
    /// Any replica answers reads, and may be behind: one that lacks a record is not believed before the leader was asked.
    pub(super) may_lag: bool,
    /// Scans go in an order of the store's own, from the record asked for on.
    pub(super) scans_unordered: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self { verifies: true, patience: None, may_lag: false, scans_unordered: false }
    }
}

pub(super) struct Lane {
    pub(super) operation: Operation,
    pub(super) step: Step,
    /// The packed record that was read and is to be changed.
    pub(super) record: Vec<u8>,
    pub(super) version: u64,
    pub(super) page: Page,
    verified: bool,
    /// A replica did not have the record: the leader is asked.
    pub(super) stale: bool,
    retries: u32,
    conflicts: u32,
    /// When the first attempt failed.
    troubled: Option<Instant>,
    /// An attempt at its write may have been done without an answer.
    perhaps_done: bool,
}

/// A session whose records are hashes or strings.
pub(super) struct RecordSession<T> {
    transport: T,
    workload: Arc<Workload>,
    lanes: Vec<Lane>,
    checker: Checker,
    manner: Manner,
    /// Lanes whose next request is to be sent.
    again: Vec<u32>,
    /// Lanes whose next attempt waits until then.
    waiting: Vec<(Instant, u32)>,
    scratch: Vec<u8>,
}

/// How a lane goes on after an answer.
enum Next {
    /// With another request.
    Request,
    /// With the same request, at that time.
    Attempt(Instant),
    /// With the write, now that the read has ended well.
    Write,
    /// Not at all: it has ended.
    End(Result<(), Fault>),
}

impl<T: Transport> RecordSession<T> {
    pub(super) fn new(transport: T, workload: Arc<Workload>, lanes: usize, manner: Manner) -> Self {
        let lane = || Lane {
            operation: Operation::default(),
            step: Step::Only,
            record: Vec::new(),
            version: 0,
            page: Page::default(),
            verified: false,
            stale: false,
            retries: 0,
            conflicts: 0,
            troubled: None,
            perhaps_done: false,
        };
        Self {
            transport,
            workload,
            lanes: (0..lanes).map(|_| lane()).collect(),
            checker: Checker::new(manner.verifies, !manner.scans_unordered),
            manner,
            again: Vec::new(),
            waiting: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Sends the request of the lane's step.
    fn send(&mut self, lane: u32) {
        let Self { transport, workload, lanes, scratch, .. } = self;
        requests::send(transport, lane, workload, &lanes[lane as usize], scratch);
    }
}

/// Whether an operation reads before it writes.
fn reads_first(workload: &Workload, operation: &Operation) -> bool {
    let config = &workload.config;
    match operation.kind {
        OpKind::ReadModifyWrite => true,
        OpKind::Update if config.record == RecordForm::String => {
            config.compare_and_set || operation.write != Fields::All
        }
        _ => false,
    }
}

impl Lane {
    fn on_answer(
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
        let result = match (self.step, self.operation.kind) {
            (Step::ReadFirst, _) | (Step::Only, OpKind::Read) => self.on_read(&reply, workload, checker),
            (Step::Only, OpKind::Scan) => match checker.scan(&reply, workload, &self.operation, &mut self.page) {
                Ok(false) => return Next::Request,
                result => self.checked(result.map(|_| ()), checker),
            },
            (Step::Only, OpKind::Delete) => checker.deleted(&reply),
            // KV.PUT answers null when the version is another.
            (Step::WriteAfter, _) if reply == Frame::Null && workload.config.compare_and_set => {
                self.conflicts += 1;
                if self.conflicts < CONFLICTS_MAX {
                    self.step = Step::ReadFirst;
                    return Next::Request;
                }
                Err(Fault::error("conflict"))
            }
            (Step::WriteAfter, _) if workload.config.compare_and_set => {
                let written = checker.written(&reply);
                self.compared(written, workload, checker)
            }
            _ => checker.written(&reply),
        };
        match result {
            Ok(()) if self.step == Step::ReadFirst => Next::Write,
            // Its insert failed, so it need not be there; then there is nothing to change either.
            Err(Fault::NotFound) if !workload.must_exist(self.operation.number) => Next::End(Ok(())),
            // An attempt without an answer has removed it.
            Err(Fault::NotFound) if self.operation.kind == OpKind::Delete && self.perhaps_done => Next::End(Ok(())),
            Err(Fault::NotFound) if manner.may_lag && requests::access(workload, self) == Access::Read => {
                self.stale = true;
                self.page.begin(&self.operation.key);
                Next::Request
            }
            result => Next::End(result),
        }
    }

    /// Nothing was done, or it does no harm twice.
    #[cold]
    fn on_refusal(&mut self, failure: Failure, at: Instant, workload: &Workload, manner: Manner) -> Next {
        let access = requests::access(workload, self);
        let sent = matches!(failure, Failure::Disconnected | Failure::TimedOut | Failure::Protocol);
        self.perhaps_done |= sent && access == Access::Repeatable;
        let since = *self.troubled.get_or_insert(at);
        if manner.patience.is_some_and(|patience| at.saturating_duration_since(since) >= patience) {
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
            RecordForm::String => {
                let kept = (self.step == Step::ReadFirst).then_some(&mut self.record);
                checker.string(reply, workload, &self.operation, kept).map(|version| self.version = version)
            }
        };
        self.checked(result, checker)
    }

    /// Notes that an answer was checked, unless an error took its place.
    fn checked(&mut self, result: Result<(), Fault>, checker: &Checker) -> Result<(), Fault> {
        self.verified |= checker.verifies && !matches!(result, Err(Fault::Error(_)));
        result
    }

    /// An acknowledged compare-and-set must be the only one that replaced its version.
    fn compared(&mut self, written: Result<(), Fault>, workload: &Workload, checker: &Checker) -> Result<(), Fault> {
        let is_lost =
            checker.verifies && written.is_ok() && !workload.is_first_update(&self.operation.key, self.version);
        self.checked(if is_lost { Err(Fault::Wrong) } else { written }, checker)
    }

    fn outcome(&self, result: Result<(), Fault>) -> Outcome {
        let unknown = self.perhaps_done && result.is_err();
        Outcome {
            stale: self.stale && result.is_ok(),
            result,
            verified: self.verified,
            retries: self.retries,
            conflicts: self.conflicts,
            unknown,
        }
    }
}

impl<T: Transport> Session for RecordSession<T> {
    fn operation(&mut self, lane: u32) -> &mut Operation {
        &mut self.lanes[lane as usize].operation
    }

    fn start(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        state.step = if reads_first(&self.workload, &state.operation) { Step::ReadFirst } else { Step::Only };
        (state.verified, state.stale, state.retries, state.conflicts) = (false, false, 0, 0);
        (state.troubled, state.perhaps_done) = (None, false);
        state.page.begin(&state.operation.key);
        self.send(lane);
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> io::Result<()> {
        let soonest = self.waiting.iter().map(|&(at, _)| at).min();
        let until = match (until, soonest) {
            (Some(until), Some(soonest)) => Some(until.min(soonest)),
            (until, soonest) => until.or(soonest),
        };
        let Self { transport, workload, lanes, checker, again, waiting, manner, .. } = self;
        transport.wait(until, &mut |lane, answer, at| {
            let state = &mut lanes[lane as usize];
            let compound = state.operation.kind == OpKind::ReadModifyWrite;
            match state.on_answer(answer, at, workload, checker, *manner) {
                Next::Request => again.push(lane),
                Next::Attempt(at) => waiting.push((at, lane)),
                Next::Write => {
                    // A second read after a lost race is not another READ.
                    if compound && state.conflicts == 0 {
                        done.push(Completion { lane, at, part: Part::Read, outcome: state.outcome(Ok(())) });
                    }
                    state.step = Step::WriteAfter;
                    again.push(lane);
                }
                Next::End(result) => {
                    if compound {
                        let part = if state.step == Step::ReadFirst { Part::Read } else { Part::Write };
                        done.push(Completion { lane, at, part, outcome: state.outcome(result.clone()) });
                    }
                    done.push(Completion { lane, at, part: Part::Whole, outcome: state.outcome(result) });
                }
            }
        })?;
        if !self.waiting.is_empty() {
            let now = Instant::now();
            let Self { waiting, again, .. } = self;
            again.extend(waiting.extract_if(.., |(at, _)| *at <= now).map(|(_, lane)| lane));
        }
        while let Some(lane) = self.again.pop() {
            self.send(lane);
        }
        Ok(())
    }

    fn hurry(&mut self) {
        self.manner.patience = Some(Duration::ZERO);
        self.again.extend(self.waiting.drain(..).map(|(_, lane)| lane));
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

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
use std::time::Instant;

use super::lane::{Awaited, Lane, Manner, Next};
use super::outcome::{Completion, OpStage};
use super::replies::Checker;
use super::requests;
use super::transport::Transport;
use crate::workload::{Operation, Workload};

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

    /// The run is to end: what was refused, or has lost a race, is attempted once more at the most.
    fn hurry(&mut self);

    /// The first answer that was wrong, in words; none where all were right.
    fn first_wrong(&mut self) -> Option<String>;
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

impl<T: Transport> RecordSession<T> {
    pub(super) fn new(transport: T, workload: Arc<Workload>, lanes: usize, manner: Manner) -> Self {
        Self {
            transport,
            workload,
            lanes: (0..lanes).map(|_| Lane::new()).collect(),
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

impl<T: Transport> Session for RecordSession<T> {
    fn operation(&mut self, lane: u32) -> &mut Operation {
        &mut self.lanes[lane as usize].operation
    }

    fn start(&mut self, lane: u32) {
        self.lanes[lane as usize].begin(&self.workload);
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
            let compound = state.is_compound(workload);
            match state.on_answer(answer, at, workload, checker, *manner) {
                Next::Request => again.push(lane),
                Next::Attempt(at) => waiting.push((at, lane)),
                Next::Write => {
                    // A second read after a lost race is not another READ.
                    if compound && !state.has_conflicted() {
                        done.push(Completion { lane, at, part: OpStage::Read, outcome: state.outcome(Ok(())) });
                    }
                    state.step = Awaited::WriteAfter;
                    again.push(lane);
                }
                Next::End(result) => {
                    if compound {
                        let part = if state.step == Awaited::ReadFirst { OpStage::Read } else { OpStage::Write };
                        done.push(Completion { lane, at, part, outcome: state.outcome(result.clone()) });
                    }
                    let part = OpStage::Whole { has_parts: compound };
                    done.push(Completion { lane, at, part, outcome: state.outcome(result) });
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
        self.manner.hurries = true;
        self.again.extend(self.waiting.drain(..).map(|(_, lane)| lane));
    }

    fn first_wrong(&mut self) -> Option<String> {
        self.checker.first_wrong.take()
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

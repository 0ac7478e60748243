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

use client::{Answer, Frame};

use super::outcome::{Completion, Fault, Outcome, Part};
use super::packed::{self, Unpacked};
use super::replies::{Checker, Page, reads_by_name};
use super::transport::{ArgumentSink, Transport};
use crate::workload::{Fields, OpKind, Operation, RecordForm, Workload, key_hash};

/// An update that loses so many races in a row is an error.
const CONFLICTS_MAX: u32 = 10_000;
/// A request that so many nodes in a row refuse is an error.
const MOVES_MAX: u32 = 100_000;

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
}

/// What a lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The operation's only request.
    Only,
    /// The read before a write.
    ReadFirst,
    /// The write after it.
    WriteAfter,
}

struct Lane {
    operation: Operation,
    step: Step,
    /// The packed record that was read and is to be changed.
    record: Vec<u8>,
    version: u64,
    page: Page,
    verified: bool,
    retries: u32,
    conflicts: u32,
}

/// A session whose records are hashes or strings.
pub(super) struct RecordSession<T> {
    transport: T,
    workload: Arc<Workload>,
    lanes: Vec<Lane>,
    checker: Checker,
    /// Lanes whose next request is to be sent.
    again: Vec<u32>,
    scratch: Vec<u8>,
}

/// How a lane goes on after an answer.
enum Next {
    /// With another request.
    Request,
    /// With the write, now that the read has ended well.
    Write,
    /// Not at all: it has ended.
    End(Result<(), Fault>),
}

impl<T: Transport> RecordSession<T> {
    pub(super) fn new(transport: T, workload: Arc<Workload>, lanes: usize, verifies: bool) -> Self {
        let lane = || Lane {
            operation: Operation::default(),
            step: Step::Only,
            record: Vec::new(),
            version: 0,
            page: Page::default(),
            verified: false,
            retries: 0,
            conflicts: 0,
        };
        Self {
            transport,
            workload,
            lanes: (0..lanes).map(|_| lane()).collect(),
            checker: Checker::new(verifies),
            again: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Sends the request of the lane's step.
    fn send(&mut self, lane: u32) {
        let Self { transport, workload, lanes, scratch, .. } = self;
        let state = &lanes[lane as usize];
        let operation = &state.operation;
        let config = &workload.config;
        let key = operation.key.as_slice();
        match (state.step, operation.kind) {
            (Step::ReadFirst, _) | (Step::Only, OpKind::Read) => match config.record {
                RecordForm::Hash => ask_hash(transport, lane, workload, operation),
                RecordForm::String => {
                    let mut request = transport.request(lane, key, 2);
                    request.arg(if config.compare_and_set { b"KV.GET" } else { b"GET" });
                    request.arg(key);
                }
            },
            (Step::Only, OpKind::Scan) => {
                let mut request = transport.request(lane, key, 6);
                request.arg(b"KV.RANGE");
                request.arg(&state.page.bound);
                request.arg(b"+");
                request.arg(b"LIMIT");
                request.number(operation.scan_length - state.page.rows);
                request.arg(b"VALUES");
            }
            (Step::Only, OpKind::Delete) => {
                let mut request = transport.request(lane, key, 2);
                request.arg(b"DEL");
                request.arg(key);
            }
            (Step::Only | Step::WriteAfter, OpKind::Insert | OpKind::Update | OpKind::ReadModifyWrite) => {
                match config.record {
                    RecordForm::Hash => put_hash(transport, lane, workload, operation, scratch),
                    RecordForm::String => put_string(transport, lane, workload, state, scratch),
                }
            }
            (Step::WriteAfter, OpKind::Read | OpKind::Scan | OpKind::Delete) => {
                unreachable!("only an update has a write after its read")
            }
        }
        transport.finish();
    }
}

fn ask_hash<T: Transport>(transport: &mut T, lane: u32, workload: &Workload, operation: &Operation) {
    let key = operation.key.as_slice();
    let names = workload.field_names();
    let asked = match operation.read {
        Fields::All if !reads_by_name(workload) => {
            let mut request = transport.request(lane, key, 2);
            request.arg(b"HGETALL");
            return request.arg(key);
        }
        Fields::All => names,
        Fields::One(field) => &names[field as usize..=field as usize],
    };
    let mut request = transport.request(lane, key, 2 + asked.len());
    request.arg(b"HMGET");
    request.arg(key);
    for name in asked {
        request.arg(name);
    }
}

fn put_hash<T: Transport>(
    transport: &mut T,
    lane: u32,
    workload: &Workload,
    operation: &Operation,
    value: &mut Vec<u8>,
) {
    let hash = key_hash(&operation.key);
    let fields = match operation.write {
        Fields::All => 0..workload.config.field_count,
        Fields::One(field) => field..field + 1,
    };
    let mut request = transport.request(lane, &operation.key, 2 + 2 * fields.len());
    request.arg(b"HSET");
    request.arg(&operation.key);
    for field in fields {
        value.clear();
        workload.write_value(operation, hash, field, value);
        request.arg(&workload.field_names()[field as usize]);
        request.arg(value);
    }
}

fn put_string<T: Transport>(transport: &mut T, lane: u32, workload: &Workload, state: &Lane, packed: &mut Vec<u8>) {
    let operation = &state.operation;
    pack(workload, operation, &state.record, packed);
    let compares = workload.config.compare_and_set && state.step == Step::WriteAfter;
    let mut request = transport.request(lane, &operation.key, if compares { 5 } else { 3 });
    request.arg(if compares { b"KV.PUT" } else { b"SET" });
    request.arg(&operation.key);
    request.arg(packed);
    if compares {
        request.arg(b"IFVERSION");
        request.number(state.version);
    }
}

/// The packed record that `operation` writes: `old` with the changed fields.
fn pack(workload: &Workload, operation: &Operation, old: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let hash = key_hash(&operation.key);
    let fresh = |field: u32, out: &mut Vec<u8>| {
        let name = &workload.field_names()[field as usize];
        packed::push(name, 0, |out| workload.write_value(operation, hash, field, out), out);
    };
    match operation.write {
        Fields::All => (0..workload.config.field_count).for_each(|field| fresh(field, out)),
        Fields::One(changed) => {
            // What was read has been checked, so every field unpacks.
            for (index, (name, value)) in Unpacked::new(old).flatten().enumerate() {
                if workload.field_named(name, index as u32) == Some(changed) {
                    fresh(changed, out);
                } else {
                    packed::push(name, value.len(), |out| out.extend_from_slice(value), out);
                }
            }
        }
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
    fn on_answer(&mut self, answer: Answer<'_>, workload: &Workload, checker: &mut Checker) -> Next {
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::Failed(failure) => return Next::End(Err(Fault::error(failure.name()))),
            Answer::Moved if self.retries < MOVES_MAX => {
                self.retries += 1;
                return Next::Request;
            }
            Answer::Moved => return Next::End(Err(Fault::error("MOVED"))),
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
            _ => checker.written(&reply),
        };
        match result {
            Ok(()) if self.step == Step::ReadFirst => Next::Write,
            // Its insert failed, so it need not be there; then there is nothing to change either.
            Err(Fault::NotFound) if !workload.must_exist(self.operation.number) => Next::End(Ok(())),
            result => Next::End(result),
        }
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

    fn outcome(&self, result: Result<(), Fault>) -> Outcome {
        Outcome { result, verified: self.verified, retries: self.retries, conflicts: self.conflicts }
    }
}

impl<T: Transport> Session for RecordSession<T> {
    fn operation(&mut self, lane: u32) -> &mut Operation {
        &mut self.lanes[lane as usize].operation
    }

    fn start(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        state.step = if reads_first(&self.workload, &state.operation) { Step::ReadFirst } else { Step::Only };
        (state.verified, state.retries, state.conflicts) = (false, 0, 0);
        state.page.begin(&state.operation.key);
        self.send(lane);
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> io::Result<()> {
        let Self { transport, workload, lanes, checker, again, .. } = self;
        transport.wait(until, &mut |lane, answer, at| {
            let state = &mut lanes[lane as usize];
            let compound = state.operation.kind == OpKind::ReadModifyWrite;
            match state.on_answer(answer, workload, checker) {
                Next::Request => again.push(lane),
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
        while let Some(lane) = self.again.pop() {
            self.send(lane);
        }
        Ok(())
    }
}

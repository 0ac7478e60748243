//! The store that takes the keys: many requests under way, of which those on one slot keep their order.

use super::outcome::{Outcome, shown};
use client::{Access, Answer, Ask, Frame, Pool, PoolOptions, ReadFrom, StoreUrl};
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};
use vocab::{Slot, slot_of};

/// Requests that are under way.
const WINDOW: usize = 512;
/// Requests that wait, and how many of them are looked through for one that may go.
const WAITING_MAX: usize = 1024;
/// Bytes of arguments of those that wait or are under way.
const HELD_BYTES_MAX: usize = 256 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);
/// Times that a request is made before it counts as a problem.
const TRIES_MAX: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It writes a whole key, and may be made twice.
    Key,
    /// A command of the source. If it is not known whether it was done, its key is read from the source again.
    Command,
}

struct Write {
    kind: Kind,
    slot: Slot,
    args: Vec<Vec<u8>>,
    /// Which of the arguments is its key.
    key: usize,
    tries: u32,
    /// Not before this time.
    after: Option<Instant>,
}

impl Write {
    fn bytes(&self) -> usize {
        self.args.iter().map(Vec::len).sum()
    }
}

/// A store that is written to.
pub(super) struct Target {
    pool: Pool,
    under_way: Vec<Option<Write>>,
    free: Vec<u32>,
    waiting: VecDeque<Write>,
    held_bytes: usize,
    /// Slots of commands under way.
    busy: HashSet<u16>,
    /// Keys of commands that may have been done, or not.
    doubtful: Vec<Vec<u8>>,
}

impl Target {
    pub(super) fn open(node: &StoreUrl) -> Result<Self, String> {
        let options =
            PoolOptions { connections: 1, timeout: TIMEOUT, read_from: ReadFrom::Leader, greetings: Vec::new() };
        Ok(Self {
            pool: Pool::open(node, options).map_err(|e| format!("the store: {e}"))?,
            under_way: (0..WINDOW).map(|_| None).collect(),
            free: (0..WINDOW as u32).collect(),
            waiting: VecDeque::new(),
            held_bytes: 0,
            busy: HashSet::new(),
            doubtful: Vec::new(),
        })
    }

    /// Makes a request, now or soon. Waits while too many are under way.
    pub(super) fn write(
        &mut self,
        kind: Kind,
        key: usize,
        args: Vec<Vec<u8>>,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let write = Write { kind, slot: slot_of(&args[key]), args, key, tries: 0, after: None };
        self.held_bytes += write.bytes();
        self.waiting.push_back(write);
        self.send();
        while self.waiting.len() > WAITING_MAX || (self.held_bytes > HELD_BYTES_MAX && self.is_busy()) {
            self.turn(outcome)?;
        }
        Ok(())
    }

    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.free.len() < WINDOW
    }

    /// Waits until every request is answered.
    pub(super) fn drain(&mut self, outcome: &mut Outcome) -> Result<(), String> {
        while self.is_busy() {
            self.turn(outcome)?;
        }
        Ok(())
    }

    /// The keys of commands that may have been done, or not.
    pub(super) fn take_doubtful(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.doubtful)
    }

    /// Sends what may go: of a slot, one command at a time, in their order.
    fn send(&mut self) {
        let now = Instant::now();
        let mut held: HashSet<u16> = HashSet::new();
        let mut at = 0;
        while at < self.waiting.len().min(WAITING_MAX) {
            let Some(&token) = self.free.last() else { return };
            let write = &self.waiting[at];
            let (slot, kind) = (write.slot.0, write.kind);
            let is_blocked = kind == Kind::Command && (self.busy.contains(&slot) || held.contains(&slot));
            if is_blocked || write.after.is_some_and(|after| after > now) {
                held.insert(slot);
                at += 1;
                continue;
            }
            let Some(write) = self.waiting.remove(at) else { return };
            self.free.pop();
            if kind == Kind::Command {
                self.busy.insert(slot);
            }
            let access = if kind == Kind::Key { Access::Repeatable } else { Access::Write };
            let key = Some(write.args[write.key].as_slice());
            let mut request = self.pool.request(Ask { client: 0, token, key, access, arguments: write.args.len() });
            write.args.iter().for_each(|arg| _ = request.arg(arg));
            drop(request);
            self.under_way[token as usize] = Some(write);
        }
    }

    /// Sends, and takes in what was answered.
    fn turn(&mut self, outcome: &mut Outcome) -> Result<(), String> {
        self.send();
        let mut again = Vec::new();
        let Self { pool, under_way, free, held_bytes, busy, doubtful, .. } = self;
        let mut each = |token: u32, answer: Answer<'_>, _: Instant| {
            let Some(mut write) = under_way[token as usize].take() else { return };
            free.push(token);
            if write.kind == Kind::Command {
                busy.remove(&write.slot.0);
            }
            let bytes = write.bytes();
            let why = match &answer {
                Answer::Reply(Frame::Error(text)) => String::from_utf8_lossy(text).into_owned(),
                Answer::Reply(frame) => {
                    *held_bytes -= bytes;
                    return note_done(&write, frame, outcome);
                }
                Answer::Failed(_) if write.kind == Kind::Command => {
                    *held_bytes -= bytes;
                    return doubtful.push(write.args.swap_remove(write.key));
                }
                Answer::Again(failure) | Answer::Failed(failure) => failure.name().to_owned(),
            };
            let passes = !matches!(answer, Answer::Reply(_))
                || ["BUSY ", "TIMEOUT", "NOREPLICAS", "ERR disk full", "LOADING", "CLUSTERDOWN", "TRYAGAIN"]
                    .iter()
                    .any(|word| why.starts_with(word));
            if passes && write.tries < TRIES_MAX {
                write.tries += 1;
                write.after = Some(Instant::now() + PAUSE);
                return again.push(write);
            }
            *held_bytes -= bytes;
            note_refused(&write, &why, outcome);
        };
        pool.wait(Some(Instant::now() + PAUSE), &mut each).map_err(|e| format!("the store: {e}"))?;
        for write in again {
            // It is older than all that waits.
            self.waiting.push_front(write);
        }
        Ok(())
    }
}

fn note_done(write: &Write, reply: &Frame<'_>, outcome: &mut Outcome) {
    match write.kind {
        Kind::Command => outcome.commands += 1,
        // SET … NX of a key that is there.
        Kind::Key if matches!(reply, Frame::Null) => outcome.present += 1,
        Kind::Key => outcome.written += 1,
    }
}

fn note_refused(write: &Write, why: &str, outcome: &mut Outcome) {
    if write.kind == Kind::Key && why.starts_with("BUSYKEY") {
        outcome.present += 1;
    } else {
        let (name, key) = (write.args[0].escape_ascii(), shown(&write.args[write.key]));
        outcome.problem(format!("{name} of {key}: {why}"));
    }
}

//! Many writes on their way into a store: imports and restores make them. Those on one slot keep their order where they need one.
//!
//! A write that was refused because a node is busy, or has no leader, is made again for a while.

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
/// Times that a request is made before it counts as refused.
const TRIES_MAX: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// With these words an error of the store passes.
const PASSES: [&str; 7] = ["BUSY ", "TIMEOUT", "NOREPLICAS", "ERR disk full", "LOADING", "CLUSTERDOWN", "TRYAGAIN"];

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It may be made twice, and before or behind any other that is under way.
    Free,
    /// It may be made once only, behind those on its slot that were given before. If it is not known whether it was made, its key
    /// is in doubt.
    Once,
    /// It may be made twice, behind those on its slot that were given before.
    InOrder,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) kind: Kind,
    pub(crate) args: Vec<Vec<u8>>,
    /// Which of the arguments is its key.
    pub(crate) key: usize,
}

impl Write {
    fn bytes(&self) -> usize {
        self.args.iter().map(Vec::len).sum()
    }

    fn slot(&self) -> Slot {
        slot_of(&self.args[self.key])
    }
}

/// A request that is not answered.
struct Pending {
    write: Write,
    tries: u32,
    /// Not before this time.
    after: Option<Instant>,
}

/// Who is told what becomes of requests.
pub(crate) trait Listener {
    /// It was made.
    fn done(&mut self, write: &Write, reply: &Frame<'_>);
    /// It was not, and will not be.
    fn refused(&mut self, write: &Write, why: &str);
}

/// A store that is written to.
pub(crate) struct StoreWriter {
    pool: Pool,
    under_way: Vec<Option<Pending>>,
    free: Vec<u32>,
    waiting: VecDeque<Pending>,
    held_bytes: usize,
    /// Slots of requests under way that keep an order.
    busy: HashSet<u16>,
    /// Keys of requests that may have been made, or not.
    doubtful: Vec<Vec<u8>>,
}

impl StoreWriter {
    pub(crate) fn open(node: &StoreUrl) -> Result<Self, String> {
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
    pub(crate) fn write(&mut self, write: Write, listener: &mut dyn Listener) -> Result<(), String> {
        self.held_bytes += write.bytes();
        self.waiting.push_back(Pending { write, tries: 0, after: None });
        self.send();
        while self.waiting.len() > WAITING_MAX || (self.held_bytes > HELD_BYTES_MAX && self.is_busy()) {
            self.turn(listener)?;
        }
        Ok(())
    }

    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.free.len() < WINDOW
    }

    /// Waits until every request is answered.
    pub(crate) fn drain(&mut self, listener: &mut dyn Listener) -> Result<(), String> {
        while self.is_busy() {
            self.turn(listener)?;
        }
        Ok(())
    }

    /// The keys of requests that may have been made, or not.
    pub(crate) fn take_doubtful(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.doubtful)
    }

    /// Sends what may go: of those on a slot that keep an order, one at a time.
    fn send(&mut self) {
        let now = Instant::now();
        let mut held: HashSet<u16> = HashSet::new();
        let mut at = 0;
        while at < self.waiting.len().min(WAITING_MAX) {
            let Some(&token) = self.free.last() else { return };
            let pending = &self.waiting[at];
            let (slot, kind) = (pending.write.slot().0, pending.write.kind);
            let is_blocked = kind != Kind::Free && (self.busy.contains(&slot) || held.contains(&slot));
            if is_blocked || pending.after.is_some_and(|after| after > now) {
                held.insert(slot);
                at += 1;
                continue;
            }
            let Some(pending) = self.waiting.remove(at) else { return };
            self.free.pop();
            if kind != Kind::Free {
                self.busy.insert(slot);
            }
            let Write { args, key, .. } = &pending.write;
            let access = if kind == Kind::Once { Access::Write } else { Access::Repeatable };
            let key = Some(args[*key].as_slice());
            let mut request = self.pool.request(Ask { client: 0, token, key, access, arguments: args.len() });
            args.iter().for_each(|arg| _ = request.arg(arg));
            drop(request);
            self.under_way[token as usize] = Some(pending);
        }
    }

    /// Sends, and takes in what was answered.
    fn turn(&mut self, listener: &mut dyn Listener) -> Result<(), String> {
        self.send();
        let mut again = Vec::new();
        let Self { pool, under_way, free, held_bytes, busy, doubtful, .. } = self;
        let mut each = |token: u32, answer: Answer<'_>, _: Instant| {
            let Some(mut pending) = under_way[token as usize].take() else { return };
            free.push(token);
            let Pending { write, tries, .. } = &mut pending;
            if write.kind != Kind::Free {
                busy.remove(&write.slot().0);
            }
            let bytes = write.bytes();
            let why = match &answer {
                Answer::Reply(Frame::Error(text)) => String::from_utf8_lossy(text).into_owned(),
                Answer::Reply(frame) => {
                    *held_bytes -= bytes;
                    return listener.done(write, frame);
                }
                Answer::Failed(_) if write.kind == Kind::Once => {
                    *held_bytes -= bytes;
                    return doubtful.push(write.args.swap_remove(write.key));
                }
                Answer::Again(failure) | Answer::Failed(failure) => failure.name().to_owned(),
            };
            let passes = !matches!(answer, Answer::Reply(_)) || PASSES.iter().any(|word| why.starts_with(word));
            if passes && *tries < TRIES_MAX {
                *tries += 1;
                pending.after = Some(Instant::now() + PAUSE);
                return again.push(pending);
            }
            *held_bytes -= bytes;
            listener.refused(write, &why);
        };
        pool.wait(Some(Instant::now() + PAUSE), &mut each).map_err(|e| format!("the store: {e}"))?;
        for pending in again {
            // It is older than all that waits.
            self.waiting.push_front(pending);
        }
        Ok(())
    }
}

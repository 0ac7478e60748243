//! The queue between a worker and its send thread.
//!
//! The worker hands answers over in rounds. The thread sends them in that order; what a stream does not take is given
//! back, with all that was to follow it.
//!
//! Invariants: `over` ≤ `round`. What a round gives back is in `unsent` before `over` reaches the round's number. From the
//! hand-over of a connection's bytes to the end of their round, the thread alone sends to it.

use super::registry::ClientId;
use super::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// With more bytes queued, the worker waits for the thread. That is short: the thread waits for no client.
pub(super) const QUEUED_BYTES_MAX: usize = 1 << 20;
/// About what an answer takes beyond its bytes.
const PARCEL_BYTES: usize = 64;

/// Bytes of one or more answers to one client; most are short.
type Bytes = SmallVec<[u8; 40]>;

/// What the thread is to do next; `S` is a stream.
enum Parcel<S> {
    /// The connection of this place has this stream.
    Open(usize, S),
    Answers(ClientId, Bytes),
    /// The connection of this place is closed.
    Close(usize),
}

impl<S> Parcel<S> {
    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        let Self::Answers(_, bytes) = self else { return PARCEL_BYTES };
        bytes.len() + PARCEL_BYTES
    }
}

/// What could not be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unsent {
    pub(super) to: ClientId,
    pub(super) bytes: Vec<u8>,
    /// The stream is broken.
    pub(super) broken: bool,
}

/// What a stream took of some bytes.
pub(super) struct Taken {
    pub(super) bytes: usize,
    /// The stream takes no more, ever.
    pub(super) broken: bool,
}

/// The queue between a worker and its send thread; `S` is a stream.
pub(super) struct SendQueue<S> {
    state: Mutex<QueueState<S>>,
    changed: Condvar,
    /// The newest round that the thread has finished.
    over: AtomicU64,
    /// `unsent` is not empty.
    has_unsent: AtomicBool,
}

struct QueueState<S> {
    queue: VecDeque<Parcel<S>>,
    /// About how much memory `queue` takes.
    bytes: usize,
    /// The number of the newest round that is not empty.
    round: u64,
    unsent: Vec<Unsent>,
    /// The thread waits for work.
    sleeps: bool,
    /// The worker waits, for room or for the end of a round.
    is_awaited: bool,
    stopped: bool,
}

/// One round of handing answers over; the thread begins with them when it is dropped.
pub(super) struct Round<'a, S> {
    shared: &'a SendQueue<S>,
    state: MutexGuard<'a, QueueState<S>>,
    over: u64,
    /// It has a number of its own.
    has_begun: bool,
}

/// What the thread has taken, and what came of it.
struct Work<S> {
    parcels: VecDeque<Parcel<S>>,
    /// What could not be sent, by the place of its connection.
    unsent: BTreeMap<usize, Unsent>,
    /// The newest round that is in `parcels` or was.
    round: u64,
}

impl<S> SendQueue<S> {
    pub(super) fn new() -> Self {
        let state = QueueState {
            queue: VecDeque::new(),
            bytes: 0,
            round: 0,
            unsent: Vec::new(),
            sleeps: false,
            is_awaited: false,
            stopped: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            over: AtomicU64::new(0),
            has_unsent: AtomicBool::new(false),
        }
    }

    /// Whether everything that was handed over up to a round is sent, and nothing is to be taken back.
    pub(super) fn has_sent(&self, round: u64) -> bool {
        // In this order: what a round gives back is there before the round is over.
        let is_over = self.over.load(Ordering::Acquire) >= round;
        is_over && !self.has_unsent.load(Ordering::Acquire)
    }

    /// Begins a round. Waits if more than `QUEUED_BYTES_MAX` is queued.
    pub(super) fn round(&self) -> Round<'_, S> {
        let mut state = self.state.lock();
        while state.bytes > QUEUED_BYTES_MAX {
            state.is_awaited = true;
            self.changed.wait(&mut state);
        }
        // Under the lock: what is over has given back what it could not send.
        let over = self.over.load(Ordering::Acquire);
        Round { shared: self, state, over, has_begun: false }
    }

    /// Waits until everything that was handed over up to a round is sent or given back.
    pub(super) fn wait_for(&self, round: u64) {
        let mut state = self.state.lock();
        while self.over.load(Ordering::Acquire) < round {
            state.is_awaited = true;
            self.changed.wait(&mut state);
        }
    }

    /// A connection is closed: the thread drops its stream once it has sent what was handed over.
    pub(super) fn close(&self, id: usize) {
        self.round().add(Parcel::Close(id));
    }

    /// The thread is to end, once all is sent that can be.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    /// The thread's part: sends what is handed over until it is to end. `send` must not wait. The worker is told by `tell`
    /// that something was given back.
    pub(super) fn run(&self, send: impl Fn(&S, &[u8]) -> Taken, tell: impl Fn()) {
        let mut work = Work { parcels: VecDeque::new(), unsent: BTreeMap::new(), round: 0 };
        let mut streams: Vec<Option<S>> = Vec::new();
        while self.next(&mut work, &tell) {
            let Work { parcels, unsent, .. } = &mut work;
            for parcel in parcels.drain(..) {
                match parcel {
                    Parcel::Open(id, stream) => {
                        streams.resize_with(streams.len().max(id + 1), || None);
                        streams[id] = Some(stream);
                    }
                    Parcel::Answers(to, bytes) => match streams.get(to.id).and_then(Option::as_ref) {
                        Some(stream) => deliver(to, &bytes, unsent, |bytes| send(stream, bytes)),
                        None => unreachable!("answers to a connection that was not opened, or closed"),
                    },
                    Parcel::Close(id) => {
                        unsent.remove(&id);
                        streams[id] = None;
                    }
                }
            }
        }
    }

    /// Everything in `work` is sent or to be given back: takes what has come since. False at the end.
    fn next(&self, work: &mut Work<S>, tell: impl Fn()) -> bool {
        let mut state = self.state.lock();
        if !work.unsent.is_empty() {
            state.give_back(std::mem::take(&mut work.unsent));
            self.has_unsent.store(true, Ordering::Release);
            tell();
        }
        if state.queue.is_empty() {
            // Also of rounds whose every byte was given back without being looked at.
            work.round = state.round;
        }
        self.over.store(work.round, Ordering::Release);
        self.let_worker_go(&mut state);
        while state.queue.is_empty() {
            if state.stopped {
                return false;
            }
            state.sleeps = true;
            self.changed.wait(&mut state);
        }
        state.sleeps = false;
        std::mem::swap(&mut state.queue, &mut work.parcels);
        state.bytes = 0;
        self.let_worker_go(&mut state);
        work.round = state.round;
        true
    }

    fn let_worker_go(&self, state: &mut QueueState<S>) {
        if std::mem::take(&mut state.is_awaited) {
            self.changed.notify_all();
        }
    }
}

impl<S> Round<'_, S> {
    /// The number of the newest round that is not empty.
    pub(super) fn number(&self) -> u64 {
        self.state.round
    }

    /// What could not be sent in earlier rounds.
    pub(super) fn take_unsent(&mut self) -> Vec<Unsent> {
        self.shared.has_unsent.store(false, Ordering::Release);
        std::mem::take(&mut self.state.unsent)
    }

    /// Whether everything that was handed over in a round is sent or given back.
    pub(super) fn is_over(&self, round: u64) -> bool {
        round <= self.over
    }

    /// Gives the thread the stream of a connection.
    pub(super) fn open(&mut self, id: usize, stream: S) {
        self.add(Parcel::Open(id, stream));
    }

    /// Hands answers over.
    pub(super) fn send(&mut self, to: ClientId, bytes: &[u8]) {
        self.add(Parcel::Answers(to, Bytes::from_slice(bytes)));
    }

    fn add(&mut self, parcel: Parcel<S>) {
        self.state.round += u64::from(!std::mem::replace(&mut self.has_begun, true));
        self.state.bytes += parcel.bytes();
        self.state.queue.push_back(parcel);
    }
}

impl<S> Drop for Round<'_, S> {
    fn drop(&mut self) {
        if self.state.sleeps && !self.state.queue.is_empty() {
            self.state.sleeps = false;
            self.shared.changed.notify_all();
        }
    }
}

impl<S> QueueState<S> {
    /// Gives back what could not be sent, with what is queued for the same connections.
    fn give_back(&mut self, mut unsent: BTreeMap<usize, Unsent>) {
        let Self { queue, bytes, .. } = self;
        queue.retain(|parcel| match parcel {
            Parcel::Answers(to, answers) if follow(&mut unsent, *to, answers) => {
                *bytes -= parcel.bytes();
                false
            }
            _ => true,
        });
        self.unsent.extend(unsent.into_values());
    }
}

/// Appends bytes to those of their connection that could not be sent; false if there are none.
fn follow(unsent: &mut BTreeMap<usize, Unsent>, to: ClientId, bytes: &[u8]) -> bool {
    let before = unsent.get_mut(&to.id).filter(|unsent| unsent.to == to);
    before.map(|before| before.bytes.extend_from_slice(bytes)).is_some()
}

/// Sends what a stream takes without waiting; the rest is added to `unsent`.
fn deliver(to: ClientId, bytes: &[u8], unsent: &mut BTreeMap<usize, Unsent>, send: impl FnOnce(&[u8]) -> Taken) {
    if follow(unsent, to, bytes) {
        return;
    }
    let taken = send(bytes);
    if taken.bytes < bytes.len() || taken.broken {
        unsent.insert(to.id, Unsent { to, bytes: bytes[taken.bytes..].to_vec(), broken: taken.broken });
    }
}

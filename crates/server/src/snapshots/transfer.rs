//! One transfer, as others see it: how far it is, and a way to end it.

use crate::net::Stream;
use parking_lot::{Mutex, MutexGuard};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vocab::{NodeId, ShardId};

/// How often the rate is measured anew.
const RATE_SPAN: Duration = Duration::from_secs(1);

/// Which way the rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From another node.
    In,
    /// To another node.
    Out,
}

/// How far a transfer is.
#[derive(Clone, Debug)]
pub struct TransferStatus {
    /// Which way.
    pub direction: Direction,
    /// The other node.
    pub peer: NodeId,
    /// The shard.
    pub shard: ShardId,
    /// Keys and values that the receiving side holds, in bytes.
    pub bytes: u64,
    /// About how many bytes there will be; 0: unknown.
    pub bytes_approx: u64,
    /// Rows that the receiving side holds.
    pub rows: u64,
    /// Bytes a second, lately.
    pub rate: u64,
    /// How long it has been going on.
    pub age: Duration,
    /// Times that the connection broke.
    pub breaks: u64,
}

pub(super) struct Transfer {
    pub(super) direction: Direction,
    pub(super) peer: NodeId,
    pub(super) shard: ShardId,
    bytes_approx: u64,
    begun: Instant,
    bytes: AtomicU64,
    rows: AtomicU64,
    breaks: AtomicU64,
    cancelled: AtomicBool,
    pace: Mutex<Pace>,
    stream: Mutex<Option<Stream>>,
}

struct Pace {
    since: Instant,
    bytes: u64,
    rate: u64,
}

impl Transfer {
    pub(super) fn new(direction: Direction, peer: NodeId, shard: ShardId, bytes_approx: u64) -> Self {
        let begun = Instant::now();
        Self {
            direction,
            peer,
            shard,
            bytes_approx,
            begun,
            bytes: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            breaks: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            pace: Mutex::new(Pace { since: begun, bytes: 0, rate: 0 }),
            stream: Mutex::new(None),
        }
    }

    /// The receiving side holds so much.
    pub(super) fn has_received(&self, rows: u64, bytes: u64) {
        self.rows.store(rows, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        let mut pace = lock(&self.pace);
        let span = pace.since.elapsed();
        if span >= RATE_SPAN || pace.rate == 0 {
            pace.rate = (bytes.saturating_sub(pace.bytes) as f64 / span.as_secs_f64().max(0.001)) as u64;
            if span >= RATE_SPAN {
                (pace.since, pace.bytes) = (Instant::now(), bytes);
            }
        }
    }

    /// The connection that is in use: `cancel` cuts it. False if it was cancelled already.
    pub(super) fn uses(&self, stream: &Stream) -> bool {
        *lock(&self.stream) = Some(stream.clone());
        !self.is_cancelled()
    }

    /// The connection broke.
    pub(super) fn broke(&self) {
        self.breaks.fetch_add(1, Ordering::Relaxed);
    }

    /// Cuts the connection; it may be resumed.
    pub(super) fn cut(&self) {
        if let Some(stream) = lock(&self.stream).take() {
            // It may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Ends it for good.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.cut();
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    pub(super) fn status(&self) -> TransferStatus {
        TransferStatus {
            direction: self.direction,
            peer: self.peer,
            shard: self.shard,
            bytes: self.bytes.load(Ordering::Relaxed),
            bytes_approx: self.bytes_approx,
            rows: self.rows.load(Ordering::Relaxed),
            rate: lock(&self.pace).rate,
            age: self.begun.elapsed(),
            breaks: self.breaks.load(Ordering::Relaxed),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

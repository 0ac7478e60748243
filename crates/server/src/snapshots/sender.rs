//! The sending side of one transfer: a thread that goes through a snapshot, over as many connections as it takes.

use super::outbound::Outbound;
use super::parts::{BEGIN, BUSY, Begin, DONE, END, GO_ON, Progress, RECEIVED, REFUSED, ROWS, put_row, words};
use super::shared::Shared;
use super::stream::{Broken, Parts};
use super::transfer::Transfer;
use crate::links::{Purpose, call};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use storage::Span;
use vocab::limits::SNAPSHOT_CHUNK_BYTES_SOFT;

/// Bytes that may be under way without the other side having said that it holds them.
const WINDOW_BYTES: u64 = 16 * 1024 * 1024;
/// Chunks, likewise: their answers wait in the socket's buffers until they are read.
const WINDOW_CHUNKS: usize = 256;
const CALL_MAX: Duration = Duration::from_secs(5);
/// How long the other side may take to make everything durable at the end.
const FINISH_MAX: Duration = Duration::from_secs(600);
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// How long one waits without looking whether it is cancelled.
pub(super) const NAP: Duration = Duration::from_millis(50);
/// How long one waits for the rate limit without saying that it lives.
pub(super) const QUIET_MAX: Duration = Duration::from_secs(2);

/// Sends `outbound` whole; the error says in words why it cannot.
pub(super) fn send(shared: &Shared, outbound: &Outbound, transfer: &Transfer, id: u64) -> Result<(), String> {
    let begin = Begin {
        transfer: id,
        shard: outbound.shard,
        index: outbound.snapshot.index(),
        bytes_approx: outbound.bytes_approx,
        meta: outbound.meta.clone(),
        message: outbound.message.clone(),
    };
    let begin = begin.encode();
    let mut received = Progress::default();
    let (mut failures, mut progress) = (0, Instant::now());
    loop {
        let before = received.rows;
        let attempt = Attempt { shared, outbound, transfer, begin: &begin };
        let (why, patience) = match attempt.run(&mut received) {
            Ok(()) => return Ok(()),
            Err(_) if transfer.is_cancelled() => return Err("cancelled".to_owned()),
            Err(Broken::Over(why)) => return Err(why),
            Err(Broken::Cut(why)) => (why, shared.options.resume_within),
            Err(Broken::Busy(why)) => (why, shared.options.busy_within),
        };
        transfer.broke();
        if received.rows > before {
            (failures, progress) = (0, Instant::now());
        }
        if progress.elapsed() >= patience {
            return Err(why);
        }
        log::debug!("the snapshot of shard {} for node {}: {why}", outbound.shard, outbound.to);
        let wait = BACKOFF_MIN.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
        failures += 1;
        pause(wait, transfer)?;
    }
}

fn pause(mut wait: Duration, transfer: &Transfer) -> Result<(), String> {
    while !wait.is_zero() {
        if transfer.is_cancelled() {
            return Err("cancelled".to_owned());
        }
        let nap = wait.min(NAP);
        std::thread::sleep(nap);
        wait -= nap;
    }
    Ok(())
}

/// The sending over one connection.
struct Attempt<'a> {
    shared: &'a Shared,
    outbound: &'a Outbound,
    transfer: &'a Transfer,
    begin: &'a [u8],
}

/// What is under way on a connection.
#[derive(Default)]
struct Window {
    /// The size of each chunk that the other side has not said to hold, oldest first.
    sizes: VecDeque<u64>,
    bytes: u64,
    /// Chunks that it has said to hold.
    received: u64,
}

impl Window {
    fn sent(&mut self, bytes: u64) {
        self.sizes.push_back(bytes);
        self.bytes += bytes;
    }

    fn has_received(&mut self, chunks: u64) {
        while self.received < chunks
            && let Some(bytes) = self.sizes.pop_front()
        {
            self.bytes -= bytes;
            self.received += 1;
        }
    }
}

impl Attempt<'_> {
    /// `held` becomes what the other side is known to hold.
    fn run(&self, received: &mut Progress) -> Result<(), Broken> {
        let identity = self.shared.identity.now();
        let (stream, _) = call(&self.outbound.address, identity, Purpose::Snapshot, Some(self.outbound.to), CALL_MAX)
            .map_err(Broken::Cut)?;
        let mut parts = Parts::new(stream, self.shared.options.silence_max)?;
        if !self.transfer.uses(parts.stream()) {
            return Err(Broken::Over("cancelled".to_owned()));
        }
        parts.say(BEGIN, self.begin)?;
        *received = match answer(&mut parts)? {
            Answer::GoOn(received) => received,
            Answer::Done => return Ok(()),
            Answer::Received(_) => return Err(Broken::Cut("an answer that makes no sense".to_owned())),
        };
        self.transfer.has_received(received.rows, received.bytes);
        let mut window = Window::default();
        let (rows, bytes) = self.rows(&mut parts, &mut window, received)?;
        // From here on the other side works for as long as it takes.
        let mut end = Vec::new();
        end.extend_from_slice(&rows.to_le_bytes());
        end.extend_from_slice(&bytes.to_le_bytes());
        parts.say(END, &end)?;
        parts.stream().set_read_timeout(FINISH_MAX)?;
        loop {
            match answer(&mut parts)? {
                Answer::Done => return Ok(()),
                Answer::Received(now) => self.note(received, now, &mut window),
                Answer::GoOn(_) => return Err(Broken::Cut("an answer that makes no sense".to_owned())),
            }
        }
    }

    /// Sends the rows after those that are received; answers how many rows there are in all, and their bytes.
    fn rows(&self, parts: &mut Parts, window: &mut Window, received: &mut Progress) -> Result<(u64, u64), Broken> {
        let start = received.last.as_ref().map_or_else(Vec::new, |last| [last, &[0][..]].concat());
        let failed = |e: storage::Error| Broken::Over(format!("the snapshot cannot be read: {e}"));
        let mut cursor = self.outbound.snapshot.cursor(Span { start, end: Vec::new() }, false);
        let (mut rows, mut bytes) = (received.rows, received.bytes);
        let mut chunk = Vec::with_capacity(SNAPSHOT_CHUNK_BYTES_SOFT * 2);
        loop {
            let row = match cursor.advance().map_err(failed)? {
                Some(key) => Some((key, cursor.value().map_err(failed)?)),
                None => None,
            };
            if let Some((key, value)) = &row {
                put_row(&mut chunk, key, value);
                rows += 1;
                bytes += (key.len() + value.len()) as u64;
            }
            if chunk.len() >= SNAPSHOT_CHUNK_BYTES_SOFT || (row.is_none() && !chunk.is_empty()) {
                self.chunk(&chunk, parts, window, received)?;
                chunk.clear();
                chunk.shrink_to(SNAPSHOT_CHUNK_BYTES_SOFT * 2);
            }
            if row.is_none() {
                return Ok((rows, bytes));
            }
        }
    }

    fn chunk(
        &self,
        rows: &[u8],
        parts: &mut Parts,
        window: &mut Window,
        received: &mut Progress,
    ) -> Result<(), Broken> {
        let mut wait = self.shared.sending.take(rows.len() as u64, Instant::now());
        let mut quiet = Duration::ZERO;
        while !wait.is_zero() {
            let nap = wait.min(NAP);
            pause(nap, self.transfer).map_err(Broken::Over)?;
            wait -= nap;
            quiet += nap;
            if quiet >= QUIET_MAX {
                window.sent(parts.say(ROWS, &[])?);
                quiet = Duration::ZERO;
            }
        }
        window.sent(parts.say(ROWS, rows)?);
        while window.bytes > WINDOW_BYTES || window.sizes.len() > WINDOW_CHUNKS || parts.has_come()? {
            match answer(parts)? {
                Answer::Received(now) => self.note(received, now, window),
                Answer::GoOn(_) | Answer::Done => {
                    return Err(Broken::Cut("an answer that makes no sense".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn note(&self, received: &mut Progress, now: Progress, window: &mut Window) {
        window.has_received(now.chunks);
        self.transfer.has_received(now.rows, now.bytes);
        *received = Progress { last: received.last.take(), ..now };
    }
}

enum Answer {
    GoOn(Progress),
    Received(Progress),
    Done,
}

fn answer(parts: &mut Parts) -> Result<Answer, Broken> {
    let cut = |why: &str| Broken::Cut(why.to_owned());
    match parts.hear()? {
        (GO_ON, body) => Ok(Answer::GoOn(Progress::decode(body).map_err(cut)?)),
        (RECEIVED, body) => Ok(Answer::Received(Progress::decode(body).map_err(cut)?)),
        (DONE, _) => Ok(Answer::Done),
        (BUSY, why) => Err(Broken::Busy(words(why))),
        (REFUSED, why) => Err(Broken::Over(words(why))),
        (kind, _) => Err(Broken::Cut(format!("an answer of kind {kind} came"))),
    }
}

//! The counters of one worker thread, and the buckets in which it counts latencies: eight for each doubling, so that a
//! percentile is at most an eighth too high.

use parking_lot::Mutex;
use resp::table::{COMMAND_COUNT, CommandId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most error codes that are counted each; further ones are counted together.
const ERROR_CODES_MAX: usize = 128;

/// A counter that one thread raises and any thread reads: a load and a store, which cost much less than an atomic
/// addition.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Keys that reads have looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Those that were there.
    pub hits: u64,
    /// Those that were not.
    pub misses: u64,
}

impl Lookups {
    /// One more.
    #[inline]
    pub fn note(&mut self, found: bool) {
        self.hits += u64::from(found);
        self.misses += u64::from(!found);
    }

    /// Those of another count.
    pub fn add(&mut self, others: Self) {
        self.hits += others.hits;
        self.misses += others.misses;
    }
}

/// How a command of a script has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedCall {
    /// Which command it was.
    pub command: CommandId,
    /// It has answered with an error.
    pub has_failed: bool,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer.
    Done,
    /// With an error, after it began.
    Failed,
}

impl Outcome {
    /// What an encoded reply says.
    #[inline]
    #[must_use]
    pub fn of(reply: &[u8]) -> Self {
        if reply.first() == Some(&b'-') { Self::Failed } else { Self::Done }
    }
}

/// The code that an encoded error begins with: `WRONGTYPE`.
#[must_use]
pub fn error_code(reply: &[u8]) -> &str {
    let text = reply.strip_prefix(b"-").unwrap_or(reply);
    let end = text.iter().position(|b| b" \r\n".contains(b)).unwrap_or(text.len());
    std::str::from_utf8(&text[..end]).unwrap_or("ERR")
}

#[derive(Debug)]
struct CommandCounters {
    ns: Counter,
    failed: Counter,
    rejected: Counter,
    /// Any thread raises these two.
    in_scripts: AtomicU64,
    failed_in_scripts: AtomicU64,
    buckets: [Counter; BUCKETS],
}

impl Default for CommandCounters {
    fn default() -> Self {
        let counter = Counter::default;
        Self {
            ns: counter(),
            failed: counter(),
            rejected: counter(),
            in_scripts: AtomicU64::default(),
            failed_in_scripts: AtomicU64::default(),
            buckets: std::array::from_fn(|_| Counter::default()),
        }
    }
}

/// What all workers together, or one, counted of one command.
#[derive(Clone, Debug, Default)]
pub struct CommandTotals {
    /// Time spent, in ns.
    pub ns: u64,
    /// Calls that ended with an error.
    pub failed: u64,
    /// Calls that were refused before they began.
    pub rejected: u64,
    /// Calls by scripts, whose time is the script's.
    pub in_scripts: u64,
    /// The latencies of all other calls.
    pub latency: Histogram,
}

impl CommandTotals {
    /// How often it ran.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.latency.count() + self.in_scripts
    }

    /// Takes away what had been counted at an earlier time.
    pub(super) fn since(&mut self, earlier: &Self) {
        self.ns = self.ns.wrapping_sub(earlier.ns);
        self.failed = self.failed.wrapping_sub(earlier.failed);
        self.rejected = self.rejected.wrapping_sub(earlier.rejected);
        self.in_scripts = self.in_scripts.wrapping_sub(earlier.in_scripts);
        for (count, before) in self.latency.counts.iter_mut().zip(&earlier.latency.counts) {
            *count = count.wrapping_sub(*before);
        }
    }
}

/// The counters of one worker thread. Only that thread writes them; any may read them.
#[derive(Debug)]
pub struct WorkerStats {
    commands: Vec<CommandCounters>,
    errors: Mutex<BTreeMap<String, u64>>,
    pub(super) processed: Counter,
    pub(super) connections: Counter,
    pub(super) rejected_connections: Counter,
    pub(super) output_limit_disconnections: Counter,
    pub(super) evicted_clients: Counter,
    pub(super) input_bytes: Counter,
    pub(super) output_bytes: Counter,
    pub(super) reads: Counter,
    pub(super) writes: Counter,
    pub(super) keyspace_hits: Counter,
    pub(super) keyspace_misses: Counter,
}

impl Default for WorkerStats {
    fn default() -> Self {
        let counter = Counter::default;
        Self {
            commands: (0..COMMAND_COUNT).map(|_| CommandCounters::default()).collect(),
            errors: Mutex::default(),
            processed: counter(),
            connections: counter(),
            rejected_connections: counter(),
            output_limit_disconnections: counter(),
            evicted_clients: counter(),
            input_bytes: counter(),
            output_bytes: counter(),
            reads: counter(),
            writes: counter(),
            keyspace_hits: counter(),
            keyspace_misses: counter(),
        }
    }
}

impl WorkerStats {
    /// Counts a command that has run, and the error with which it ended if `reply` (encoded) is one.
    #[inline]
    pub fn finished(&self, command: CommandId, ns: u64, reply: &[u8]) {
        let outcome = Outcome::of(reply);
        self.record(command, ns, outcome);
        if outcome == Outcome::Failed {
            self.error(error_code(reply));
        }
    }

    /// Counts a command that has run.
    #[inline]
    pub fn record(&self, command: CommandId, ns: u64, outcome: Outcome) {
        let counters = &self.commands[command.index()];
        counters.buckets[bucket_of(ns)].add(1);
        counters.ns.add(ns);
        self.processed.add(1);
        if outcome == Outcome::Failed {
            counters.failed.add(1);
        }
    }

    /// Counts what a script has run, on any thread. The request that has run the script counts with its time.
    pub fn ran_in_script(&self, calls: &[EndedCall]) {
        for call in calls {
            let counters = &self.commands[call.command.index()];
            counters.in_scripts.fetch_add(1, Ordering::Relaxed);
            counters.failed_in_scripts.fetch_add(u64::from(call.has_failed), Ordering::Relaxed);
        }
    }

    /// Counts a request that was refused before it began; `text` is the error's, without the leading `-`.
    #[cold]
    pub fn rejected(&self, command: Option<CommandId>, text: &str) {
        if let Some(command) = command {
            self.commands[command.index()].rejected.add(1);
        }
        self.error(error_code(text.as_bytes()));
    }

    #[cold]
    fn error(&self, code: &str) {
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else {
            let code = if errors.len() < ERROR_CODES_MAX { code } else { "OTHER" };
            *errors.entry(code.to_owned()).or_default() += 1;
        }
    }

    /// Counts a connection that was accepted.
    pub fn connected(&self) {
        self.connections.add(1);
    }

    /// Counts a connection that was refused.
    pub fn refused(&self) {
        self.rejected_connections.add(1);
    }

    /// Counts a connection that `client-output-buffer-limit` has closed.
    pub fn output_limit_passed(&self) {
        self.output_limit_disconnections.add(1);
    }

    /// Counts a connection that `maxmemory-clients` has closed.
    pub fn client_evicted(&self) {
        self.evicted_clients.add(1);
    }

    /// Counts bytes that came from clients in one read.
    #[inline]
    pub fn received(&self, bytes: usize) {
        self.input_bytes.add(bytes as u64);
        self.reads.add(1);
    }

    /// Counts bytes that went to clients in one write.
    #[inline]
    pub fn sent(&self, bytes: usize) {
        self.output_bytes.add(bytes as u64);
        self.writes.add(1);
    }

    /// Counts keys that were looked up for clients.
    #[inline]
    pub fn looked_up(&self, lookups: Lookups) {
        self.keyspace_hits.add(lookups.hits);
        self.keyspace_misses.add(lookups.misses);
    }

    /// Adds what was counted of one command.
    pub(super) fn add_command(&self, command: CommandId, totals: &mut CommandTotals) {
        let counters = &self.commands[command.index()];
        totals.ns += counters.ns.get();
        totals.failed += counters.failed.get();
        totals.rejected += counters.rejected.get();
        totals.failed += counters.failed_in_scripts.load(Ordering::Relaxed);
        totals.in_scripts += counters.in_scripts.load(Ordering::Relaxed);
        for (sum, bucket) in totals.latency.counts.iter_mut().zip(&counters.buckets) {
            *sum += bucket.get();
        }
    }

    /// Adds what was counted of errors.
    pub(super) fn add_errors(&self, totals: &mut BTreeMap<String, u64>) {
        for (code, count) in self.errors.lock().iter() {
            *totals.entry(code.clone()).or_default() += count;
        }
    }
}

/// Below this everything is in the first bucket.
const FIRST_NS: u64 = 1 << FIRST_BITS;
const FIRST_BITS: u32 = 7;
/// From here on (137 s) everything is in the last bucket.
const LAST_BITS: u32 = 37;
const PER_DOUBLING_BITS: u32 = 3;

/// How many buckets there are.
pub(super) const BUCKETS: usize = 2 + (((LAST_BITS - FIRST_BITS) as usize) << PER_DOUBLING_BITS);

/// The bucket of a latency.
#[inline]
pub(super) fn bucket_of(ns: u64) -> usize {
    if ns < FIRST_NS {
        return 0;
    }
    let doubling = ns.ilog2();
    if doubling >= LAST_BITS {
        return BUCKETS - 1;
    }
    let part = (ns >> (doubling - PER_DOUBLING_BITS)) as usize & ((1 << PER_DOUBLING_BITS) - 1);
    1 + ((doubling - FIRST_BITS) << PER_DOUBLING_BITS) as usize + part
}

/// The first latency that is beyond the bucket.
fn end_of(bucket: usize) -> u64 {
    if bucket == 0 {
        return FIRST_NS;
    }
    let (doubling, part) = ((bucket - 1) >> PER_DOUBLING_BITS, (bucket - 1) & ((1 << PER_DOUBLING_BITS) - 1));
    let start = FIRST_NS << doubling;
    start + (start >> PER_DOUBLING_BITS) * (part as u64 + 1)
}

/// How many latencies fell into each bucket.
#[derive(Clone, Debug)]
pub struct Histogram {
    pub(super) counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }
}

impl Histogram {
    /// Counts one latency.
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket_of(ns)] += 1;
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many took less than so many ns, as a power of two.
    #[must_use]
    pub fn below(&self, bits: u32) -> u64 {
        let end = 1u64 << bits.min(63);
        (0..BUCKETS).take_while(|bucket| end_of(*bucket) <= end).map(|bucket| self.counts[bucket]).sum()
    }

    /// The latency, in ns, that `percentile` (0 to 100) of all do not exceed; 0 if there are none.
    #[must_use]
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        let count = self.count();
        let rank = ((percentile / 100.0 * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut sum = 0;
        for (bucket, n) in self.counts.iter().enumerate() {
            sum += n;
            if sum >= rank {
                return end_of(bucket) - 1;
            }
        }
        0
    }

    /// The cumulative distribution as LATENCY HISTOGRAM has it: microseconds, doubling from 1, and how many took no
    /// longer; only where the count rises. Redis labels its buckets by the largest value that they cannot tell from
    /// their bound: 33, 66, 132 rather than 32, 65, 131.
    #[must_use]
    pub fn cumulative_us(&self) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let (mut sum, mut bucket) = (0, 0);
        for bits in 10..=LAST_BITS + 1 {
            let end: u64 = 1 << bits;
            let before = sum;
            while bucket < BUCKETS && (end_of(bucket) <= end || bits > LAST_BITS) {
                sum += self.counts[bucket];
                bucket += 1;
            }
            if sum > before {
                found.push(((end + end / 128 - 1) / 1000, sum));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_hold_what_they_say() {
        let mut last = 0;
        for ns in (0..40u32).flat_map(|bits| [1u64 << bits, (1 << bits) + (1 << bits) / 3, (2 << bits) - 1]) {
            let bucket = bucket_of(ns);
            assert!(bucket >= last && bucket < BUCKETS, "{ns}");
            assert!(ns < end_of(bucket) || bucket == BUCKETS - 1, "{ns}");
            assert!(bucket == 0 || bucket == BUCKETS - 1 || end_of(bucket - 1) <= ns, "{ns}");
            last = bucket;
        }
    }

    #[test]
    fn percentiles_and_the_cumulative_form() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile_ns(50.0), histogram.cumulative_us()), (0, vec![]));
        for ns in 1..=1000u64 {
            histogram.record(ns * 1000);
        }
        for (percentile, ns) in [(50.0, 500_000), (99.0, 990_000), (99.9, 999_000), (100.0, 1_000_000)] {
            let got = histogram.percentile_ns(percentile);
            assert!(got >= ns && got <= ns + ns / 8 + 1, "{percentile}: {got}");
        }
        let expected = vec![(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (33, 32), (66, 65), (132, 131), (264, 262)];
        assert_eq!(histogram.cumulative_us()[..9], expected[..]);
        assert_eq!([10, 14, 20, 34].map(|bits| histogram.below(bits)), [1, 16, 1000, 1000]);
        assert_eq!(histogram.cumulative_us()[9..], [(528, 524), (1056, 1000)]);
        histogram.record(u64::MAX);
        assert_eq!(histogram.cumulative_us().last().map(|last| last.1), Some(1001));
    }
}

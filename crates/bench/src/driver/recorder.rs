//! What one thread has measured; and all threads' sums.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::gaps::Successes;
use super::op_parts::OpParts;
use super::timeline::{KINDS, Timeline, deserialized, latency_histogram, serialized};
use crate::model::{Latency, LatencySummary, OpStats};
use crate::target::{Fault, OpOutcome};
use crate::workload::OpKind;

/// YCSB's name for the client's own closing work.
const CLEANUP: &str = "CLEANUP";
/// Latencies are recorded in nanoseconds.
const US_PER_VALUE: f64 = 0.001;

/// Errors of one kind.
#[derive(Default)]
struct SeenError {
    times: u64,
    /// What the store said the first time; empty if it said nothing.
    first: Box<str>,
}

impl SeenError {
    fn add(&mut self, times: u64, text: &str) {
        self.times += times;
        if self.first.is_empty() {
            self.first = text.into();
        }
    }
}

/// One kind of operation.
#[derive(Default)]
struct OpRecord {
    measured: Option<Histogram<u64>>,
    intended: Option<Histogram<u64>>,
    failed: Option<Histogram<u64>>,
    succeeded: u64,
    codes: BTreeMap<&'static str, u64>,
    errors: BTreeMap<Box<str>, SeenError>,
    not_found: u64,
    retries: u64,
    conflicts: u64,
    unknown: u64,
    stale: u64,
    verified: u64,
    wrong: u64,
    /// The first wrong answer in words; empty where it is not known.
    first_wrong: String,
    /// How many were parts of a read-modify-write.
    parts: u64,
    /// How many of these failed.
    failed_parts: u64,
}

/// The latency of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// From its start.
    pub(super) measured: Duration,
    /// From its intended start, when it had one.
    pub(super) intended: Option<Duration>,
}

fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

fn record(histogram: &mut Option<Histogram<u64>>, value: Duration) {
    histogram.get_or_insert_with(latency_histogram).saturating_record(ns(value).max(1));
}

fn add(sum: &mut Option<Histogram<u64>>, other: Option<Histogram<u64>>) {
    if let Some(other) = other {
        sum.get_or_insert_with(latency_histogram).add(other).expect("all latency histograms have the same bounds");
    }
}

impl OpRecord {
    fn count(&mut self, outcome: &OpOutcome, owns_faults: bool) {
        self.retries += u64::from(outcome.retries);
        self.conflicts += u64::from(outcome.conflicts);
        self.unknown += u64::from(outcome.unknown && owns_faults);
        self.stale += u64::from(outcome.stale && owns_faults);
        self.verified += u64::from(outcome.verified && owns_faults);
        let Err(fault) = &outcome.result else {
            self.succeeded += 1;
            return;
        };
        *self.codes.entry(fault.code()).or_default() += 1;
        if owns_faults {
            match fault {
                Fault::NotFound => self.not_found += 1,
                Fault::Wrong => self.wrong += 1,
                Fault::Error(error) => self.errors.entry(error.kind.clone()).or_default().add(1, &error.text),
            }
        }
    }

    fn merge(&mut self, other: Self) {
        add(&mut self.measured, other.measured);
        add(&mut self.intended, other.intended);
        add(&mut self.failed, other.failed);
        self.succeeded += other.succeeded;
        other.codes.into_iter().for_each(|(code, n)| *self.codes.entry(code).or_default() += n);
        for (kind, seen) in other.errors {
            self.errors.entry(kind).or_default().add(seen.times, &seen.first);
        }
        self.not_found += other.not_found;
        self.retries += other.retries;
        self.conflicts += other.conflicts;
        self.unknown += other.unknown;
        self.stale += other.stale;
        self.verified += other.verified;
        self.wrong += other.wrong;
        if self.first_wrong.is_empty() {
            self.first_wrong = other.first_wrong;
        }
        self.parts += other.parts;
        self.failed_parts += other.failed_parts;
    }

    fn was_made(&self) -> bool {
        self.succeeded > 0 || !self.codes.is_empty() || self.retries > 0
    }

    fn parts(&self, op: &str) -> OpParts {
        let bytes = |histogram: &Option<Histogram<u64>>| histogram.as_ref().map(serialized).unwrap_or_default();
        let counts = self.counters().map(|(name, count)| (name.to_owned(), count));
        let codes = self.codes.iter().map(|(code, count)| ((*code).to_owned(), *count));
        OpParts {
            op: op.to_owned(),
            histograms: [bytes(&self.measured), bytes(&self.intended), bytes(&self.failed)],
            counts: counts.into_iter().chain(codes).collect(),
            errors: self.errors.iter().map(|(kind, seen)| (kind.to_string(), seen.times)).collect(),
            error_texts: self.texts().collect(),
            first_wrong: self.first_wrong.clone(),
        }
    }

    fn of_parts(parts: &OpParts) -> io::Result<Self> {
        let histogram = |bytes: &Vec<u8>| (!bytes.is_empty()).then(|| deserialized(bytes)).transpose();
        let [measured, intended, failed] = &parts.histograms;
        let mut record = Self {
            measured: histogram(measured)?,
            intended: histogram(intended)?,
            failed: histogram(failed)?,
            first_wrong: parts.first_wrong.clone(),
            ..Self::default()
        };
        for (kind, times) in &parts.errors {
            let text = parts.error_texts.iter().find(|(known, _)| known == kind).map_or("", |(_, text)| text);
            record.errors.entry(kind.as_str().into()).or_default().add(*times, text);
        }
        for (name, count) in &parts.counts {
            match record.counter(name) {
                Some(counter) => *counter = *count,
                None => {
                    let code = Fault::CODES.into_iter().find(|code| code == name);
                    let unknown = || io::Error::new(io::ErrorKind::InvalidData, format!("no count of {name}"));
                    record.codes.insert(code.ok_or_else(unknown)?, *count);
                }
            }
        }
        Ok(record)
    }

    /// What the store said the first time, by the kind of error.
    fn texts(&self) -> impl Iterator<Item = (String, String)> {
        let said = self.errors.iter().filter(|(_, seen)| !seen.first.is_empty());
        said.map(|(kind, seen)| (kind.to_string(), seen.first.to_string()))
    }

    fn counters(&self) -> [(&'static str, u64); 10] {
        [
            ("succeeded", self.succeeded),
            ("not-found", self.not_found),
            ("retries", self.retries),
            ("conflicts", self.conflicts),
            ("unknown", self.unknown),
            ("stale", self.stale),
            ("verified", self.verified),
            ("wrong", self.wrong),
            ("parts", self.parts),
            ("failed-parts", self.failed_parts),
        ]
    }

    fn counter(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "succeeded" => &mut self.succeeded,
            "not-found" => &mut self.not_found,
            "retries" => &mut self.retries,
            "conflicts" => &mut self.conflicts,
            "unknown" => &mut self.unknown,
            "stale" => &mut self.stale,
            "verified" => &mut self.verified,
            "wrong" => &mut self.wrong,
            "parts" => &mut self.parts,
            "failed-parts" => &mut self.failed_parts,
            _ => return None,
        })
    }

    fn stats(self, op: &str, percentiles: &[f64]) -> Option<OpStats> {
        let summary =
            |histogram: &Histogram<u64>| LatencySummary::with_percentiles(histogram, US_PER_VALUE, percentiles);
        let mut returned: BTreeMap<String, u64> = self.codes.iter().map(|(code, n)| ((*code).to_owned(), *n)).collect();
        if self.succeeded > 0 {
            returned.insert("OK".to_owned(), self.succeeded);
        }
        if returned.is_empty() {
            return None;
        }
        Some(OpStats {
            op: op.to_owned(),
            latency: Latency {
                measured: self.measured.as_ref().map(summary).unwrap_or_default(),
                intended: self.intended.as_ref().map(summary),
            },
            failed_latency: self.failed.as_ref().map(summary),
            returned,
            error_texts: self.texts().collect(),
            errors: self.errors.into_iter().map(|(kind, seen)| (kind.into_string(), seen.times)).collect(),
            not_found: self.not_found,
            retries: self.retries,
            conflicts: self.conflicts,
            unknown: self.unknown,
            stale: self.stale,
            verified: self.verified,
            verification_failures: self.wrong,
            first_wrong: Some(self.first_wrong).filter(|text| !text.is_empty()),
            parts: self.parts,
            failed_parts: self.failed_parts,
        })
    }
}

/// One thread's records, or the sum of all threads'.
#[derive(Default)]
pub(super) struct Recorder {
    ops: [OpRecord; KINDS],
    cleanup: OpRecord,
    /// The second that `interval` is of.
    second: u64,
    interval: [Option<Histogram<u64>>; KINDS],
    /// Operations that failed in that second.
    failures: [u64; KINDS],
    reads: Successes,
    writes: Successes,
    /// Operations that were due in the measured part and were never started.
    not_started: u64,
}

impl Recorder {
    /// An operation has ended, so long `since` the phase began. Only while `measuring` it counts beyond its second. One that
    /// `has_parts` was told by them before.
    pub(super) fn whole(
        &mut self,
        kind: OpKind,
        sample: Sample,
        (outcome, has_parts): (&OpOutcome, bool),
        since: Duration,
        measuring: bool,
    ) {
        let op = &mut self.ops[kind as usize];
        if outcome.result.is_ok() {
            record(&mut self.interval[kind as usize], sample.intended.unwrap_or(sample.measured));
            if matches!(kind, OpKind::Read | OpKind::Scan) {
                self.reads.note(since);
            } else {
                self.writes.note(since);
            }
        } else {
            self.failures[kind as usize] += 1;
        }
        if !measuring {
            return;
        }
        // The faults of an operation with parts are those of its parts. A read-modify-write of one request has none.
        op.count(outcome, !has_parts);
        Self::latency(op, sample, outcome);
    }

    /// A part of a read-modify-write has ended.
    pub(super) fn part(&mut self, kind: OpKind, sample: Sample, outcome: &OpOutcome, since: Duration, measuring: bool) {
        if kind == OpKind::Read && outcome.result.is_ok() {
            self.reads.note(since);
        }
        if !measuring {
            return;
        }
        let op = &mut self.ops[kind as usize];
        op.parts += 1;
        op.failed_parts += u64::from(outcome.result.is_err());
        op.count(&OpOutcome { retries: 0, conflicts: 0, ..outcome.clone() }, true);
        Self::latency(op, sample, outcome);
    }

    fn latency(op: &mut OpRecord, sample: Sample, outcome: &OpOutcome) {
        if outcome.result.is_err() {
            return record(&mut op.failed, sample.measured);
        }
        record(&mut op.measured, sample.measured);
        if let Some(intended) = sample.intended {
            record(&mut op.intended, intended);
        }
    }

    /// An attempt has failed that will be made again.
    pub(super) fn retried(&mut self, kind: OpKind) {
        self.ops[kind as usize].retries += 1;
    }

    /// So many operations were due, and will not be started.
    pub(super) fn not_started(&mut self, operations: u64) {
        self.not_started += operations;
    }

    /// How many operations were due and were never started.
    pub(super) fn not_started_count(&self) -> u64 {
        self.not_started
    }

    /// A session was closed.
    pub(super) fn cleaned_up(&mut self, took: Duration) {
        self.cleanup.succeeded += 1;
        record(&mut self.cleanup.measured, took);
    }

    /// What a thread's first wrong answer was. Where wrong answers came in the warm-up only, none is counted, nor told.
    pub(super) fn first_wrong(&mut self, text: String) {
        if let Some(op) = self.ops.iter_mut().find(|op| op.wrong > 0) {
            op.first_wrong = text;
        }
    }

    /// Whether the phase, which began at `start`, is in another second than the records.
    pub(super) fn second_is_over(&self, start: Instant, now: Instant) -> bool {
        now.saturating_duration_since(start).as_secs() > self.second
    }

    /// Hands the current second's records to the timeline and begins the one that `now` is in.
    pub(super) fn turn_second(&mut self, start: Instant, now: Instant, timeline: &mut Timeline) {
        for (kind, (interval, failures)) in
            OpKind::ALL.into_iter().zip(self.interval.iter_mut().zip(&mut self.failures))
        {
            timeline.failed(self.second, kind, std::mem::take(failures));
            if let Some(histogram) = interval.as_mut().filter(|histogram| !histogram.is_empty()) {
                timeline.merge(self.second, kind, histogram);
                histogram.reset();
            }
        }
        self.second = now.saturating_duration_since(start).as_secs();
    }

    /// Adds another thread's records.
    pub(super) fn merge(&mut self, other: Self) {
        for (op, other) in self.ops.iter_mut().zip(other.ops) {
            op.merge(other);
        }
        self.cleanup.merge(other.cleanup);
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.not_started += other.not_started;
    }

    /// The longest time between `from` and `to` without a successful read, and without a successful write; none where
    /// there were none at all.
    pub(super) fn longest_gaps(&self, from: Duration, to: Duration) -> (Option<Duration>, Option<Duration>) {
        (self.reads.longest_gap(from, to), self.writes.longest_gap(from, to))
    }

    /// Everything that was recorded, kind by kind, for another process.
    pub(super) fn parts(&self) -> Vec<OpParts> {
        let ops = OpKind::ALL.iter().zip(&self.ops).map(|(kind, op)| (kind.name(), op));
        let all = ops.chain([(CLEANUP, &self.cleanup)]);
        all.filter(|(_, op)| op.was_made()).map(|(name, op)| op.parts(name)).collect()
    }

    /// What [`Recorder::parts`] made.
    ///
    /// # Errors
    /// It did not.
    pub(super) fn of_parts(parts: &[OpParts]) -> io::Result<Self> {
        let mut recorder = Self::default();
        for part in parts {
            let place = OpKind::ALL.iter().position(|kind| kind.name() == part.op);
            let op = match place {
                Some(place) => &mut recorder.ops[place],
                None if part.op == CLEANUP => &mut recorder.cleanup,
                None => return Err(io::Error::new(io::ErrorKind::InvalidData, format!("no operation {}", part.op))),
            };
            *op = OpRecord::of_parts(part)?;
        }
        Ok(recorder)
    }

    /// When reads succeeded, and writes, as bits.
    pub(super) fn successes(&self) -> [Vec<u8>; 2] {
        [self.reads.to_bytes(), self.writes.to_bytes()]
    }

    /// What [`Recorder::successes`] made.
    pub(super) fn set_successes(&mut self, [reads, writes]: &[Vec<u8>; 2]) {
        (self.reads, self.writes) = (Successes::of_bytes(reads), Successes::of_bytes(writes));
    }

    /// The figures of each operation that was made; latencies with these percentiles among them.
    pub(super) fn stats(self, percentiles: &[f64]) -> Vec<OpStats> {
        let ops = OpKind::ALL.iter().zip(self.ops).filter_map(|(kind, op)| op.stats(kind.name(), percentiles));
        ops.chain(self.cleanup.stats(CLEANUP, percentiles)).collect()
    }
}

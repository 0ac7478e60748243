//! What happened in each second of a phase, over all threads.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::model::{OpSeries, SeriesPoint};
use crate::workload::OpKind;

/// How many kinds of operations there are.
pub(super) const KINDS: usize = OpKind::ALL.len();

/// Nanoseconds from 1 to an hour, to three digits.
#[must_use]
pub(super) fn latency_histogram() -> Histogram<u64> {
    const NS_MAX: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, NS_MAX, 3).expect("the bounds are constant and fit")
}

/// A second is closed when every thread has been past it for so long; what comes later only counts.
const SETTLED_AFTER_S: u64 = 3;

/// One second's latencies of one kind, kept for the histogram log.
#[derive(Clone, Debug)]
pub struct IntervalHistogram {
    /// The second, from the beginning of the phase.
    pub second: u64,
    /// The operation, as YCSB spells it.
    pub op: &'static str,
    /// Operations that failed in it.
    pub failures: u64,
    /// The histogram, serialised and compressed; empty when none succeeded.
    pub bytes: Vec<u8>,
}

type Kinds = [Option<Histogram<u64>>; KINDS];

/// A second that is not closed.
#[derive(Default)]
struct Second {
    kinds: Kinds,
    failures: [u64; KINDS],
}

/// The seconds of a phase, its warm-up included.
#[derive(Default)]
pub(super) struct Timeline {
    open: BTreeMap<u64, Second>,
    points: [Vec<SeriesPoint>; KINDS],
    /// Seconds before this one are closed.
    settled: u64,
    keeps_log: bool,
    log: Vec<IntervalHistogram>,
    /// Since the last status line.
    recent: Kinds,
}

impl Timeline {
    /// One that keeps every second's histogram, if `keeps_log`.
    pub(super) fn new(keeps_log: bool) -> Self {
        Self { keeps_log, ..Self::default() }
    }

    /// Adds what one thread recorded of one kind in `second`.
    pub(super) fn merge(&mut self, second: u64, kind: OpKind, histogram: &Histogram<u64>) {
        add(&mut self.recent[kind as usize], histogram);
        if second >= self.settled {
            add(&mut self.open.entry(second).or_default().kinds[kind as usize], histogram);
        } else if let Some(point) = self.points[kind as usize].iter_mut().rfind(|point| point.t_s as u64 == second) {
            point.ops += histogram.len();
            point.max_us = point.max_us.max(histogram.max() as f64 / 1000.0);
        }
    }

    /// Adds how many operations of one kind one thread saw fail in `second`.
    pub(super) fn failed(&mut self, second: u64, kind: OpKind, failures: u64) {
        if failures == 0 {
            return;
        }
        if second >= self.settled {
            self.open.entry(second).or_default().failures[kind as usize] += failures;
        } else if let Some(point) = self.points[kind as usize].iter_mut().rfind(|point| point.t_s as u64 == second) {
            point.errors += failures;
        }
    }

    /// Closes the seconds that nothing is added to any more, the phase being in `second`.
    pub(super) fn settle(&mut self, second: u64) {
        self.settle_before(second.saturating_sub(SETTLED_AFTER_S));
    }

    /// Closes the seconds before `end`.
    pub(super) fn settle_before(&mut self, end: u64) {
        while let Some(entry) = self.open.first_entry()
            && *entry.key() < end
        {
            let (second, seen) = entry.remove_entry();
            self.close(second, &seen, 1.0);
        }
        self.settled = self.settled.max(end);
    }

    /// Closes all seconds: the phase has ended after `length`.
    pub(super) fn finish(&mut self, length: Duration) -> (Vec<OpSeries>, Vec<IntervalHistogram>) {
        while let Some((second, seen)) = self.open.pop_first() {
            self.close(second, &seen, (length.as_secs_f64() - second as f64).clamp(0.0, 1.0));
        }
        self.points.iter_mut().for_each(|points| fill(points, length.as_secs()));
        let series = OpKind::ALL.iter().zip(&mut self.points).filter(|(_, points)| !points.is_empty());
        let series =
            series.map(|(kind, points)| OpSeries { op: kind.name().to_owned(), points: std::mem::take(points) });
        (series.collect(), std::mem::take(&mut self.log))
    }

    /// Closes a second of which the phase had a `share`.
    fn close(&mut self, second: u64, seen: &Second, share: f64) {
        /// A shorter part of a second is too short to tell a rate from.
        const SHARE_MIN: f64 = 0.1;
        for ((kind, histogram), &failures) in OpKind::ALL.iter().zip(&seen.kinds).zip(&seen.failures) {
            let errors = (failures as f64 / share.max(SHARE_MIN)).round() as u64;
            if self.keeps_log && (failures > 0 || histogram.is_some()) {
                let bytes = histogram.as_ref().map(serialized).unwrap_or_default();
                self.log.push(IntervalHistogram { second, op: kind.name(), failures, bytes });
            }
            let Some(histogram) = histogram else {
                if failures > 0 && share >= SHARE_MIN {
                    let point = SeriesPoint { t_s: second as f64, errors, ..SeriesPoint::default() };
                    self.points[*kind as usize].push(point);
                }
                continue;
            };
            let max = histogram.max();
            let us = |percentile: f64| histogram.value_at_percentile(percentile).min(max) as f64 / 1000.0;
            if share >= SHARE_MIN {
                self.points[*kind as usize].push(SeriesPoint {
                    t_s: second as f64,
                    ops: (histogram.len() as f64 / share).round() as u64,
                    p50_us: us(50.0),
                    p95_us: us(95.0),
                    p99_us: us(99.0),
                    max_us: max as f64 / 1000.0,
                    errors,
                });
            }
        }
    }

    /// The seconds that were closed since the last call, when they are kept; and the first that is not closed.
    pub(super) fn take_closed(&mut self) -> (Vec<IntervalHistogram>, u64) {
        (std::mem::take(&mut self.log), self.settled)
    }

    /// What was recorded since the last call, by kind.
    pub(super) fn take_recent(&mut self) -> Vec<(OpKind, Histogram<u64>)> {
        let recent = std::mem::take(&mut self.recent);
        OpKind::ALL.into_iter().zip(recent).filter_map(|(kind, histogram)| Some((kind, histogram?))).collect()
    }
}

/// Gives every whole second from the first one on its point: one in which nothing ended must be seen.
fn fill(points: &mut Vec<SeriesPoint>, end: u64) {
    let Some(first) = points.first().map(|point| point.t_s as u64) else { return };
    let mut known = std::mem::take(points).into_iter().peekable();
    for second in first..end {
        let here = known.next_if(|point| point.t_s as u64 == second);
        points.push(here.unwrap_or(SeriesPoint { t_s: second as f64, ..SeriesPoint::default() }));
    }
    points.extend(known);
}

/// A histogram as histogram logs and other processes take it.
pub(super) fn serialized(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("a Vec takes all that is written");
    bytes
}

/// What [`serialized`] made, as far as it fits the bounds of ours.
pub(super) fn deserialized(bytes: &[u8]) -> io::Result<Histogram<u64>> {
    let bad = |problem: String| io::Error::new(io::ErrorKind::InvalidData, format!("a histogram: {problem}"));
    let mut bytes = bytes;
    let theirs: Histogram<u64> = Deserializer::new().deserialize(&mut bytes).map_err(|error| bad(error.to_string()))?;
    let mut ours = latency_histogram();
    ours.add(&theirs).map_err(|error| bad(error.to_string()))?;
    Ok(ours)
}

fn add(sum: &mut Option<Histogram<u64>>, histogram: &Histogram<u64>) {
    sum.get_or_insert_with(latency_histogram).add(histogram).expect("all latency histograms have the same bounds");
}

/// The histograms of each second of a phase.
#[derive(Clone, Debug)]
pub struct HistogramLog {
    /// When the phase began, its warm-up included.
    pub started: SystemTime,
    /// In order of time.
    pub seconds: Vec<IntervalHistogram>,
}

impl HistogramLog {
    /// Writes HdrHistogram's interval log format: values in nanoseconds, one tag an operation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, out: &mut impl io::Write, phase: &str) -> io::Result<()> {
        let invalid = |problem: &dyn std::fmt::Debug| io::Error::other(format!("histogram log: {problem:?}"));
        let mut serializer = V2DeflateSerializer::new();
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment(&format!("Basalt, phase {phase}: latencies in nanoseconds, warm-up included"))
            .with_start_time(self.started)
            .with_base_time(self.started)
            .with_max_value_divisor(1e6)
            .begin_log_with(out, &mut serializer)?;
        for interval in self.seconds.iter().filter(|interval| !interval.bytes.is_empty()) {
            let histogram = deserialized(&interval.bytes)?;
            let (start, length) = (Duration::from_secs(interval.second), Duration::from_secs(1));
            log.write_histogram(&histogram, start, length, Tag::new(interval.op)).map_err(|error| invalid(&error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn of(values_us: &[u64]) -> Histogram<u64> {
        let mut histogram = latency_histogram();
        values_us.iter().for_each(|value| histogram.record(value * 1000).unwrap());
        histogram
    }

    #[test]
    fn threads_are_merged_second_by_second() {
        let mut timeline = Timeline::new(true);
        timeline.merge(0, OpKind::Read, &of(&[10, 20]));
        timeline.merge(1, OpKind::Read, &of(&[30]));
        timeline.merge(0, OpKind::Read, &of(&[40]));
        timeline.settle(4);
        timeline.merge(0, OpKind::Read, &of(&[900])); // late: it only counts
        timeline.merge(2, OpKind::Update, &of(&[5, 5]));
        let (series, log) = timeline.finish(Duration::from_millis(2500));
        let shown: Vec<_> = series
            .iter()
            .flat_map(|series| {
                series.points.iter().map(|point| (series.op.as_str(), point.t_s, point.ops, point.p50_us.round()))
            })
            .collect();
        assert_eq!(shown, [("READ", 0.0, 4, 20.0), ("READ", 1.0, 1, 30.0), ("UPDATE", 2.0, 4, 5.0)]);
        assert_eq!(series[0].points[0].max_us.round(), 900.0);

        let mut text = Vec::new();
        HistogramLog { started: SystemTime::now(), seconds: log }.write(&mut text, "A").unwrap();
        let read: Vec<_> = IntervalLogIterator::new(&text)
            .filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(line) => {
                    Some((line.tag().unwrap().as_str().to_owned(), line.start_timestamp().as_secs()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(read, [("READ".to_owned(), 0), ("READ".to_owned(), 1), ("UPDATE".to_owned(), 2)]);
    }
}

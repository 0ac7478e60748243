//! YCSB's own text form, byte for byte where YCSB fixes it, so that the scripts that read YCSB's output read ours.
//! Latencies are whole microseconds, as YCSB's are: a fraction is cut off.

use std::fmt::Write as _;

use crate::model::{LatencySummary, OpStats, Phase};

use crate::date;

/// What `hdrhistogram.percentiles` is when it is not set.
pub const PERCENTILES: [f64; 2] = [95.0, 99.0];

/// The order in which operations are printed; others follow.
const ORDER: [&str; 6] = ["READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE", "CLEANUP"];

/// What a status line tells.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The time of day, milliseconds since 1970 (UTC).
    pub now_unix_ms: u64,
    /// Whole seconds since the phase began.
    pub elapsed_s: u64,
    /// Operations done so far.
    pub operations: u64,
    /// Operations a second since the last line.
    pub current_per_s: f64,
    /// Seconds until the end, when the number of operations fixes it.
    pub remaining_s: Option<u64>,
    /// What was recorded since the last line, by operation.
    pub interval: Vec<(String, LatencySummary)>,
}

impl Status {
    /// The line, without its newline.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line =
            format!("{} {} sec: {} operations; ", date::ycsb(self.now_unix_ms), self.elapsed_s, self.operations);
        if self.operations > 0 {
            line.push_str(&format!("{} current ops/sec; ", two_decimals(self.current_per_s)));
        }
        if let Some(remaining) = self.remaining_s {
            line.push_str(&format!("est completion in {}", span(remaining)));
        }
        for (op, latency) in &self.interval {
            let us = |value: f64| value as u64;
            line.push_str(&format!(
                "[{op}: Count={}, Max={}, Min={}, Avg={}, 90={}, 99={}, 99.9={}, 99.99={}] ",
                latency.count,
                us(latency.max_us),
                us(latency.min_us),
                two_decimals(latency.mean_us),
                us(latency.p90_us),
                us(latency.p99_us),
                us(latency.p99_9_us),
                us(latency.p99_99_us),
            ));
        }
        line.trim_end().to_owned()
    }
}

/// The closing figures of one phase, as YCSB prints them at the end of a run.
#[must_use]
pub fn final_output(phase: &Phase, percentiles: &[f64]) -> String {
    let mut out = String::new();
    line(&mut out, "OVERALL", "RunTime(ms)", &format!("{}", (phase.duration_s * 1000.0).round() as u64));
    line(&mut out, "OVERALL", "Throughput(ops/sec)", &java_double(phase.throughput_per_s));
    let rank = |op: &&OpStats| ORDER.iter().position(|name| *name == op.op).unwrap_or(ORDER.len());
    let mut ops: Vec<&OpStats> = phase.ops.iter().collect();
    ops.sort_by_key(rank);
    for op in ops {
        section(&mut out, &op.op, &op.latency.measured, percentiles);
        for (code, times) in &op.returned {
            line(&mut out, &op.op, &format!("Return={code}"), &times.to_string());
        }
        if let Some(intended) = &op.latency.intended {
            section(&mut out, &format!("Intended-{}", op.op), intended, percentiles);
        }
        if let Some(failed) = op.failed_latency.as_ref().filter(|failed| failed.count > 0) {
            section(&mut out, &format!("{}-FAILED", op.op), failed, percentiles);
        }
    }
    out
}

/// The percentiles that `hdrhistogram.percentiles` names; the defaults when it cannot be read, as YCSB does.
#[must_use]
pub fn parse_percentiles(property: &str) -> Vec<f64> {
    let parsed: Result<Vec<f64>, _> = property.split(',').map(|part| part.trim().parse::<f64>()).collect();
    match parsed {
        Ok(list) if list.iter().all(|percentile| (0.0..=100.0).contains(percentile)) => list,
        _ => PERCENTILES.to_vec(),
    }
}

fn line(out: &mut String, section: &str, name: &str, value: &str) {
    writeln!(out, "[{section}], {name}, {value}").expect("a String takes all that is written to it");
}

fn section(out: &mut String, name: &str, latency: &LatencySummary, percentiles: &[f64]) {
    line(out, name, "Operations", &latency.count.to_string());
    line(out, name, "AverageLatency(us)", &java_double(latency.mean_us));
    line(out, name, "MinLatency(us)", &(latency.min_us as u64).to_string());
    line(out, name, "MaxLatency(us)", &(latency.max_us as u64).to_string());
    for percentile in percentiles {
        let label = format!("{}PercentileLatency(us)", ordinal(*percentile));
        line(out, name, &label, &(latency.value_at(*percentile) as u64).to_string());
    }
}

/// `1st`, `2nd`, `95th`; a fraction has no ending in YCSB (`99.9`).
fn ordinal(percentile: f64) -> String {
    if percentile.fract() != 0.0 {
        return java_double(percentile);
    }
    let whole = percentile as u64;
    let ending = match (whole % 100, whole % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{whole}{ending}")
}

/// A double as Java prints it: always with a fraction, and with an exponent from ten millions on.
fn java_double(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e7).contains(&value.abs()) {
        let text = format!("{value:E}");
        let (mantissa, exponent) = text.split_once('E').unwrap_or((&text, "0"));
        let point = if mantissa.contains('.') { "" } else { ".0" };
        return format!("{mantissa}{point}E{exponent}");
    }
    let text = value.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

/// At most two decimals, without trailing zeros.
fn two_decimals(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A span as YCSB words it, trailing blank included: days and hours, or hours and minutes, or seconds.
fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let mut out = String::new();
    let mut unit = |amount: u64, name: &str| {
        if amount > 0 {
            out.push_str(&format!("{amount} {name}{} ", if amount == 1 { "" } else { "s" }));
        }
    };
    unit(days, "day");
    unit(hours, "hour");
    if days == 0 {
        unit(minutes, "minute");
    }
    if out.is_empty() {
        // YCSB asks whether the text has one digit, not whether the number is one.
        out = format!("{seconds} second{} ", if seconds < 10 { "" } else { "s" });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_is_the_one_that_ycsb_prints() {
        let latency = LatencySummary {
            count: 4997,
            max_us: 1234.9,
            min_us: 18.2,
            mean_us: 100.456,
            p90_us: 150.0,
            p99_us: 300.0,
            p99_9_us: 600.0,
            p99_99_us: 1200.0,
            ..LatencySummary::default()
        };
        let mut status = Status {
            now_unix_ms: 1_795_287_800_496,
            elapsed_s: 1,
            operations: 9933,
            current_per_s: 9189.0,
            remaining_s: Some(3),
            interval: vec![("READ".to_owned(), latency)],
        };
        assert_eq!(
            status.line(),
            "2026-11-21 19:03:20:496 1 sec: 9933 operations; 9189 current ops/sec; est completion in 3 second \
             [READ: Count=4997, Max=1234, Min=18, Avg=100.46, 90=150, 99=300, 99.9=600, 99.99=1200]"
        );
        status = Status { now_unix_ms: status.now_unix_ms, ..Status::default() };
        assert_eq!(status.line(), "2026-11-21 19:03:20:496 0 sec: 0 operations;");
    }

    #[test]
    fn java_writes_numbers_its_own_way() {
        let doubles = [(0.0, "0.0"), (810.0, "810.0"), (0.25, "0.25"), (1e7, "1.0E7"), (2.5e-4, "2.5E-4")];
        for (value, want) in doubles {
            assert_eq!(java_double(value), want);
        }
        let ordinals = [(1.0, "1st"), (2.0, "2nd"), (93.0, "93rd"), (95.0, "95th"), (12.0, "12th"), (99.9, "99.9")];
        for (percentile, want) in ordinals {
            assert_eq!(ordinal(percentile), want);
        }
        let spans = [(0, "0 second "), (59, "59 seconds "), (61, "1 minute "), (7320, "2 hours 2 minutes ")];
        for (seconds, want) in spans {
            assert_eq!(span(seconds), want);
        }
        assert_eq!(span(90_000), "1 day 1 hour ");
        assert_eq!(parse_percentiles("50, 99.9"), [50.0, 99.9]);
        assert_eq!(parse_percentiles("p95"), PERCENTILES);
    }
}

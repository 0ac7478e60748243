//! A service level objective (SLO) about latencies and failures: `p99 < 5ms and failed < 0.1%`.

use std::fmt;
use std::str::FromStr;

use crate::figure;
use crate::model::{OpStats, Phase};
use crate::workload::{Mix, OpKind};

/// A store that does less than this share of what is offered falls behind: its latencies only grow.
pub(crate) const KEPT_UP_SHARE: f64 = 0.98;

/// Below this share no noise explains it.
const FAR_BEHIND_SHARE: f64 = 0.9;

/// All of it must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo(Vec<Objective>);

#[derive(Clone, Debug, PartialEq)]
struct Objective {
    /// Of this operation; of each if none is named.
    op: Option<String>,
    figure: Figure,
    /// Microseconds, or a share.
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Percentile(f64),
    Mean,
    Failed,
}

/// What an SLO says of one latency.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LatencyObjective {
    objective: Objective,
}

impl LatencyObjective {
    /// Which latency: `READ p99`.
    pub(crate) fn name(&self) -> String {
        let op = self.objective.op.as_ref().map_or_else(String::new, |op| format!("{op} "));
        op + &self.objective.figure.name()
    }

    /// What it must stay below, in microseconds.
    pub(crate) fn bound_us(&self) -> f64 {
        self.objective.bound
    }

    /// What it was in a phase: of the slowest kind of operation, unless one is named.
    pub(crate) fn of(&self, phase: &Phase) -> Option<f64> {
        phase
            .ops
            .iter()
            .filter(|op| self.objective.is_about(op))
            .filter_map(|op| self.objective.figure.of(op))
            .reduce(f64::max)
    }
}

impl Objective {
    fn is_about(&self, op: &OpStats) -> bool {
        op.op != "CLEANUP" && self.op.as_ref().is_none_or(|name| *name == op.op)
    }
}

/// What a trial came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) holds: bool,
    /// The worst figure as a multiple of its bound; without end when the store fell far behind.
    pub(crate) ratio: f64,
    /// In words.
    pub(crate) why: String,
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let objectives: Result<Vec<Objective>, String> =
            text.split(" and ").flat_map(|part| part.split(',')).map(str::parse).collect();
        Ok(Self(objectives?))
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("`{}`: expected an SLO such as `p99 < 5ms`, `READ p99.9 < 20ms` or `failed < 0.1%`", text.trim())
        };
        let (left, bound) = text.split_once('<').ok_or_else(bad)?;
        let bound = bound.trim_start_matches('=').trim();
        let words: Vec<&str> = left.split_whitespace().collect();
        let (op, figure) = match words[..] {
            [figure] => (None, figure),
            [op, figure] => (Some(op.to_uppercase()), figure),
            _ => return Err(bad()),
        };
        let figure = match figure.to_lowercase().as_str() {
            "mean" | "avg" => Figure::Mean,
            "max" => Figure::Percentile(100.0),
            "median" => Figure::Percentile(50.0),
            "failed" | "errors" => Figure::Failed,
            other => {
                let percentile = other.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
                Figure::Percentile(percentile.filter(|p| (0.0..=100.0).contains(p)).ok_or_else(bad)?)
            }
        };
        let bound = if figure == Figure::Failed { share(bound) } else { time_us(bound) };
        Ok(Self { op, figure, bound: bound.ok_or_else(bad)? })
    }
}

fn share(text: &str) -> Option<f64> {
    let percent = text.strip_suffix('%')?.trim().parse::<f64>().ok()?;
    (percent > 0.0 && percent <= 100.0).then_some(percent / 100.0)
}

fn time_us(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, factor) = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let value = number.trim().parse::<f64>().ok()? * factor;
    (value.is_finite() && value > 0.0).then_some(value)
}

impl fmt::Display for Slo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, objective) in self.0.iter().enumerate() {
            let op = objective.op.as_ref().map_or_else(String::new, |op| format!("{op} "));
            let joint = if index > 0 { " and " } else { "" };
            write!(out, "{joint}{op}{} < {}", objective.figure.name(), objective.figure.text(objective.bound))?;
        }
        Ok(())
    }
}

impl Figure {
    fn name(self) -> String {
        match self {
            Self::Percentile(p) if p >= 100.0 => "max".to_owned(),
            Self::Percentile(p) => format!("p{p}"),
            Self::Mean => "mean".to_owned(),
            Self::Failed => "failed".to_owned(),
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Self::Failed => format!("{:.3} %", value * 100.0),
            _ => figure::latency(value),
        }
    }

    fn of(self, op: &OpStats) -> Option<f64> {
        let latency = op.latency.headline();
        match self {
            // A read-modify-write has no errors of its own: those are its parts'.
            Self::Failed => Some((op.count() - op.succeeded()) as f64 / op.count().max(1) as f64),
            _ if latency.count == 0 => None,
            Self::Percentile(p) => Some(latency.value_at(p)),
            Self::Mean => Some(latency.mean_us),
        }
    }
}

impl Slo {
    /// Whether the phase kept the objective.
    pub(crate) fn judge(&self, phase: &Phase) -> Judged {
        if let Some(why) = fell_behind(phase) {
            let too_slow =
                phase.offered_per_s.is_some_and(|offered| phase.throughput_per_s < offered * FAR_BEHIND_SHARE);
            let due = (phase.operations + phase.not_started) as f64;
            let far = too_slow || (phase.operations as f64) < due * FAR_BEHIND_SHARE;
            return Judged { holds: false, ratio: if far { f64::INFINITY } else { 1.0 }, why };
        }
        let mut worst: Option<Judged> = None;
        for objective in &self.0 {
            for op in phase.ops.iter().filter(|op| objective.is_about(op)) {
                let Some(value) = objective.figure.of(op) else { continue };
                let ratio = value / objective.bound;
                if worst.as_ref().is_none_or(|worst| ratio > worst.ratio) {
                    let text = |value| objective.figure.text(value);
                    let why =
                        format!("{} {} {} of {}", op.op, objective.figure.name(), text(value), text(objective.bound));
                    worst = Some(Judged { holds: ratio < 1.0, ratio, why });
                }
            }
        }
        let why = "no such operation succeeded".to_owned();
        worst.unwrap_or(Judged { holds: false, ratio: f64::INFINITY, why })
    }

    /// Operations that a trial must have for its figures to be told: ten beyond the rarest percentile.
    pub(crate) fn operations_min(&self) -> f64 {
        const BEYOND: f64 = 10.0;
        let rarest = self.0.iter().map(|objective| match objective.figure {
            Figure::Percentile(p) if p < 100.0 => 1.0 - p / 100.0,
            _ => 0.1,
        });
        BEYOND / rarest.fold(0.1, f64::min)
    }

    /// The percentiles that it speaks of.
    pub(crate) fn percentiles(&self) -> impl Iterator<Item = f64> {
        self.0.iter().filter_map(|objective| match objective.figure {
            Figure::Percentile(percentile) => Some(percentile),
            Figure::Mean | Figure::Failed => None,
        })
    }

    /// What it says of latencies.
    pub(crate) fn latencies(&self) -> Vec<LatencyObjective> {
        let of_latency = self.0.iter().filter(|objective| objective.figure != Figure::Failed);
        of_latency.map(|objective| LatencyObjective { objective: objective.clone() }).collect()
    }

    /// Whether a workload has the operations that objectives name.
    ///
    /// # Errors
    /// The first that it does not have.
    pub(crate) fn check(&self, mix: &Mix) -> Result<(), String> {
        let known: Vec<&str> =
            OpKind::ALL.into_iter().filter(|&kind| mix.share(kind) > 0.0).map(OpKind::name).collect();
        let mut named = self.0.iter().filter_map(|objective| objective.op.as_deref());
        match named.find(|op| !known.contains(op)) {
            Some(op) => Err(format!("the workload has no {op}, but {}", known.join(", "))),
            None => Ok(()),
        }
    }
}

/// In words, if the store did too little of what was offered. Operations that were never started are above any bound; as they
/// wait in the order in which they were due, those before them were as late.
pub(crate) fn fell_behind(phase: &Phase) -> Option<String> {
    if phase.not_started > 0 {
        let operations = figure::plural(phase.not_started, "operation");
        return Some(format!("fell behind: {operations} due and not started"));
    }
    let offered = phase.offered_per_s.filter(|offered| phase.throughput_per_s < offered * KEPT_UP_SHARE)?;
    Some(format!("fell behind: {} of {}/s", figure::rate(phase.throughput_per_s), figure::rate(offered)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::{Latency, LatencySummary};

    fn phase(p99_us: f64, achieved: f64) -> Phase {
        let summary =
            LatencySummary { count: 1000, p99_us, mean_us: p99_us / 4.0, max_us: p99_us * 3.0, ..Default::default() };
        let op = |name: &str, errors: u64| OpStats {
            op: name.to_owned(),
            latency: Latency { intended: Some(summary.clone()), ..Latency::default() },
            returned: [("OK".to_owned(), 1000 - errors), ("ERROR".to_owned(), errors)].into_iter().collect(),
            errors: [("timeout".to_owned(), errors)].into_iter().collect(),
            ..OpStats::default()
        };
        Phase {
            throughput_per_s: achieved,
            offered_per_s: Some(1000.0),
            ops: vec![op("READ", 0), op("UPDATE", 5)],
            ..Phase::default()
        }
    }

    #[test]
    fn objectives() {
        for (text, shown) in [
            ("p99 < 5ms", "p99 < 5.00 ms"),
            ("read p99.9<=250us", "READ p99.9 < 250 µs"),
            (
                "p50 < 1ms and UPDATE max < 2s, failed < 0.1%",
                "p50 < 1.00 ms and UPDATE max < 2.00 s and failed < 0.100 %",
            ),
        ] {
            assert_eq!(text.parse::<Slo>().unwrap().to_string(), shown);
        }
        for text in ["", "p99", "p99 < 5", "p101 < 5ms", "a b p99 < 5ms", "p99 < -1ms", "failed < 1ms", "p99 > 5ms"] {
            assert!(text.parse::<Slo>().is_err(), "{text}");
        }
        let goal: Slo = "p99.9 < 20ms and mean < 1ms".parse().unwrap();
        assert!((goal.operations_min() - 10_000.0).abs() < 1e-3);
        assert_eq!(goal.percentiles().collect::<Vec<_>>(), [99.9]);
        let goal: Slo = "SCAN p99 < 1s".parse().unwrap();
        let mix = Mix::new(&[(OpKind::Read, 1.0), (OpKind::Update, 1.0)]).unwrap();
        assert_eq!(goal.check(&mix), Err("the workload has no SCAN, but READ, UPDATE".to_owned()));
        assert_eq!(goal.check(&Mix::only(OpKind::Scan)), Ok(()));
    }

    /// The errors of a read-modify-write are counted with its parts, and it failed all the same.
    #[test]
    fn a_read_modify_write_fails_with_its_parts() {
        let returned = [("OK".to_owned(), 900), ("ERROR".to_owned(), 100)].into_iter().collect();
        let whole = OpStats { op: "READ-MODIFY-WRITE".to_owned(), returned, ..OpStats::default() };
        let phase = Phase { ops: vec![whole], ..Phase::default() };
        for (bound, holds) in [("5", false), ("20", true)] {
            let judged = format!("READ-MODIFY-WRITE failed < {bound}%").parse::<Slo>().unwrap().judge(&phase);
            assert_eq!((judged.holds, judged.ratio > 0.0), (holds, true), "{}", judged.why);
        }
    }

    #[test]
    fn judgements() {
        for (goal, p99_us, achieved, holds, why) in [
            ("p99 < 5ms", 4_000.0, 999.0, true, "READ p99 4.00 ms of 5.00 ms"),
            ("p99 < 5ms", 5_000.0, 999.0, false, "READ p99 5.00 ms of 5.00 ms"),
            ("p99 < 5ms", 1_000.0, 900.0, false, "fell behind: 900 of 1,000/s"),
            ("mean < 5ms and failed < 0.1%", 1_000.0, 1000.0, false, "UPDATE failed 0.500 % of 0.100 %"),
            ("SCAN p99 < 5ms", 1_000.0, 1000.0, false, "no such operation succeeded"),
        ] {
            let judged = goal.parse::<Slo>().unwrap().judge(&phase(p99_us, achieved));
            assert_eq!((judged.holds, judged.why.as_str()), (holds, why), "{goal}");
        }
    }

    #[test]
    fn what_was_not_started_is_above_any_bound() {
        let goal: Slo = "p99 < 5ms".parse().unwrap();
        for (not_started, ratio) in [(1, 1.0), (1000, f64::INFINITY)] {
            // Of what was done, every figure holds.
            let judged = goal.judge(&Phase { operations: 2000, not_started, ..phase(1_000.0, 999.0) });
            assert_eq!((judged.holds, judged.ratio), (false, ratio), "{not_started}: {}", judged.why);
            assert!(judged.why.starts_with("fell behind: ") && judged.why.ends_with("due and not started"));
        }
    }
}

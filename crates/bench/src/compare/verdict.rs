//! What follows from the figures: better, worse, or no more than noise.

use serde::Serialize;

use super::figures::{Figure, Kind, figures};
use super::options::CompareOptions;
use super::side::Side;
use crate::figure;
use crate::model::{BuildProfile, Phase, RunOutcome};
use crate::statistics::{Scale, holm};

/// What may be said of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// Beyond noise, for the better.
    Better,
    /// Beyond noise, for the worse.
    Worse,
    /// No more than noise.
    Noise,
    /// Beyond noise, and less than what matters.
    Small,
    /// The noise is not known.
    Unknown,
}

impl Verdict {
    /// The words that are printed.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::Noise => "within noise",
            Self::Small => "too small to matter",
            Self::Unknown => "cannot tell",
        }
    }
}

/// A figure of one side.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    pub(super) value: Option<f64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
}

/// One figure of two sides.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Change {
    pub(super) phase: String,
    pub(super) op: String,
    pub(super) figure: &'static str,
    pub(super) unit: &'static str,
    pub(super) before: Shown,
    pub(super) after: Shown,
    /// As a share of what was before; of failures, in shares of all operations.
    pub(super) change: Option<f64>,
    pub(super) change_low: Option<f64>,
    pub(super) change_high: Option<f64>,
    /// How probable it is when nothing has changed, corrected for the number of questions.
    pub(super) chance: Option<f64>,
    pub(super) verdict: Verdict,
    /// Whether it decides about the exit code.
    pub(super) decides: bool,
    /// Why the noise is not known.
    pub(super) why: Option<&'static str>,
    #[serde(skip)]
    pub(super) kind: Kind,
}

/// One side against the first.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Against {
    pub(super) side: String,
    pub(super) given: String,
    pub(super) runs: usize,
    /// In what it was set up differently.
    pub(super) differences: Vec<String>,
    /// What needs no statistics, and weighs more: wrong answers, runs that failed.
    pub(super) faults: Vec<String>,
    pub(super) changes: Vec<Change>,
    pub(super) is_worse: bool,
    /// No figure that decides has a known noise.
    pub(super) is_undecided: bool,
    /// In whole sentences.
    pub(super) summary: Vec<String>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) baseline: String,
    pub(super) baseline_runs: usize,
    pub(super) confidence: f64,
    pub(super) matters_percent: f64,
    pub(super) cautions: Vec<String>,
    pub(super) sides: Vec<Against>,
    pub(super) is_worse: bool,
}

/// Sets every side against the first.
pub(super) fn compare(sides: &[Side], options: &CompareOptions) -> Result<Comparison, String> {
    let (first, others) = sides.split_first().ok_or("nothing to compare")?;
    let wanted = |name: &&str| options.phases.is_empty() || options.phases.iter().any(|phase| phase == name);
    let mut found = Vec::new();
    for side in others {
        let theirs = side.phases();
        let shared: Vec<&str> =
            first.phases().into_iter().filter(|name| theirs.contains(name)).filter(wanted).collect();
        if shared.is_empty() {
            return Err(format!(
                "no phase to compare: {} has {}, {} has {}",
                first.letter,
                first.phases().join(", "),
                side.letter,
                theirs.join(", ")
            ));
        }
        let mut changes = Vec::new();
        for phase in shared {
            let (before, after) = (figures(first, phase)?, figures(side, phase)?);
            changes.extend(before.iter().filter_map(|figure| {
                let same = |other: &&Figure| other.op == figure.op && other.name == figure.name;
                Some(change(phase, figure, after.iter().find(same)?, options))
            }));
        }
        found.push((side, changes));
    }
    decide(&mut found, options);
    let against: Vec<Against> = found.into_iter().map(|(side, changes)| conclude(first, side, changes)).collect();
    Ok(Comparison {
        baseline: first.given.clone(),
        baseline_runs: first.runs.len(),
        confidence: options.confidence,
        matters_percent: options.matters,
        cautions: cautions(sides),
        is_worse: against.iter().any(|side| side.is_worse),
        sides: against,
    })
}

fn change(phase: &str, before: &Figure, after: &Figure, options: &CompareOptions) -> Change {
    let scale = if before.kind == Kind::Failures { Scale::Difference } else { Scale::Ratio };
    let shown = |figure: &Figure| {
        let bounds = figure.noisy.as_ref().ok().map(|noisy| noisy.bounds(options.confidence));
        let bound = |value: f64| Some(value.max(0.0)).filter(|value| value.is_finite());
        Shown { value: figure.value, low: bounds.and_then(|b| bound(b.0)), high: bounds.and_then(|b| bound(b.1)) }
    };
    let difference = match (&before.noisy, &after.noisy) {
        (Ok(before), Ok(after)) => Ok(before.to(after, scale, options.confidence)),
        (Err(why), _) | (_, Err(why)) => Err(*why),
    };
    let plain = match (before.value, after.value, scale) {
        (Some(before), Some(after), Scale::Ratio) if before > 0.0 => Some(after / before - 1.0),
        (Some(before), Some(after), Scale::Difference) => Some(after - before),
        _ => None,
    };
    let of = |get: fn(&crate::statistics::Difference) -> f64| {
        difference.as_ref().ok().map(get).filter(|value| value.is_finite())
    };
    Change {
        phase: phase.to_owned(),
        op: before.op.clone(),
        figure: before.name,
        unit: unit(before.kind),
        before: shown(before),
        after: shown(after),
        change: of(|difference| difference.value).or(plain),
        change_low: of(|difference| difference.low),
        change_high: of(|difference| difference.high),
        chance: of(|difference| difference.chance),
        verdict: Verdict::Unknown,
        decides: matches!(before.kind, Kind::Throughput | Kind::Latency | Kind::Failures),
        why: difference.err(),
        kind: before.kind,
    }
}

fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Throughput => "operations/s",
        Kind::Latency => "us",
        Kind::Failures => "share",
        Kind::Cpu => "CPU s/1,000,000 operations",
        Kind::Bytes => "bytes",
        Kind::Gap => "s",
    }
}

/// Gives every change its verdict. Those that decide and those that do not are corrected apart.
fn decide(found: &mut [(&Side, Vec<Change>)], options: &CompareOptions) {
    for decides in [true, false] {
        let mut asked: Vec<&mut Change> = found
            .iter_mut()
            .flat_map(|(_, changes)| changes)
            .filter(|change| change.decides == decides && change.chance.is_some())
            .collect();
        let chances: Vec<f64> = asked.iter().filter_map(|change| change.chance).collect();
        for (change, chance) in asked.iter_mut().zip(holm(&chances)) {
            change.chance = Some(chance);
            let by = change.change.unwrap_or(0.0);
            let improves = (by > 0.0) == (change.kind == Kind::Throughput);
            change.verdict = match chance < 1.0 - options.confidence {
                false => Verdict::Noise,
                // A share of failures is a difference already: any that is beyond noise matters.
                true if by.abs() * 100.0 < options.matters && change.kind != Kind::Failures => Verdict::Small,
                true if improves => Verdict::Better,
                true => Verdict::Worse,
            };
        }
    }
}

fn conclude(first: &Side, side: &Side, changes: Vec<Change>) -> Against {
    let faults = faults(first, side);
    let worse: Vec<&Change> =
        changes.iter().filter(|change| change.decides && change.verdict == Verdict::Worse).collect();
    let is_worse = !worse.is_empty() || !faults.is_empty();
    let known = |change: &&Change| change.decides && change.verdict != Verdict::Unknown;
    let asked = changes.iter().filter(known).count();
    let is_undecided = asked == 0 && !is_worse;
    let (a, b) = (&first.letter, &side.letter);
    let mut summary = Vec::new();
    summary.push(match (is_worse, is_undecided) {
        (true, _) => format!("{b} is WORSE than {a} by more than noise."),
        (false, true) => format!("Whether {b} is worse than {a} cannot be told."),
        (false, false) => format!("{b} is no worse than {a}."),
    });
    let clear = |change: &&Change| matches!(change.verdict, Verdict::Worse | Verdict::Better);
    summary.extend(changes.iter().filter(clear).map(sentence));
    if !is_undecided && !changes.iter().any(|change| clear(&change)) && faults.is_empty() {
        summary.push(format!(
            "None of {} that decide differs by more than noise.",
            figure::plural(asked as u64, "figure")
        ));
    }
    Against {
        side: b.clone(),
        given: side.given.clone(),
        runs: side.runs.len(),
        differences: first.differences(side),
        faults,
        changes,
        is_worse,
        is_undecided,
        summary,
    }
}

fn sentence(change: &Change) -> String {
    let by = change.change.unwrap_or(0.0);
    let went = if by > 0.0 { "rose" } else { "fell" };
    let what = match change.op.as_str() {
        super::figures::ALL => change.figure.to_owned(),
        op => format!("{op} {}", change.figure),
    };
    let percent = |value: f64| format!("{:.1}", value.abs() * 100.0);
    let range = match (change.change_low, change.change_high) {
        (Some(low), Some(high)) if (low > 0.0) == (high > 0.0) => {
            let (near, far) = (low.abs().min(high.abs()), low.abs().max(high.abs()));
            format!(" ({} to {} %)", percent(near), percent(far))
        }
        _ => String::new(),
    };
    let points = if change.kind == Kind::Failures { " of all operations" } else { "" };
    format!(
        "Phase {}: {what} {went} by {} %{points}{range}: {}.",
        change.phase,
        percent(by),
        change.verdict.words().to_lowercase()
    )
}

/// Something of a phase that can be counted.
type Count = fn(&Phase) -> u64;

/// What needs no statistics.
fn faults(first: &Side, side: &Side) -> Vec<String> {
    let mut list = Vec::new();
    let sum = |side: &Side, of: Count| -> u64 {
        side.runs.iter().flat_map(|run| &run.report.phases).map(of).fold(0, u64::saturating_add)
    };
    let counts: [(&str, Count); 2] = [
        ("answers that were not what had been written", Phase::verification_failures),
        ("records not found that must exist", Phase::not_found),
    ];
    for (what, of) in counts {
        let (before, after) = (sum(first, of), sum(side, of));
        if after > before {
            list.push(format!("{}: {} {what} ({}: {}).", side.letter, figure::count(after), first.letter, before));
        }
    }
    let failed = |side: &Side| side.runs.iter().filter(|run| run.report.outcome == RunOutcome::Failed).count();
    if failed(side) > 0 && failed(first) == 0 {
        list.push(format!("{}: {} of {} runs could not go on.", side.letter, failed(side), side.runs.len()));
    }
    list
}

/// What the reader must know before the figures.
fn cautions(sides: &[Side]) -> Vec<String> {
    let mut list = Vec::new();
    let mut add = |text: String| {
        if !list.contains(&text) {
            list.push(text);
        }
    };
    for side in sides {
        for run in &side.runs {
            let at = run.path.display();
            if run.report.environment.build == BuildProfile::Debug {
                add("A debug build was measured: its figures mean nothing.".to_owned());
            }
            if run.report.outcome == RunOutcome::Interrupted {
                add(format!("{at} was interrupted."));
            }
        }
    }
    if sides.iter().any(|side| side.runs.len() == 1) {
        add("A side has one run: the noise inside it is known, and what differs from run to run is not (where tables \
             and leaders lie, who else uses the machine). Five runs a side, in turn, would tell."
            .to_owned());
    }
    list
}

//! What a search for a rate shows: every trial with its verdict, and how sure the answer is. The same in every report.

use crate::model::{Phase, RunReport, Search, Trial};
use crate::slo::{LatencyObjective, Slo};

use crate::figure;

/// The heads of [`rows`].
pub const HEADS: [&str; 7] = ["trial", "offered", "achieved", "p50", "p99", "", "why"];
/// Trials of rates that lie closer than this are of one rate.
const SAME_RATE: f64 = 1e-9;

/// Trials as points: operations a second that were offered, and microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trials {
    /// Which latency.
    pub name: String,
    /// What it had to stay below; none where rates were given.
    pub bound_us: Option<f64>,
    /// Those that kept the objective.
    pub held: Vec<(f64, f64)>,
    /// Those that did not.
    pub failed: Vec<(f64, f64)>,
}

/// What is looked for, in words.
#[must_use]
pub fn title(search: &Search) -> String {
    if search.is_curve() {
        "Latency against offered load".to_owned()
    } else {
        format!("The highest rate at which {}", search.goal)
    }
}

/// The trials, once for each latency of which the objective speaks.
#[must_use]
pub fn pictures(search: &Search, report: &RunReport) -> Vec<Trials> {
    let goal: Option<Slo> = search.goal.parse().ok();
    let objectives = goal.map(|goal| goal.latencies()).unwrap_or_default();
    if objectives.is_empty() {
        // Rates were given, or failures alone were asked for to be few.
        return vec![trials(search, "p99", None, &|one, _| Some(one.p99_us), report)];
    }
    let of = |objective: &LatencyObjective| {
        trials(search, &objective.name(), Some(objective.bound_us()), &|_, phase| objective.of(phase?), report)
    };
    objectives.iter().map(of).collect()
}

fn trials(
    search: &Search,
    name: &str,
    bound_us: Option<f64>,
    value: &dyn Fn(&Trial, Option<&Phase>) -> Option<f64>,
    report: &RunReport,
) -> Trials {
    let mut found = Trials { name: name.to_owned(), bound_us, ..Trials::default() };
    for one in search.trials.iter().filter(|one| !one.set_aside) {
        let phase = report.phases.iter().find(|phase| phase.name == one.phase);
        let Some(value) = value(one, phase).filter(|value| *value > 0.0) else { continue };
        let list = if one.holds { &mut found.held } else { &mut found.failed };
        list.push((one.offered_per_s, value));
    }
    for list in [&mut found.held, &mut found.failed] {
        list.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    }
    found
}

/// One row a trial, in the order in which they were made.
#[must_use]
pub fn rows(search: &Search) -> Vec<[String; HEADS.len()]> {
    let row = |one: &Trial| {
        [
            one.phase.clone(),
            format!("{}/s", figure::rate(one.offered_per_s)),
            format!("{}/s", figure::rate(one.achieved_per_s)),
            figure::latency(one.p50_us),
            figure::latency(one.p99_us),
            one.verdict().to_owned(),
            one.why.clone(),
        ]
    };
    search.trials.iter().map(row).collect()
}

/// Between which rates the answer lies, and how many trials of each say so.
#[must_use]
pub fn interval(search: &Search) -> Option<String> {
    let votes = |rate: f64| {
        let of_rate = || {
            search.trials.iter().filter(move |one| !one.set_aside && (one.offered_per_s / rate - 1.0).abs() < SAME_RATE)
        };
        (of_rate().filter(|one| one.holds).count() as u64, of_rate().count() as u64)
    };
    let (best, failed) = (search.best_per_s?, search.failed_per_s?);
    let ((held, tried), (held_above, tried_above)) = (votes(best), votes(failed));
    Some(format!(
        "It lies between {}/s, which held in {held} of {}, and {}/s, which held in {held_above} of {}.",
        figure::rate(best),
        figure::plural(tried, "trial"),
        figure::rate(failed),
        figure::plural(tried_above, "trial"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_how_many_tries_stand_behind_it() {
        let tried = |offered_per_s, holds| Trial { offered_per_s, holds, ..Trial::default() };
        let search = Search {
            best_per_s: Some(1000.0),
            failed_per_s: Some(1050.0),
            trials: vec![tried(1000.0, true), tried(1050.0, false), tried(1000.0, false), tried(1000.0, true)],
            ..Search::default()
        };
        let text = interval(&search).unwrap_or_default();
        assert_eq!(
            text,
            "It lies between 1,000/s, which held in 2 of 3 trials, and 1,050/s, which held in 0 of 1 trial."
        );
        assert_eq!(interval(&Search::default()), None);
    }
}

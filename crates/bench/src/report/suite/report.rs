//! All that a suite's run found.

use serde::{Deserialize, Serialize};

use crate::model::{RunOutcome, RunReport, StepRecord, SuiteRecord};
use crate::report::{self, Severity, Warning};

/// A suite's run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuiteReport {
    /// The run as a whole.
    pub about: SuiteRecord,
    /// Its steps, in the order of parts and steps.
    pub steps: Vec<StepRecord>,
}

impl SuiteReport {
    /// What to know first. What holds for several steps is told once, with their number.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut list = Vec::new();
        let mut add = |severity: Severity, text: String| {
            if list.iter().all(|known: &Warning| known.text != text) {
                list.push(Warning { severity, text });
            }
        };
        match self.about.outcome {
            RunOutcome::Completed => {}
            RunOutcome::Interrupted => add(
                Severity::Failure,
                "The run was interrupted: steps are missing. `--resume` goes on with it.".to_owned(),
            ),
            RunOutcome::Failed => add(Severity::Failure, "Not all steps could be taken.".to_owned()),
        }
        stops(&self.about.notes).into_iter().for_each(|text| add(Severity::Failure, text));
        self.failures().into_iter().for_each(|text| add(Severity::Failure, text));
        self.cautions().into_iter().for_each(|text| add(Severity::Caution, text));
        for step in &self.steps {
            step.notes.iter().for_each(|note| add(Severity::Note, note.clone()));
        }
        list.sort_by_key(|warning| warning.severity);
        list
    }

    /// What went wrong, step by step; of a search's trials what is wrong at any load.
    fn failures(&self) -> Vec<String> {
        let mut list = Vec::new();
        for step in &self.steps {
            let Some(report) = &step.report else { continue };
            let place = format!("{}, {}: ", step.part.1, step.step.1);
            let found = report::warnings(report).into_iter();
            list.extend(found.filter(|of| of.severity == Severity::Failure).map(|of| place.clone() + &of.text));
            let searches = report.searches.iter().filter(|search| search.best_per_s.is_none());
            list.extend(searches.map(|search| place.clone() + &search.answer));
        }
        list
    }

    /// What may mislead. The same of several steps is told once.
    fn cautions(&self) -> Vec<String> {
        let mut kinds: Vec<(Caution, Vec<String>)> = Vec::new();
        for step in &self.steps {
            let Some(report) = &step.report else { continue };
            // Trials of a search are short and too much for the store by intention.
            let tried = !report.searches.is_empty();
            for warning in report::warnings(report).into_iter().filter(|of| of.severity == Severity::Caution) {
                let kind = Caution::of(&warning.text);
                if tried && kind != Caution::Debug {
                    continue;
                }
                let place = format!("{}, {}", step.part.1, step.step.1);
                match kinds.iter_mut().find(|(known, _)| *known == kind) {
                    Some((_, places)) if places.contains(&place) => {}
                    Some((_, places)) => places.push(place),
                    None => kinds.push((kind, vec![place])),
                }
            }
        }
        kinds.into_iter().map(|(kind, places)| kind.text(&places)).collect()
    }

    /// Where and with what it ran.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let run = RunReport {
            identity: self.about.identity.clone(),
            environment: self.about.environment.clone(),
            ..RunReport::default()
        };
        report::environment(&run)
    }
}

/// Between a part's name and why it was left.
pub(crate) const STOPPED: &str = " could not go on: ";

/// Why parts were left: what kept several of them is told once.
fn stops(notes: &[String]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for note in notes {
        let (part, why) = note.split_once(STOPPED).unwrap_or(("", note));
        let part = part.trim_start_matches("Part ");
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, parts)) => parts.push(part),
            None => reasons.push((why, vec![part])),
        }
    }
    let told = |(why, parts): (&str, Vec<&str>)| match parts.as_slice() {
        [""] => why.to_owned(),
        [part] => format!("Part {part}{STOPPED}{why}"),
        parts => format!("{} parts{STOPPED}{why} They are: {}.", parts.len(), parts.join("; ")),
    };
    reasons.into_iter().map(told).collect()
}

/// What may mislead, by its kind: of many steps the first few are named.
#[derive(Clone, Debug, PartialEq)]
enum Caution {
    Debug,
    Short,
    Busy,
    Others,
    Stolen,
    Behind,
    Memory,
    Own(String),
}

impl Caution {
    /// The kind of a caution of one run.
    fn of(text: &str) -> Self {
        let has = |part: &str| text.contains(part);
        match text {
            _ if has("debug build") => Self::Debug,
            _ if has("Measured for less than") => Self::Short,
            _ if has("client's threads were busy") => Self::Busy,
            _ if has("steal time") => Self::Stolen,
            _ if has("used") && has("of one's own") => Self::Others,
            _ if has("Peak memory") && has("times the budget") => Self::Memory,
            _ if has("It fell behind") => Self::Behind,
            _ => Self::Own(text.to_owned()),
        }
    }

    fn text(&self, places: &[String]) -> String {
        /// More are counted.
        const NAMED: usize = 3;
        let more = if places.len() > NAMED { format!("; and {} more", places.len() - NAMED) } else { String::new() };
        let steps = format!("{}{more}", places[..places.len().min(NAMED)].join("; "));
        match self {
            Self::Debug => {
                "This is a debug build, several times slower than a release build: its figures mean nothing.".to_owned()
            }
            Self::Short => format!("Measured for less than 10 s, too short to show what compaction costs: {steps}."),
            Self::Busy => format!(
                "The client's threads were busy more than 85 % of the time, so the figures may show its ceiling rather than \
                 the store's; on one machine they also take their time from the store: {steps}."
            ),
            Self::Others => format!(
                "Other processes than the store and its clients, or the kernel for them, used more than 15 % of this machine's \
                 cores, so the figures are lower, and scatter more, than they would on a machine of one's own: {steps}."
            ),
            Self::Stolen => format!(
                "This machine's host gave more than 3 % of its cores to other machines (steal time), so the figures are lower, and \
                 scatter more, than they would on a machine of one's own: {steps}."
            ),
            Self::Memory => {
                format!("Peak memory was more than 1.3 times what the nodes were given (--memory): {steps}.")
            }
            Self::Behind => {
                format!("Less was done than was offered, so latency grows with the length of the step: {steps}.")
            }
            Self::Own(text) => format!("{steps}: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stops_several_parts_is_told_once() {
        let notes =
            ["Part a could not go on: no disk.", "Part b could not go on: no net.", "Part c could not go on: no disk."];
        let told = stops(&notes.map(str::to_owned));
        let expected = ["2 parts could not go on: no disk. They are: a; c.", "Part b could not go on: no net."];
        assert_eq!(told, expected);
        assert_eq!(stops(&["Otherwise.".to_owned()]), ["Otherwise."]);
    }
}

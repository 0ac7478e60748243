//! How long a suite takes: what its steps ask for, corrected while it runs by how long those took that are done.

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

use super::file::{Does, StepFile};
use super::names::number_of;
use super::plan::{Part, Plan, Step};
use crate::options::Span;

/// A load of which nothing is known makes so many records a second, and bytes: two cores that make the load too.
const RECORDS_PER_S: f64 = 20_000.0;
const BYTES_PER_S: f64 = 12e6;
/// Between a phase's end and the next one's beginning: connecting, counting bytes, writing what was measured.
const BETWEEN_S: f64 = 1.5;
/// A store that has nothing to do is seen to rest after this time.
const REST_S: f64 = 3.0;
/// Trials of a search that begins near its answer.
const TRIES: f64 = 14.0;
/// What searches and their trials last by default.
const TRY_S: f64 = 13.0;

/// What is done with how long it takes, by what and on what.
type Kind = (&'static str, String);

/// What lies ahead.
#[derive(Debug)]
pub(super) struct Outlook {
    /// Seconds that were planned and that it took, of what has been done.
    seen: BTreeMap<Kind, (f64, f64)>,
    /// Numbers of parts and steps that have been taken.
    done: BTreeSet<(usize, usize)>,
}

/// Seconds, by where they go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    /// Phases whose length is given.
    pub(super) phases: f64,
    /// Loads and deletes, which end when they are done.
    pub(super) loads: f64,
    /// Stores that start and come to rest.
    pub(super) stores: f64,
}

impl Spent {
    /// All of it.
    pub(super) fn all(self) -> f64 {
        self.phases + self.loads + self.stores
    }
}

impl Outlook {
    /// Before anything is known.
    pub(super) fn new() -> Self {
        Self { seen: BTreeMap::new(), done: BTreeSet::new() }
    }

    /// A step was taken before.
    pub(super) fn knew(&mut self, part: usize, step: usize) {
        self.done.insert((part, step));
    }

    /// A step of `part` took so long.
    pub(super) fn took(&mut self, part: &Part, step: &Step, seconds: f64) {
        let seen = self.seen.entry(kind(part, step.file.does)).or_default();
        *seen = (seen.0 + planned_s(&step.file), seen.1 + seconds);
        self.done.insert((part.number, step.number));
    }

    /// How many steps of `plan` have been taken, of how many, and how many seconds the others will take.
    pub(super) fn progress(&self, plan: &Plan) -> (usize, usize, f64) {
        let is_done = |part: &Part, step: &Step| self.done.contains(&(part.number, step.number));
        let all = || plan.parts.iter().flat_map(|part| part.steps.iter().map(move |step| (part, step)));
        let done = all().filter(|(part, step)| is_done(part, step)).count();
        (done, all().count(), self.ahead(plan, &is_done).all())
    }

    /// The store of `part` took so long to start.
    pub(super) fn started(&mut self, part: &Part, seconds: f64) {
        let seen = self.seen.entry(("start", part.store.system.clone())).or_default();
        *seen = (seen.0 + start_s(part), seen.1 + seconds);
    }

    /// How long the steps of `plan` take that are not `done`.
    pub(super) fn ahead(&self, plan: &Plan, done: &dyn Fn(&Part, &Step) -> bool) -> Spent {
        let mut spent = Spent::default();
        for part in &plan.parts {
            let left: Vec<&Step> = part.steps.iter().filter(|step| !done(part, step)).collect();
            if left.len() == part.steps.len() {
                spent.stores += start_s(part) * self.factor(&("start", part.store.system.clone()));
            }
            for step in left {
                let seconds = planned_s(&step.file) * self.factor(&kind(part, step.file.does));
                match step.file.does {
                    Does::Load | Does::Delete => spent.loads += seconds,
                    Does::Settle | Does::Act => spent.stores += seconds,
                    Does::Run | Does::Search => spent.phases += seconds,
                }
            }
        }
        spent
    }

    fn factor(&self, kind: &Kind) -> f64 {
        self.seen.get(kind).filter(|(planned, _)| *planned > 0.0).map_or(1.0, |(planned, took)| took / planned)
    }
}

fn kind(part: &Part, does: Does) -> Kind {
    (does.word(), part.store.system.clone())
}

/// How long it takes to start a store of a part.
fn start_s(part: &Part) -> f64 {
    match part.store.system.as_str() {
        "embedded" | "noop" => 0.0,
        "cassandra" => 20.0 * f64::from(part.store.nodes.max(1)),
        "voltdb" => 12.0 * f64::from(part.store.nodes.max(1)),
        _ => 4.0,
    }
}

fn planned_s(step: &StepFile) -> f64 {
    let time = |text: &Option<String>| {
        let span = text.as_deref().and_then(|text| text.parse::<Span>().ok());
        span.and_then(|span| span.time("duration").ok()).map_or(0.0, |time| time.as_secs_f64())
    };
    let one = time(&step.warm_up) + time(&step.duration);
    match step.does {
        Does::Run => one + BETWEEN_S,
        Does::Search => TRIES * if one > 0.0 { one + BETWEEN_S } else { TRY_S },
        Does::Settle => REST_S,
        Does::Act => 1.0,
        // Their duration is how long they may take at most.
        Does::Load | Does::Delete => {
            let given = step.rate.filter(|_| step.rate_of.is_none());
            let at_once = records(step) * (1.0 / RECORDS_PER_S).max(record_bytes(step) / BYTES_PER_S);
            given.map_or(at_once, |rate| records(step) / rate) + BETWEEN_S
        }
    }
}

fn property(step: &StepFile, name: &str) -> Option<f64> {
    match step.properties.get(name)? {
        Value::String(text) => text.parse().ok(),
        value => number_of(value),
    }
}

/// Records that the step inserts or removes.
pub(super) fn records(step: &StepFile) -> f64 {
    property(step, "insertcount").or_else(|| property(step, "recordcount")).unwrap_or(0.0)
}

fn record_bytes(step: &StepFile) -> f64 {
    property(step, "fieldcount").unwrap_or(10.0) * property(step, "fieldlength").unwrap_or(100.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::builtin::text;
    use super::super::plan::Wishes;
    use super::*;

    #[test]
    fn what_took_longer_than_planned_will_again() {
        let wishes = Wishes { scale: "default", ..Wishes::default() };
        let plan = Plan::read(&text("oracle-scale").unwrap(), &wishes).unwrap();
        let mut outlook = Outlook::new();
        let before = outlook.ahead(&plan, &|_, _| false);
        assert!(before.phases > 100.0 && before.loads > 10.0 && before.stores > 10.0, "{before:?}");
        let first = &plan.parts[0];
        let load = first.steps.iter().find(|step| step.file.does == Does::Load).unwrap();
        outlook.took(first, load, planned_s(&load.file) * 3.0);
        outlook.started(first, start_s(first) * 2.0);
        let after = outlook.ahead(&plan, &|part, _| part.number == first.number);
        let others = (before.loads - planned_s(&load.file)) * 3.0;
        assert!((after.loads / others - 1.0).abs() < 1e-9, "{after:?}");
        assert!(after.phases < before.phases && after.stores > before.stores, "{after:?}");
    }

    #[test]
    fn every_suite_is_done_within_an_hour_on_two_cores() {
        for (name, text) in super::super::builtin::BUILTIN {
            let plan = Plan::read(text, &Wishes { scale: "default", ..Wishes::default() }).unwrap();
            let minutes = Outlook::new().ahead(&plan, &|_, _| false).all() / 60.0;
            assert!((2.0..45.0).contains(&minutes), "{name}: {minutes:.0} minutes");
        }
    }
}

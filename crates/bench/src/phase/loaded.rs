//! Whether the records that a run will ask for were loaded as the run expects them.
//!
//! A sample is read before the run begins. Where most of it is missing or different, the run is refused: the mistake is
//! most likely in its properties, and a report would blame the store for it. Where little of it is, the run begins and
//! its own checks tell; the user is told beforehand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::options::{PhaseOptions, Tolerance};
use crate::target::{Completion, Fault, Lanes, OpStage, StoreError, Target};
use crate::trouble::Trouble;
use crate::workload::{OpKind, Task, Workload};

/// Records that are read, evenly over the range, its first and last among them.
const SAMPLE: u64 = 32;
/// What has not been read by then is not judged.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// What is looked for of a stop in between.
const LOOK: Duration = Duration::from_millis(100);

/// Refuses to ask for records of a store that is opened in a new directory.
///
/// # Errors
/// It is such a store.
pub(crate) fn refuse_empty(options: &PhaseOptions, workload: &Workload) -> Result<(), Trouble> {
    if options.target != "embedded" || options.store.data.is_some() || !needs_records(workload) {
        return Ok(());
    }
    let text = "the embedded store is a new one, so no record of a load is in it: --data DIR names one that was loaded \
                (basalt bench load --data DIR), or --target a store; `basalt bench` alone loads and runs";
    Err(Trouble::Usage(text.to_owned()))
}

/// Whether a phase asks for records that a load must have written.
fn needs_records(workload: &Workload) -> bool {
    workload.task() == Task::Run
        && OpKind::ALL.iter().any(|&kind| kind != OpKind::Insert && workload.mix().share(kind) > 0.0)
}

/// What the sample came to, in the order of the records.
#[derive(Debug, Default, PartialEq)]
struct Sample {
    /// Whether each record was missing.
    missing: Vec<bool>,
    wrong: usize,
    errors: Vec<StoreError>,
}

/// Reads the sample.
///
/// # Errors
/// Most of it is missing or different, or nothing but one error came back.
pub(crate) fn check(
    target: &dyn Target,
    workload: &Arc<Workload>,
    options: &PhaseOptions,
    stop: &AtomicBool,
) -> Result<(), Trouble> {
    if !needs_records(workload) || !target.verifies() {
        return Ok(());
    }
    let sample = read(target, workload, stop)?;
    let tolerates = options.tolerate.contains(&Tolerance::Unavailable);
    match verdict(&sample, tolerates) {
        Verdict::Good => Ok(()),
        Verdict::Remark(text) => {
            crate::note!("basalt bench: {text}");
            Ok(())
        }
        Verdict::Refuse(text) => Err(Trouble::Usage(text)),
    }
}

fn read(target: &dyn Target, workload: &Arc<Workload>, stop: &AtomicBool) -> std::io::Result<Sample> {
    let range = workload.range();
    let count = range.count().min(SAMPLE);
    let offset = |index: u64| {
        let last = u128::from(range.count() - 1);
        (last * u128::from(index)).checked_div(u128::from(count - 1)).unwrap_or(0) as u64
    };
    let mut session = target.open(workload, Lanes { clients: count as usize, depth: 1 })?;
    for index in 0..count {
        workload.read_of(range.number(offset(index)), session.operation(index as u32));
        session.start(index as u32);
    }
    let until = Instant::now() + READ_WITHIN;
    let mut ended: Vec<Option<Result<(), Fault>>> = vec![None; count as usize];
    let mut done: Vec<Completion> = Vec::new();
    while ended.contains(&None) && Instant::now() < until && !stop.load(Ordering::Relaxed) {
        session.wait(Some(Instant::now() + LOOK), &mut done)?;
        for completion in done.drain(..).filter(|completion| matches!(completion.part, OpStage::Whole { .. })) {
            ended[completion.lane as usize] = Some(completion.outcome.result);
        }
    }
    let mut sample = Sample::default();
    for result in ended.into_iter().flatten() {
        sample.missing.push(result == Err(Fault::NotFound));
        match result {
            Err(Fault::Wrong) => sample.wrong += 1,
            Err(Fault::Error(error)) => sample.errors.push(error),
            Ok(()) | Err(Fault::NotFound) => {}
        }
    }
    Ok(sample)
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Good,
    Remark(String),
    Refuse(String),
}

fn verdict(sample: &Sample, tolerates_unavailable: bool) -> Verdict {
    let read = sample.missing.len();
    let missing = sample.missing.iter().filter(|missing| **missing).count();
    if missing == 0 && sample.wrong == 0 {
        return errors(sample, tolerates_unavailable);
    }
    // What a load with fewer records left out is all at the end.
    let present = sample.missing.iter().rposition(|missing| !missing).map_or(0, |last| last + 1);
    let is_cut_off = missing > 1 && present + missing == read;
    let text = match (missing, sample.wrong) {
        (missing, 0) if missing == read => {
            "these records were not loaded: none of {read} that were looked for is there. `basalt bench load` with the same \
             properties loads them; recordcount, insertstart, insertorder, keyprefix, zeropadding and basalt.keys name them"
        }
        (_, 0) if is_cut_off => {
            "fewer records were loaded than recordcount says: of {read} that were looked for the last {missing} are missing"
        }
        (_, 0) => "{missing} of {read} records that were looked for before the run are missing",
        (0, _) => {
            "these records were loaded with other properties: {wrong} of {read} that were looked at are not what a load with \
             these properties writes. fieldcount, fieldlength, fieldlengthdistribution, fieldnameprefix, dataintegrity, \
             basalt.values, basalt.record and basalt.compress decide what they hold"
        }
        _ => {
            "these records were not loaded with these properties: of {read} that were looked at {missing} are missing and \
             {wrong} are not what a load with these properties writes"
        }
    };
    let text = text.replace("{read}", &read.to_string()).replace("{missing}", &missing.to_string());
    let text = text.replace("{wrong}", &sample.wrong.to_string());
    if is_cut_off || (missing + sample.wrong) * 2 >= read { Verdict::Refuse(text) } else { Verdict::Remark(text) }
}

/// Where each read failed alike, so will the run.
fn errors(sample: &Sample, tolerates_unavailable: bool) -> Verdict {
    let Some(first) = sample.errors.first() else { return Verdict::Good };
    let (all, kind) = (sample.missing.len(), &first.kind);
    let is_alike = sample.errors.len() == all && sample.errors.iter().all(|error| error.kind == *kind);
    if !is_alike || tolerates_unavailable && crate::model::is_unavailable(kind) {
        return Verdict::Good;
    }
    let said = if first.text.is_empty() { String::new() } else { format!("; the first said: `{}`", first.text) };
    Verdict::Refuse(format!("none of {all} records could be read before the run: {all} × {kind}{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(missing: &str, wrong: usize, errors: &[&str]) -> Sample {
        let error = |kind: &&str| StoreError { kind: (*kind).into(), text: "why".into() };
        Sample {
            missing: missing.chars().map(|c| c == 'm').collect(),
            wrong,
            errors: errors.iter().map(error).collect(),
        }
    }

    #[test]
    fn a_sample_is_judged() {
        let refused = |text: &'static str| (true, text);
        let remark = |text: &'static str| (false, text);
        for (sample, expected) in [
            (sample("....", 0, &[]), None),
            (sample("mmmm", 0, &[]), Some(refused("were not loaded: none of 4"))),
            (sample("....................mm", 0, &[]), Some(refused("fewer records were loaded"))),
            (sample("...m........m....", 0, &[]), Some(remark("2 of 17 records"))),
            (sample("................m", 0, &[]), Some(remark("1 of 17 records"))),
            (sample("....", 4, &[]), Some(refused("with other properties: 4 of 4"))),
            (sample("........", 1, &[]), Some(remark("1 of 8"))),
            (sample("mm..", 2, &[]), Some(refused("2 are missing and 2 are not"))),
            (
                sample("...", 0, &["WRONGTYPE", "WRONGTYPE", "WRONGTYPE"]),
                Some(refused("3 × WRONGTYPE; the first said: `why`")),
            ),
            (sample("...", 0, &["timeout", "timeout"]), None),
            (sample("..", 0, &["timeout", "ERR"]), None),
        ] {
            match (verdict(&sample, false), expected) {
                (Verdict::Good, None) => {}
                (Verdict::Refuse(text), Some((true, part))) | (Verdict::Remark(text), Some((false, part))) => {
                    assert!(text.contains(part), "{sample:?}: {text}");
                }
                (found, expected) => panic!("{sample:?}: {found:?}, not {expected:?}"),
            }
        }
        assert_eq!(verdict(&sample("..", 0, &["timeout", "timeout"]), true), Verdict::Good);
    }
}

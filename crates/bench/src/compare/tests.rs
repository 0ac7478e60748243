#![allow(clippy::unwrap_used)]
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use vocab::Prng;

use super::figures::figures;
use super::run_folder::RunFolder;
use super::verdict::{Comparison, Verdict};
use super::*;
use crate::model::*;
use crate::statistics::Scale;
use crate::test_options::Given;

const WARM_UP_S: u64 = 2;
const SECONDS: u64 = 40;

/// What a made-up run is like.
#[derive(Clone, Copy)]
struct Like {
    per_s: f64,
    median_us: f64,
    failed: u64,
    seed: u64,
}

const USUAL: Like = Like { per_s: 10_000.0, median_us: 200.0, failed: 0, seed: 1 };

/// A run whose seconds resemble their neighbours, 4 % noise in its rate and 6 % in its latencies.
fn write(folder: &Path, like: Like) {
    const DRAWS: u64 = 300;
    let mut prng = Prng::new(like.seed);
    let count = (SECONDS + WARM_UP_S) as usize;
    let rates = crate::statistics::mean_tests::alike(count, 0.5, &mut prng);
    let speeds = crate::statistics::mean_tests::alike(count, 0.5, &mut prng);
    fs::create_dir_all(folder).unwrap();
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let now = SystemTime::now();
    let mut writer = IntervalLogWriterBuilder::new()
        .with_start_time(now)
        .with_base_time(now)
        .begin_log_with(&mut log, &mut serializer)
        .unwrap();
    let mut whole = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    let mut points = Vec::new();
    for second in 0..SECONDS + WARM_UP_S {
        let ops = like.per_s * (1.0 + 0.035 * rates[second as usize]);
        let slow = 1.0 + 0.05 * speeds[second as usize];
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for _ in 0..DRAWS {
            let normal = (0..12).map(|_| prng.next_f64()).sum::<f64>() - 6.0;
            let us = like.median_us * slow * (0.5 * normal).exp();
            histogram.record_n((us * 1000.0) as u64, ops as u64 / DRAWS).unwrap();
        }
        writer
            .write_histogram(&histogram, Duration::from_secs(second), Duration::from_secs(1), Tag::new("READ"))
            .unwrap();
        points.push(SeriesPoint {
            t_s: second as f64,
            ops: histogram.len(),
            errors: if second % 3 == 0 { like.failed } else { 0 },
            ..SeriesPoint::default()
        });
        if second >= WARM_UP_S {
            whole.add(&histogram).unwrap();
        }
    }
    fs::write(folder.join("B.hlog"), log).unwrap();
    let op = OpStats {
        op: "READ".to_owned(),
        latency: Latency { measured: LatencySummary::from_histogram(&whole, 0.001), intended: None },
        returned: [("OK".to_owned(), whole.len())].into_iter().collect(),
        ..OpStats::default()
    };
    let phase = Phase {
        name: "B".to_owned(),
        warm_up_s: WARM_UP_S as f64,
        duration_s: SECONDS as f64,
        operations: whole.len(),
        throughput_per_s: whole.len() as f64 / SECONDS as f64,
        ops: vec![op],
        cpu: CpuUse { process: Some(CpuTime { user_s: 40.0, system_s: 10.0 }), ..CpuUse::default() },
        series: vec![OpSeries { op: "READ".to_owned(), points }],
        ..Phase::default()
    };
    let identity = Identity { id: "made up".to_owned(), date: "today".to_owned(), ..Identity::default() };
    let report = RunReport { schema: SCHEMA, identity, phases: vec![phase], ..RunReport::default() };
    fs::write(folder.join("report.json"), crate::report::json(&report).unwrap()).unwrap();
}

fn compared(sides: &[&str]) -> Comparison {
    let options: CompareOptions = Given::by([&["compare"], sides].concat());
    let sides: Vec<Side> =
        options.sides.iter().enumerate().map(|(index, given)| Side::read(index, given).unwrap()).collect();
    compare(&sides, &options).unwrap()
}

#[test]
fn a_run_that_is_slower_is_worse_and_one_that_scatters_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    write(&dir.path().join("a"), USUAL);
    write(&dir.path().join("same"), Like { seed: 5, ..USUAL });
    write(&dir.path().join("slower"), Like { per_s: 9_500.0 * 0.97, seed: 3, ..USUAL });
    write(&dir.path().join("late"), Like { median_us: 240.0, seed: 4, ..USUAL });
    write(&dir.path().join("fails"), Like { failed: 50, seed: 5, ..USUAL });
    let verdicts = |side: &str, figure: &str| {
        let found = compared(&[&at("a"), &at(side)]);
        let against = &found.sides[0];
        let change = against.changes.iter().find(|change| change.figure == figure).unwrap();
        (against.is_worse, change.verdict)
    };
    assert_eq!(verdicts("same", "ops/s"), (false, Verdict::Noise));
    assert_eq!(verdicts("same", "p99"), (false, Verdict::Noise));
    assert_eq!(verdicts("slower", "ops/s"), (true, Verdict::Worse));
    assert_eq!(verdicts("late", "p50"), (true, Verdict::Worse));
    assert_eq!(verdicts("late", "ops/s"), (true, Verdict::Noise));
    assert_eq!(verdicts("fails", "failed"), (true, Verdict::Worse));
    let back = compared(&[&at("late"), &at("a")]);
    assert!(!back.is_worse && back.sides[0].summary.iter().any(|said| said.contains("p50 fell")), "{back:?}");
    let three = compared(&[&at("a"), &at("same"), &at("late")]);
    assert_eq!(three.sides.iter().map(|side| side.is_worse).collect::<Vec<_>>(), [false, true]);
    let text = page::render(&three, Paint::default());
    assert!(text.contains("C is WORSE than A") && text.lines().all(|line| line.chars().count() < 220), "{text}");
}

#[test]
fn runs_of_one_side_are_pooled() {
    let dir = tempfile::tempdir().unwrap();
    for (name, seed) in [("a/1", 1), ("a/2", 2), ("a/3", 3), ("b/1", 4), ("b/2", 5), ("b/3", 6)] {
        let per_s = if name.starts_with('a') { 10_000.0 } else { 9_400.0 };
        write(&dir.path().join(name), Like { per_s, seed, ..USUAL });
    }
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let pooled = compared(&[&at("a"), &format!("{},{},{}", at("b/1"), at("b/2"), at("b/3"))]);
    assert_eq!((pooled.baseline_runs, pooled.sides[0].runs), (3, 3));
    assert!(pooled.is_worse, "{:?}", pooled.sides[0].summary);
    let cpu = pooled.sides[0].changes.iter().find(|change| change.figure == "CPU s/M").unwrap();
    assert!(cpu.verdict != Verdict::Unknown && !cpu.decides, "several runs tell how much it scatters");
    let alone = compared(&[&at("a/1"), &at("b/1")]);
    let cpu = alone.sides[0].changes.iter().find(|change| change.figure == "CPU s/M").unwrap();
    assert!(cpu.verdict == Verdict::Unknown && cpu.why.is_some());
    assert!(Side::read(0, dir.path().to_str().unwrap()).is_err(), "a folder without runs");
}

#[test]
fn equal_runs_seldom_differ() {
    let dir = tempfile::tempdir().unwrap();
    let sides: Vec<Side> = (0..40u64)
        .map(|seed| {
            let folder = dir.path().join(seed.to_string());
            write(&folder, Like { seed: 100 + seed, ..USUAL });
            Side { letter: "A".to_owned(), given: String::new(), runs: RunFolder::all_in(&folder).unwrap() }
        })
        .collect();
    let (mut asked, mut told) = (0, 0);
    for pair in sides.chunks_exact(2) {
        let (before, after) = (figures(&pair[0], "B").unwrap(), figures(&pair[1], "B").unwrap());
        for (before, after) in before.iter().zip(&after) {
            if let (Ok(before), Ok(after)) = (&before.noisy, &after.noisy)
                && before.value > 0.0
            {
                asked += 1;
                told += u32::from(before.to(after, Scale::Ratio, 0.95).chance < 0.05);
            }
        }
    }
    // Each of 100 questions alone, not corrected: five are to be expected, and they are not independent.
    assert!(asked >= 100 && told <= 12, "{told} of {asked}");
}

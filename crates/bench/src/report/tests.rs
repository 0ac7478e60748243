//! Each report of two made-up runs against its golden file: read the difference, then rewrite the files with
//! `BASALT_REWRITE_GOLDENS=1 cargo test -p basalt-bench`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use crate::model::{RunOutcome, RunReport};

use super::{Paint, folder, json, markdown, sample, table, warnings, ycsb};

fn golden(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/testdata").join(name);
    if std::env::var_os("BASALT_REWRITE_GOLDENS").is_some() {
        fs::write(&path, got).unwrap();
    }
    let want = fs::read_to_string(&path).unwrap_or_default();
    let difference = want.lines().zip(got.lines()).enumerate().find(|(_, (want, got))| want != got);
    if let Some((line, (want, got))) = difference {
        panic!("{name}:{}:\n  golden {want}\n  now    {got}", line + 1);
    }
    assert_eq!(want.lines().count(), got.lines().count(), "{name} has another length");
}

#[test]
fn reports_match_their_goldens() {
    let (run, troubled) = (sample::run(), sample::troubled_run());
    assert_eq!(crate::model::validate(&run), Ok(()));
    assert_eq!(crate::model::validate(&troubled), Ok(()));
    assert!(run.is_clean() && !troubled.is_clean());
    golden("run.table.txt", &table::render(&run, Paint::default()));
    golden("troubled.table.txt", &table::render(&troubled, Paint::default()));
    golden("run.md", &markdown::render(&run));
    golden("troubled.md", &markdown::render(&troubled));
    let searched = markdown::render(&sample::searched_run());
    golden("searched.md", searched.split("## Results").next().unwrap());
    let a = &troubled.phases[1];
    golden("troubled.ycsb.txt", &ycsb::final_output(a, &[50.0, 95.0, 99.0, 99.9]));
}

#[test]
fn the_table_fits_a_terminal_and_colours_change_nothing_else() {
    let run = sample::troubled_run();
    let plain = table::render(&run, Paint::default());
    for line in plain.lines() {
        assert!(line.chars().count() <= 120, "{line}");
    }
    let mut coloured = table::render(&run, Paint { colours: true });
    assert!(coloured.contains("\x1b[1;31m"));
    for code in ["0", "1", "2", "33", "1;31"] {
        coloured = coloured.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(coloured, plain);
}

#[test]
fn json_brings_back_what_went_in() {
    let text = json::render(&sample::troubled_run()).unwrap();
    let back: RunReport = json::parse(&text).unwrap();
    assert!(json::render(&back).unwrap() == text, "the text differs");
    assert!(json::parse(&text.replace("\"schema\"", "\"scheme\"")).is_err());
}

#[test]
fn a_broken_invariant_is_found() {
    type Breakage = fn(&mut RunReport);
    let table: [(&str, Breakage); 10] = [
        ("schema", |run| run.schema = 0),
        ("no id", |run| run.identity.id.clear()),
        ("two phases are called", |run| run.phases[1].name = run.phases[0].name.clone()),
        ("throughput_per_s is NaN", |run| run.phases[0].throughput_per_s = f64::NAN),
        ("operations a second", |run| run.phases[0].throughput_per_s *= 2.0),
        ("kinds sum to", |run| run.phases[0].operations += 1),
        ("is above", |run| run.phases[0].ops[0].latency.measured.p50_us = 1e9),
        ("not in order of time", |run| run.phases[0].series[0].points[3].t_s = 0.5),
        ("spectrum does not ascend", |run| run.phases[0].ops[0].latency.measured.spectrum.reverse()),
        ("again for a part of it", |run| run.phases[0].cpu.client = run.phases[0].cpu.process),
    ];
    for (want, breakage) in table {
        let mut run = sample::run();
        breakage(&mut run);
        let problem = crate::model::validate(&run).unwrap_err().to_string();
        assert!(problem.contains(want), "{want}: {problem}");
    }
}

#[test]
fn the_gravest_warning_comes_first() {
    let mut run = sample::run();
    assert!(warnings(&run).iter().all(|warning| warning.severity == super::Severity::Note));
    run.phases[2].duration_s = 3.0;
    run.outcome = RunOutcome::Failed;
    let words: Vec<&str> = warnings(&run).iter().map(|warning| warning.severity.word()).collect();
    assert_eq!(words, ["failure", "caution", "note"]);
}

#[test]
fn what_a_host_takes_for_others_is_a_caution() {
    let mut run = sample::run();
    let phase = &mut run.phases[2];
    let all_s = phase.duration_s * f64::from(run.environment.cores);
    phase.cpu.stolen_s = Some(0.02 * all_s);
    let said = |run: &RunReport| warnings(run).iter().filter(|warning| warning.text.contains("steal time")).count();
    assert_eq!(said(&run), 0);
    run.phases[2].cpu.stolen_s = Some(0.04 * all_s);
    assert_eq!(said(&run), 1);
}

#[test]
fn a_run_never_overwrites_another() {
    let root = tempfile::tempdir().unwrap();
    let run = sample::run();
    let wanted = root.path().join(folder::default_dir(&run.identity));
    assert!(wanted.ends_with("basalt-runs/2026-11-21T19-03-20Z-default"), "{wanted:?}");
    let names: Vec<PathBuf> = (0..3)
        .map(|_| {
            let written = folder::write_run(&wanted, &run).unwrap();
            for path in [&written.html, &written.md, &written.json] {
                assert!(fs::metadata(path).unwrap().len() > 0 && path.starts_with(&written.dir));
            }
            written.dir
        })
        .collect();
    assert_eq!(names[0], wanted);
    assert!(names[1].ends_with("2026-11-21T19-03-20Z-default-2"), "{names:?}");
    assert!(names[2].ends_with("2026-11-21T19-03-20Z-default-3"), "{names:?}");
    let mut broken = run;
    broken.schema = 0;
    assert!(folder::write_run(&wanted, &broken).is_err());
}

#[test]
fn a_folder_is_claimed_once() {
    let root = tempfile::tempdir().unwrap();
    let wanted = root.path().join("runs").join("a");
    let first = folder::Claimed::make(&wanted).unwrap();
    assert_eq!(first.dir(), wanted);
    fs::write(wanted.join("read.hlog"), "x").unwrap();
    assert_eq!(folder::Claimed::make(&wanted).unwrap().dir(), root.path().join("runs").join("a-2"));
    let written = folder::write_run(first.dir(), &sample::run()).unwrap();
    assert_eq!(written.dir, first.dir());
    // What nothing was written into goes, if the claim had made it.
    let (empty, own) = (root.path().join("empty"), root.path().join("own"));
    fs::create_dir(&own).unwrap();
    for dir in [&empty, &own] {
        drop(folder::Claimed::make(dir).unwrap());
    }
    assert!(!empty.exists() && own.exists() && wanted.exists());
    let error = folder::Claimed::make(&wanted.join("read.hlog").join("x")).unwrap_err().to_string();
    assert!(error.contains("read.hlog"), "{error}");
}

/// BASALT_SAMPLE_DIR keeps them, to be looked at.
#[test]
fn sample_reports_are_drawn() {
    let own = tempfile::tempdir().unwrap();
    let dir = std::env::var_os("BASALT_SAMPLE_DIR").map_or_else(|| own.path().to_owned(), PathBuf::from);
    fs::create_dir_all(&dir).unwrap();
    for (name, run) in
        [("run", sample::run()), ("troubled", sample::troubled_run()), ("searched", sample::searched_run())]
    {
        fs::write(dir.join(format!("{name}.html")), super::html(&run)).unwrap();
    }
}

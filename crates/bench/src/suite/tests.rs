//! Suites as they are shipped, and small ones from end to end.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};

use super::builtin::BUILTIN;
use super::file::{Does, SuiteFile};
use super::options::{Place, options, task};
use super::plan::{Plan, Wishes};
use super::record::Folder;
use super::runner::due;
use super::{NoStores, SuiteOptions};
use crate::cli::Program;
use crate::driver::EventLog;
use crate::published;
use crate::single;

fn program(stop: &AtomicBool) -> Program<'_> {
    Program {
        version: "0",
        commit: None,
        open_store: &|_, _| Err(std::io::ErrorKind::Unsupported.into()),
        stores: &NoStores,
        stop,
        events: EventLog::default(),
    }
}

#[test]
fn every_suite_can_be_run_at_every_scale() {
    for (name, text) in BUILTIN {
        let file: SuiteFile = toml::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(file.name, name);
        for scale in file.scales.keys() {
            let plan =
                Plan::read(text, &Wishes { scale, ..Wishes::default() }).unwrap_or_else(|e| panic!("{name}: {e}"));
            for part in &plan.parts {
                for step in &part.steps {
                    let place = format!("{name}, {scale}: {} / {}", part.name, step.name);
                    let file = &step.file;
                    assert_eq!(file.does == Does::Act, file.action.is_some(), "{place}");
                    if let (Does::Settle, Some(patience)) = (file.does, &file.duration) {
                        // What a step of every kind lasts is not how long a store may take to come to rest.
                        let patience = patience.parse::<crate::cli::Span>().and_then(|span| span.time("duration"));
                        assert!(patience.is_ok_and(|time| time.as_secs() >= 600), "{place}");
                    }
                    assert_eq!(file.does == Does::Search, file.goal.is_some(), "{place}");
                    let goal = file.goal.as_deref().map(str::parse::<crate::search::Goal>).transpose();
                    goal.unwrap_or_else(|e| panic!("{place}: {e}"));
                    due(file).unwrap_or_else(|e| panic!("{place}: {e}"));
                    if !file.published.is_empty() {
                        published::row(&file.published).unwrap_or_else(|e| panic!("{place}: {e}"));
                    }
                    let Some(task) = task(file.does) else { continue };
                    let here = Place { target: "redis://127.0.0.1:1", data: None, seed: 1, settings: &[], quiet: true };
                    let options = options(file, here).unwrap_or_else(|e| panic!("{place}: {e}"));
                    let planned = single::planned(&step.name, task, &options, &program(&AtomicBool::new(false)));
                    planned.map(drop).unwrap_or_else(|e| panic!("{place}: {e:?}"));
                    if let Some(earlier) = &file.rate_of {
                        assert!(part.steps[..step.number].iter().any(|step| step.name == *earlier), "{place}");
                    }
                }
            }
            for table in &plan.tables {
                let of = |step: &&super::plan::Step| {
                    table.steps.is_empty() || table.steps.iter().any(|name| step.name.starts_with(name.as_str()))
                };
                let steps: Vec<_> = plan.parts.iter().flat_map(|part| &part.steps).filter(of).collect();
                assert!(!steps.is_empty(), "{name}: no step is in the table {}", table.title);
                for column in &table.columns {
                    let shown = steps.iter().any(|step| step.file.shows.contains_key(column));
                    assert!(shown || crate::report::is_figure(column), "{name}, {}: column {column}", table.title);
                }
            }
        }
    }
}

const SMALL: &str = r#"
name = "small"
title = "Small"
about = "A suite that tests can afford."
[scales.default]
takes = "a second"
[every-step.properties]
recordcount = 1000
fieldcount = 1
[[part]]
name = "nothing is kept"
timeline = true
[part.store]
system = "noop"
[[part.step]]
name = "read"
does = "run"
clients = 4
properties = { operationcount = 2000, readproportion = 1, updateproportion = 0 }
published = { report = "oracle-nosql-1.2m", shards = 2 }
shows = { shards = 2 }
[[part.step]]
name = "read at half the rate"
does = "run"
rate-of = "read"
rate = 0.5
properties = { operationcount = 500, readproportion = 1, updateproportion = 0 }
[[part.step]]
name = "read at a third of it"
does = "run"
rate-of = "read"
rate = 0.3
properties = { operationcount = 500, readproportion = 1, updateproportion = 0 }
[[table]]
title = "As they printed it"
columns = ["shards", "ops/s", "read", "per core", "wrong"]
[[table]]
title = "Percentiles"
kind = "percentiles"
[[table]]
title = "Medians"
kind = "medians"
columns = ["ops/s", "p99"]
"#;

fn small(dir: &std::path::Path) -> SuiteOptions {
    let file = dir.join("small.toml");
    std::fs::write(&file, SMALL).unwrap();
    let mut options = SuiteOptions::of(file.to_str().unwrap());
    (options.out, options.quiet) = (Some(dir.join("run")), true);
    options
}

#[test]
fn a_suite_leaves_a_report_and_what_it_is_drawn_from() {
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    assert!(super::run(&small(dir.path()), &program(&stop)).unwrap());
    let run = dir.path().join("run");
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    for text in
        ["Small", "302,152", "What differs from Oracle NoSQL Database", "loopback", "read at half the rate", "curve0"]
    {
        assert!(page.contains(text), "the page lacks {text}");
    }
    let markdown = std::fs::read_to_string(run.join("report.md")).unwrap();
    assert!(markdown.contains("| *Oracle NoSQL Database* | *2* | *302,152* |"), "{markdown}");
    std::fs::remove_file(run.join("report.html")).unwrap();
    super::redraw(&run).unwrap();
    assert_eq!(std::fs::read_to_string(run.join("report.html")).unwrap(), page, "drawn again it is the same");
}

#[test]
fn an_interrupted_suite_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let mut options = small(dir.path());
    assert!(super::run(&options, &program(&stop)).unwrap());
    let steps = dir.path().join("run/steps");
    let path_of = |name: &str| {
        let entries = std::fs::read_dir(&steps).unwrap().flatten().map(|entry| entry.path());
        entries.into_iter().find(|path| path.to_str().unwrap().ends_with(&format!("{name}.json"))).unwrap()
    };
    let first = std::fs::read(path_of("nothing-is-kept-read")).unwrap();
    std::fs::remove_file(path_of("a-third-of-it")).unwrap();
    std::fs::create_dir_all(dir.path().join("run/stores/1/data")).unwrap();
    options.resume = true;
    stop.store(true, Ordering::Relaxed);
    assert!(!super::run(&options, &program(&stop)).unwrap(), "it was stopped before it could go on");
    let (folder, about) = Folder::open(&dir.path().join("run")).unwrap();
    assert_eq!((folder.steps().unwrap().len(), about.outcome), (2, crate::model::Outcome::Interrupted));
    stop.store(false, Ordering::Relaxed);
    assert!(super::run(&options, &program(&stop)).unwrap());
    assert_eq!(std::fs::read(path_of("nothing-is-kept-read")).unwrap(), first, "what was done is not done again");
    assert_eq!(folder.steps().unwrap().len(), 3);
}

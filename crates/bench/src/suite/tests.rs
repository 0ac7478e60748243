//! Suites as they are shipped, and small ones from end to end.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};

use super::SuiteOptions;
use super::builtin::BUILTIN;
use super::check::{Existing, check};
use super::file::{Does, SuiteFile};
use super::plan::{Plan, Wishes};
use super::record::Folder;
use crate::coordinator::LoaderOptions;
use crate::driver::EventLog;
use crate::program::Program;
use crate::suite_stores::NoStores;

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
            let stop = AtomicBool::new(false);
            check(&plan, Existing::default(), &LoaderOptions::default(), &program(&stop))
                .unwrap_or_else(|e| panic!("{name}, {scale}: {e}"));
            for step in plan.parts.iter().flat_map(|part| &part.steps) {
                if let (Does::Settle, Some(patience)) = (step.file.does, &step.file.duration) {
                    // What a step of every kind lasts is not how long a store may take to come to rest.
                    let patience = patience.parse::<crate::options::Span>().and_then(|span| span.time("duration"));
                    assert!(patience.is_ok_and(|time| time.as_secs() >= 600), "{name}, {scale}: {}", step.name);
                }
            }
        }
    }
}

/// Every kind of typing error that a suite's file may hold, and what it is refused with.
#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let stop = AtomicBool::new(false);
    let plan = |text: &str| {
        let plan = Plan::read(text, &Wishes { scale: "default", ..Wishes::default() })?;
        check(&plan, Existing::default(), &LoaderOptions::default(), &program(&stop))
    };
    let suite = |store: &str, step: &str, table: &str| {
        format!(
            "name = \"s\"\ntitle = \"t\"\nabout = \"a\"\n[scales.default]\ntakes = \"1 s\"\n[[part]]\nname = \"p\"\n\
             store = {{ {store} }}\n[[part.step]]\nname = \"L\"\ndoes = \"load\"\nworkload = \"workloada\"\n\
             properties = {{ recordcount = 10 }}\n[[part.step]]\nname = \"R\"\n{step}\n[[table]]\ntitle = \"T\"\n{table}\n"
        )
    };
    let run = "does = \"run\"\nworkload = \"workloadb\"\nproperties = { recordcount = 10 }\nduration = \"1s\"\nshows = { k = 1 }";
    let good = ("system = \"noop\"", run, "columns = [\"ops/s\", \"k\"]\nsteps = [\"R\"]");
    plan(&suite(good.0, good.1, good.2)).unwrap();
    let with = |line: &str| format!("{run}\n{line}");
    let without = |old: &str, new: &str| run.replace(old, new);
    for (store, step, table, why) in [
        (good.0, run, "columns = [\"opz\"]", "column `opz`"),
        (good.0, run, "steps = [\"Z\"]", "begins with `Z`"),
        (good.0, &without("workloadb", "workloadz"), "", "workloadz"),
        ("system = \"foo\"", run, "", "system `foo`"),
        ("durability = \"snyc\"", run, "", "durability `snyc`"),
        ("engine = \"rocks\"", run, "", "engine `rocks`"),
        ("system = \"redis\"\nmemory = \"much\"".replace('\n', ", ").as_str(), run, "", "memory `much`"),
        (good.0, &without("\"1s\"", "\"1\""), "", "give a unit"),
        (good.0, &with("clients = 0"), "", "one client"),
        (good.0, &with("depth = 0"), "", "depth of one"),
        (good.0, &with("threads = 0"), "", "one thread"),
        (good.0, &with("processes = 0"), "", "processes 0"),
        (good.0, &with("rate = -1.0"), "", "rate -1"),
        (good.0, &with("rate-of = \"X\""), "", "rate-of `X`"),
        (good.0, &with("arrivals = \"sometimes\""), "", "sometimes"),
        (good.0, &with("acks = \"some\""), "", "some"),
        (good.0, &with("tolerate = [\"all\"]"), "", "all"),
        (good.0, &with("timeout = \"soon\""), "", "soon"),
        (good.0, &with("goal = \"p99 < 5ms\""), "", "`goal`"),
        (good.0, &without("\"run\"", "\"search\""), "", "`goal`"),
        (good.0, &without("recordcount = 10", "recordcount = 0"), "", "recordcount"),
        (good.0, &without("recordcount = 10", "recordcont = 10"), "", "recordcont"),
        (good.0, &without("recordcount = 10", "recordcount = 10, requestdistribution = \"zipf\""), "", "zipf"),
        (good.0, &with("event = [{ at = \"1s\", do = \"kill\", node = 1 }]"), "", "system `noop`"),
        ("nodes = 3", &with("event = [{ at = \"1s\", do = \"kill\", node = 4 }]"), "", "nodes are 1 to 3"),
        ("nodes = 3", &with("event = [{ at = \"1\", do = \"kill\", node = 2 }]"), "", "give a unit"),
        ("nodes = 3", "does = \"act\"", "", "`action`"),
        (good.0, &with("published = { report = \"none\" }"), "", "published"),
        (good.0, &with("rate = 2e9"), "", "1000000000 at most"),
    ] {
        let text = suite(store, step, table);
        let found = plan(&text).expect_err(why);
        assert!(found.contains(why), "{found}, not {why}");
    }
}

/// What would be found only when the step's turn has come, which may be hours later.
#[test]
fn what_a_step_would_refuse_is_refused_before_anything_runs() {
    let stop = AtomicBool::new(false);
    let check_with = |text: &str, loader: &LoaderOptions| {
        let plan = Plan::read(text, &Wishes { scale: "default", ..Wishes::default() })?;
        check(&plan, Existing::default(), loader, &program(&stop))
    };
    let suite = |store: &str, step: &str| {
        format!(
            "name = \"s\"\ntitle = \"t\"\nabout = \"a\"\n[scales.default]\ntakes = \"1 s\"\n[[part]]\nname = \"p\"\n\
             store = {{ {store} }}\n[[part.step]]\nproperties = {{ recordcount = 10 }}\nduration = \"1s\"\n{step}\n"
        )
    };
    let noop = "system = \"noop\"";
    let run = "does = \"run\"\nworkload = \"workloadb\"";
    let search = "does = \"search\"\nworkload = \"workloadb\"\ngoal = \"p99 < 5ms\"";
    let several = |step: &str| format!("{step}\nclients = 2\nprocesses = 2");
    let none = LoaderOptions::default();
    for good in [run, search, &several(run), &several(search)] {
        check_with(&suite(noop, good), &none).unwrap();
    }
    check_with(&suite("system = \"redis-cluster\", nodes = 3, replication-factor = 2", run), &none).unwrap();
    for (store, step, why) in [
        (noop, search.replace("p99", "SCAN p99"), "the workload has no SCAN, but READ, UPDATE"),
        (noop, format!("{search}\nwarm-up = \"100\""), "rates differ"),
        (noop, several(&search.replace("workloadb", "workloadd")), "without inserts"),
        (noop, format!("{run}\nprocesses = 3"), "3 processes need as many"),
        (noop, format!("{run}\nclients = 100\nprocesses = 65"), "processes 65: from 1 to 64"),
        ("system = \"embedded\"", several(run), "belongs to one process"),
        ("system = \"redis\", nodes = 3", run.to_owned(), "use redis-cluster for more"),
        ("system = \"redis-cluster\"", run.to_owned(), "three nodes at least"),
        ("system = \"redis-cluster\", nodes = 2", run.to_owned(), "three nodes at least"),
        ("system = \"voltdb\", nodes = 3, replication-factor = 0", run.to_owned(), "replication-factor 0"),
    ] {
        let found = check_with(&suite(store, &step), &none).expect_err(why);
        assert!(found.contains(why), "{found}, not {why}");
    }
    let large = "recordcount = 10, fieldcount = 1, fieldlength = 300_000_000";
    let text = suite("system = \"etcd\", nodes = 3", run).replace("recordcount = 10", large);
    assert!(check_with(&text, &none).unwrap_err().contains("an adapter takes"));
    // Agents that were named make the load of every step.
    let agents = LoaderOptions { agents: vec!["a:1".to_owned(), "b:1".to_owned()], ..LoaderOptions::default() };
    assert!(check_with(&suite(noop, run), &agents).unwrap_err().contains("2 processes need as many"));
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
    assert_eq!((folder.steps().unwrap().len(), about.outcome), (2, crate::model::RunOutcome::Interrupted));
    stop.store(false, Ordering::Relaxed);
    assert!(super::run(&options, &program(&stop)).unwrap());
    assert_eq!(std::fs::read(path_of("nothing-is-kept-read")).unwrap(), first, "what was done is not done again");
    assert_eq!(folder.steps().unwrap().len(), 3);
}

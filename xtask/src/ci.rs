//! The gate: its steps in order, each with its time, a summary, and one closing line.

use crate::before;
use crate::commands_page;
use crate::house;
use crate::process::{self, Count};
use crate::suite;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long each fuzzer runs here; the tests run each for a moment only.
const FUZZ_SECONDS: &str = "5";

/// What tests must find on this machine, separated by commas: a test that lacks what is listed fails.
const REQUIRE: &str = "BASALT_REQUIRE";
/// What the gate requires unless the environment says otherwise. Not `miri`: its toolchain is not on every machine.
const REQUIRED: &str = "uring,odirect,mount,strace,redis,python,java,go,node,rust,etcd,before,suite";

/// Tests that miri can run, by parts of their names: the unsafe code that works in memory, and the atomics. What calls the
/// kernel (io_uring, O_DIRECT) it cannot run.
const MIRI_TESTS: &[&str] = &["cache_tests::", "huge_page::"];
/// Orders of execution that miri tries, each from a seed of its own.
const MIRI_SEEDS: &str = "-Zmiri-many-seeds=0..2";

/// The first of the seeds that the step `sim` runs.
const SIM_SEED: &str = "1";
/// How long the simulator runs here.
const SIM_SECONDS: &str = "120";

/// What a step came to.
enum Verdict {
    Passed(Count),
    Failed(Count, String),
    /// What it needs is not on this machine.
    Skipped(String),
}

/// One step of the gate.
struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Path) -> Verdict,
}

const STEPS: &[Step] = &[
    Step { name: "format", what: "rustfmt has nothing to change", run: format },
    Step { name: "house", what: "the house rules that no compiler checks", run: house_rules },
    Step { name: "clippy", what: "no warning in any target", run: clippy },
    Step { name: "before", what: "the binary of the commit before, for the rolling upgrade", run: before },
    Step { name: "test", what: "unit tests, and black-box tests of the basalt binary", run: test },
    Step {
        name: "miri",
        what: "unsafe code that works in memory, run by miri, which sees undefined behaviour",
        run: miri,
    },
    Step { name: "fuzz", what: "every fuzzer for a few seconds", run: fuzz },
    Step { name: "sim", what: "stores in virtual time, with faults, from the same seeds for two minutes", run: sim },
    Step { name: "suite", what: "Redis's own Tcl suite against basalt", run: redis_suite },
    Step { name: "bench", what: "micro-benchmarks and the canonical run, in small", run: bench },
    Step { name: "docs", what: "rustdoc without warnings, and docs/COMMANDS.md as the table says", run: docs },
];

/// Runs the steps that the options leave; an error if any failed.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let Some(steps) = chosen(arguments)? else { return Ok(()) };
    let begun = Instant::now();
    let mut results: Vec<(&Step, Duration, Verdict)> = Vec::new();
    for step in steps {
        println!("\n=== {}: {}", step.name, step.what);
        let start = Instant::now();
        let verdict = (step.run)(root);
        let took = start.elapsed();
        match &verdict {
            Verdict::Passed(_) => println!("=== {} passed in {:.1} s", step.name, took.as_secs_f64()),
            Verdict::Skipped(why) => println!("=== {} SKIPPED: {why}", step.name),
            Verdict::Failed(_, why) => println!("=== {} FAILED in {:.1} s\n{why}", step.name, took.as_secs_f64()),
        }
        results.push((step, took, verdict));
    }
    summary(&results, begun.elapsed())
}

fn summary(results: &[(&Step, Duration, Verdict)], took: Duration) -> Result<(), String> {
    // Said again here: the end of a long log is what people see of it.
    for (step, _, verdict) in results {
        if let Verdict::Failed(_, why) = verdict {
            println!("\n=== {} FAILED\n{}", step.name, why.trim_end());
        }
    }
    let mut total = Count::default();
    println!("\n{:<10} {:>8} {:>8} {:>9}", "step", "passed", "failed", "seconds");
    for (step, took, verdict) in results {
        let count = match verdict {
            // A step without tests of its own is one check.
            Verdict::Passed(count) => Count { passed: count.passed.max(1), failed: 0 },
            Verdict::Skipped(_) => Count::default(),
            Verdict::Failed(count, _) => Count { passed: count.passed, failed: count.failed.max(1) },
        };
        println!("{:<10} {:>8} {:>8} {:>9.1}", step.name, count.passed, count.failed, took.as_secs_f64());
        total.passed += count.passed;
        total.failed += count.failed;
    }
    println!("{:<10} {:>8} {:>8} {:>9.1}\n", "all", total.passed, total.failed, took.as_secs_f64());
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 { Ok(()) } else { std::process::exit(1) }
}

/// The steps that the options ask for; none if they only ask for the list.
fn chosen(arguments: &[String]) -> Result<Option<Vec<&'static Step>>, String> {
    let mut steps: Vec<&Step> = STEPS.iter().collect();
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        if option == "--list" {
            for step in STEPS {
                println!("{:<10} {}", step.name, step.what);
            }
            return Ok(None);
        }
        if option != "--only" && option != "--skip" {
            return Err(format!("unknown option {option}"));
        }
        let value = rest.next().ok_or_else(|| format!("{option} needs the name of a step"))?;
        let names: Vec<&str> = value.split(',').collect();
        if let Some(unknown) = names.iter().find(|&name| STEPS.iter().all(|step| step.name != *name)) {
            return Err(format!("no step is called {unknown}; `cargo xtask ci --list` lists them"));
        }
        steps.retain(|step| names.contains(&step.name) == (option == "--only"));
    }
    Ok(Some(steps))
}

fn verdict(result: Result<Count, (Count, String)>) -> Verdict {
    match result {
        Ok(count) => Verdict::Passed(count),
        Err((count, why)) => Verdict::Failed(count, why),
    }
}

fn format(root: &Path) -> Verdict {
    verdict(process::run(root, &mut process::cargo(&["fmt", "--all", "--check"])))
}

fn house_rules(root: &Path) -> Verdict {
    match house::Workspace::read(root).map(|workspace| house::check(&workspace)) {
        Ok(outcome) if outcome.breaches.is_empty() => Verdict::Passed(Count { passed: outcome.rules, failed: 0 }),
        Ok(outcome) => {
            let failed = outcome.rules_broken();
            let passed = outcome.rules - failed;
            Verdict::Failed(Count { passed, failed }, outcome.listing())
        }
        Err(why) => Verdict::Failed(Count::default(), why),
    }
}

fn clippy(root: &Path) -> Verdict {
    let mut command =
        process::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]);
    verdict(process::run(root, &mut command))
}

fn before(root: &Path) -> Verdict {
    match before::build(root, None) {
        Ok(_) => Verdict::Passed(Count::default()),
        Err(why) => Verdict::Failed(Count::default(), why),
    }
}

fn test(root: &Path) -> Verdict {
    let mut command = process::cargo(&["test", "--workspace", "--locked", "--no-fail-fast", "--quiet"]);
    // Ignored tests too: there are none that the gate would not run.
    command.env(REQUIRE, required()).args(["--", "--include-ignored"]);
    verdict(process::run(root, &mut command))
}

fn required() -> String {
    std::env::var(REQUIRE).unwrap_or_else(|_| REQUIRED.to_owned())
}

/// A step that lacks `need`: it fails if that is required.
fn lacking(need: &str, why: String) -> Verdict {
    let required = required();
    if required.split(',').any(|one| one.trim() == need) {
        Verdict::Failed(Count::default(), format!("{need} is required ({REQUIRE}={required}) and missing: {why}"))
    } else {
        Verdict::Skipped(why)
    }
}

fn miri(root: &Path) -> Verdict {
    let install = "rustup toolchain install nightly --profile minimal --component miri,rust-src";
    let version = nightly(&["miri", "--version"]).current_dir(root).output();
    if !version.is_ok_and(|output| output.status.success()) {
        return lacking("miri", format!("no nightly toolchain with miri: `{install}`"));
    }
    let test =
        ["miri", "test", "--locked", "--quiet", "--package", "basalt-storage", "--package", "basalt-vocab", "--lib"];
    // A nightly toolchain that cannot build this, or has no sources of the standard library, says nothing of this.
    if let Err((_, why)) = process::run(root, nightly(&test).arg("--no-run")) {
        return lacking("miri", format!("the nightly toolchain builds no tests (`{install}`): {why}"));
    }
    // Tests read the clock and draw seeds.
    let flags = format!("-Zmiri-disable-isolation {MIRI_SEEDS}");
    match process::run(root, nightly(&test).arg("--").args(MIRI_TESTS).env("MIRIFLAGS", flags)) {
        Ok(count) if count.passed == 0 => Verdict::Failed(count, "miri ran no test".to_owned()),
        result => verdict(result),
    }
}

/// The nightly toolchain's cargo, and not the one that runs this.
fn nightly(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").args(arguments).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

fn fuzz(root: &Path) -> Verdict {
    // By name, and not in the binary's own tests, which are not fuzzers.
    let mut command =
        process::cargo(&["test", "--workspace", "--exclude", "basalt", "--exclude", "xtask", "--locked", "--quiet"]);
    command.args(["--no-fail-fast", "--lib", "--", "fuzz"]).env("BASALT_FUZZ_SECONDS", FUZZ_SECONDS);
    match process::run(root, &mut command) {
        Ok(count) if count.passed == 0 => Verdict::Failed(count, "no test has `fuzz` in its name".to_owned()),
        result => verdict(result),
    }
}

/// From the same seeds each time, so that a red gate is the doing of the change that it looks at. New seeds are hunted
/// by hand (docs/TESTING.md); a seed that fails there is repeated with its number.
fn sim(root: &Path) -> Verdict {
    let run = &["run", "--package", "basalt", "--locked", "--quiet", "--", "sim", "--forever", "--seed", SIM_SEED];
    let mut command = process::cargo(run);
    verdict(process::run(root, command.args(["--seconds", SIM_SECONDS, "--steps", "10000"])))
}

fn redis_suite(root: &Path) -> Verdict {
    match suite::run(root, &[]) {
        Ok(count) => Verdict::Passed(count),
        Err(suite::Failure::Short(why)) => Verdict::Failed(Count::default(), why),
        Err(suite::Failure::Unavailable(why)) => lacking("suite", why),
    }
}

/// So that they cannot rot; their figures mean nothing here.
fn bench(root: &Path) -> Verdict {
    let mut micro = process::cargo(&["test", "--workspace", "--bench", "*", "--locked", "--quiet"]);
    let small =
        &["run", "--package", "basalt", "--locked", "--quiet", "--", "bench", "--records", "5000", "--seconds", "1"];
    let mut canonical = process::cargo(small);
    canonical.args(["--warm-up-seconds", "0", "--quiet", "--out", "target/bench-smoke"]);
    let outcomes = [process::run(root, &mut micro), process::run(root, &mut canonical)];
    let whys: Vec<String> = outcomes.into_iter().filter_map(|outcome| outcome.err().map(|(_, why)| why)).collect();
    let failed = whys.len() as u64;
    let count = Count { passed: 2 - failed, failed };
    if failed == 0 { Verdict::Passed(count) } else { Verdict::Failed(count, whys.join("\n")) }
}

fn docs(root: &Path) -> Verdict {
    let mut command = process::cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
    let rustdoc = process::run(root, command.env("RUSTDOCFLAGS", "-D warnings"));
    match (rustdoc, commands_page::check(root)) {
        (Ok(_), Ok(())) => Verdict::Passed(Count { passed: 2, failed: 0 }),
        (rustdoc, page) => {
            let whys: Vec<String> = [rustdoc.err().map(|(_, why)| why), page.err()].into_iter().flatten().collect();
            let failed = whys.len() as u64;
            Verdict::Failed(Count { passed: 2 - failed, failed }, whys.join("\n"))
        }
    }
}

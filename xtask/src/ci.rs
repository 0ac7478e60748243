//! The gate: its steps in order, each with its time, a summary, and one closing line.
//!
//! Black-box tests leave much of the processors unused: they wait for elections, for disks and for other systems. Steps
//! whose result does not depend on their speed run beside them, with less priority. Such steps have an amount of work to
//! do, and no time to do it in.

use crate::apps;
use crate::before;
use crate::commands_page;
use crate::house;
use crate::process::{self, Count, Output};
use crate::suite;
use crate::supply;
use crate::test_programs::{self, Programs, TestProgram};
use crate::turns::Turns;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How much processor time each fuzzer has here; the tests run each for a moment only.
const FUZZ_SECONDS: &str = "5";

/// What tests must find on this machine, separated by commas: a test that lacks what is listed fails.
const REQUIRE: &str = "BASALT_REQUIRE";
/// What the gate requires unless the environment says otherwise.
const REQUIRED: &str =
    "uring,odirect,mount,strace,redis,python,java,go,node,rust,hiredis,ruby,php,rpm,runc,etcd,before,suite,miri";

/// Tests that miri can run, by parts of their names: the atomics, and the unsafe code that works in memory. They take turns. What
/// calls the kernel (io_uring, O_DIRECT) it cannot run.
const MIRI_TESTS: &[&str] = &["cache_tests::", "huge_page::", "small_blocks::"];
/// Orders of execution that miri tries, each from a seed of its own.
const MIRI_SEEDS: &str = "-Zmiri-many-seeds=0..2";

/// The first seeds that the step `sim` runs, which take turns, and how many of each: a minute of processor time and a half.
const SIM_SEED: &[&str] = &["1", "151"];
const SIM_SEEDS: &str = "150";

/// What the gate takes of the disk when it builds everything from nothing.
const DISK_GIB: f64 = 9.0;

/// What a step came to.
enum Verdict {
    Passed(Count),
    Failed(Count, String),
    /// What it needs is not on this machine.
    Skipped(String),
}

/// When a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Alone: it builds what the others run, or is over in seconds.
    Alone,
    /// It mostly waits, and has deadlines: steps of the next kind run beside it.
    Waits,
    /// Beside a step that waits, with less priority: its result does not depend on its speed.
    Beside,
}

impl Turn {
    /// What passes the output of such a step on.
    fn output(self) -> Output {
        if self == Self::Beside { Output::AtTheEnd } else { Output::Live }
    }
}

/// By how much the priority of steps beside others is lower (`nice`): in each slice of a processor that both want, they
/// get a tenth as much.
const BESIDE_NICENESS: i32 = 10;

/// How many steps run beside those that wait: most of them leave a processor idle at times, or never use more than one.
const BESIDE_AT_ONCE: usize = 2;

/// One step of the gate.
struct Step {
    name: &'static str,
    what: &'static str,
    turn: Turn,
    run: fn(&Gate, Output) -> Verdict,
}

/// What the steps of one run share.
struct Gate<'a> {
    root: &'a Path,
    programs: Programs<'a>,
    turns: Turns,
}

impl Step {
    /// Runs it and says how it ended, and when.
    fn execute(&'static self, gate: &Gate) -> Ended {
        let beside = if self.turn == Turn::Beside { ", beside" } else { "" };
        println!("\n=== {}: {}{beside}", self.name, self.what);
        let start = Instant::now();
        let verdict = (self.run)(gate, self.turn.output());
        let took = start.elapsed();
        match &verdict {
            Verdict::Passed(_) => println!("=== {} passed in {:.1} s", self.name, took.as_secs_f64()),
            Verdict::Skipped(why) => println!("=== {} SKIPPED: {why}", self.name),
            Verdict::Failed(_, why) => println!("=== {} FAILED in {:.1} s\n{why}", self.name, took.as_secs_f64()),
        }
        Ended { step: self, took, verdict, free_gib: free_gib(gate.root) }
    }
}

/// A step that has run.
struct Ended {
    step: &'static Step,
    took: Duration,
    verdict: Verdict,
    /// What was free on the disk then.
    free_gib: f64,
}

/// What is free on the disk that the gate builds on, in GiB.
fn free_gib(root: &Path) -> f64 {
    rustix::fs::statvfs(root).map_or(f64::NAN, |facts| (facts.f_bavail * facts.f_frsize) as f64 / f64::from(1 << 30))
}

/// In this order, but that steps of the turn `Beside` run at the same time as the steps of the turn `Waits` next to them.
/// Those that wait call no cargo, which lets one build at a time: they run what `build` has built.
const STEPS: &[Step] = &[
    Step { name: "format", what: "rustfmt has nothing to change", turn: Turn::Alone, run: format },
    Step {
        name: "supply",
        what: "licenses and sources of all libraries are among those of deny.toml",
        turn: Turn::Alone,
        run: supply_chain,
    },
    Step {
        name: "before",
        what: "the binary of the commit before, for the rolling upgrade",
        turn: Turn::Alone,
        run: before,
    },
    Step { name: "build", what: "all test programs are built", turn: Turn::Alone, run: build },
    Step {
        name: "blackbox",
        what: "the basalt binary as a process, and crates with sockets",
        turn: Turn::Waits,
        run: blackbox,
    },
    Step {
        name: "suite",
        what: "a third of Redis's own Tcl suite against basalt",
        turn: Turn::Waits,
        run: redis_suite,
    },
    Step {
        name: "apps",
        what: "a quarter of the applications, against one node and three, and one while a node is killed",
        turn: Turn::Waits,
        run: applications,
    },
    Step { name: "house", what: "the house rules that no compiler checks", turn: Turn::Beside, run: house_rules },
    Step { name: "unit", what: "the tests of all other crates, and of docs", turn: Turn::Beside, run: unit },
    Step { name: "clippy", what: "no warning in any target", turn: Turn::Beside, run: clippy },
    Step {
        name: "miri",
        what: "unsafe code that works in memory, run by miri, which sees undefined behaviour",
        turn: Turn::Beside,
        run: miri,
    },
    Step {
        name: "docs",
        what: "rustdoc without warnings, and docs/COMMANDS.md as the table says",
        turn: Turn::Beside,
        run: docs,
    },
    Step {
        name: "sim",
        what: "stores in virtual time, with faults, from the same seeds",
        turn: Turn::Beside,
        run: sim,
    },
    Step { name: "fuzz", what: "every fuzzer for a few seconds of processor time", turn: Turn::Beside, run: fuzz },
    Step { name: "bench", what: "micro-benchmarks and the canonical run, in small", turn: Turn::Alone, run: bench },
];

/// Runs the steps that the options leave; an error if any failed.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let Some((steps, is_whole)) = chosen(arguments)? else { return Ok(()) };
    let begun = Instant::now();
    let turns = if is_whole { Turns::all() } else { Turns::of(root) };
    let gate = &Gate { root, programs: Programs::new(root), turns };
    let free = free_gib(root);
    println!("{free:.1} GiB of the disk are free; from nothing, the gate takes about {DISK_GIB:.0} GiB");
    let together = |one: &&Step, other: &&Step| one.turn != Turn::Alone && other.turn != Turn::Alone;
    let results: Vec<Ended> = steps.chunk_by(together).flat_map(|steps| execute_together(gate, steps)).collect();
    summary(&results, begun.elapsed())
}

/// Runs steps in order; those beside others at the same time, [`BESIDE_AT_ONCE`] of them, which begin in order.
fn execute_together(gate: &Gate, steps: &[&'static Step]) -> Vec<Ended> {
    let (beside, first): (Vec<&'static Step>, Vec<&'static Step>) =
        steps.iter().copied().partition(|step| step.turn == Turn::Beside);
    let (beside, next) = (&beside, &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let threads = [(); BESIDE_AT_ONCE].map(|()| {
            scope.spawn(move || {
                // Of this thread and its children alone. Without it they are as quick as the others, no more.
                let _ = rustix::process::nice(BESIDE_NICENESS);
                let taken = std::iter::from_fn(|| beside.get(next.fetch_add(1, Ordering::AcqRel)));
                taken.map(|step| step.execute(gate)).collect::<Vec<_>>()
            })
        });
        let mut ended: Vec<Ended> = first.into_iter().map(|step| step.execute(gate)).collect();
        ended.extend(threads.into_iter().flat_map(|thread| thread.join().expect("a step does not panic")));
        // As they are listed.
        ended.sort_by_key(|ended| steps.iter().position(|step| step.name == ended.step.name));
        ended
    })
}

fn summary(results: &[Ended], took: Duration) -> Result<(), String> {
    // Said again here: the end of a long log is what people see of it.
    for Ended { step, verdict, .. } in results {
        if let Verdict::Failed(_, why) = verdict {
            println!("\n=== {} FAILED\n{}", step.name, why.trim_end());
        }
    }
    let mut total = Count::default();
    println!("\n{:<10} {:>8} {:>8} {:>9} {:>9}", "step", "passed", "failed", "seconds", "GiB free");
    for Ended { step, took, verdict, free_gib } in results {
        let count = match verdict {
            // A step without tests of its own is one check.
            Verdict::Passed(count) => Count { passed: count.passed.max(1), failed: 0 },
            Verdict::Skipped(_) => Count::default(),
            Verdict::Failed(count, _) => Count { passed: count.passed, failed: count.failed.max(1) },
        };
        let seconds = took.as_secs_f64();
        println!("{:<10} {:>8} {:>8} {seconds:>9.1} {free_gib:>9.1}", step.name, count.passed, count.failed);
        total.passed += count.passed;
        total.failed += count.failed;
    }
    println!("{:<10} {:>8} {:>8} {:>9.1}\n", "all", total.passed, total.failed, took.as_secs_f64());
    // A full disk is told by tests in many ways, none of which is the reason.
    if let Some(least) = results.iter().map(|ended| ended.free_gib).min_by(f64::total_cmp).filter(|least| *least < 1.0)
    {
        println!("the disk was full, or nearly: {least:.2} GiB were free; what failed may have failed for that");
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 { Ok(()) } else { std::process::exit(1) }
}

/// The steps that the options ask for, and whether nothing waits for its turn in them; none if they only ask for the list.
fn chosen(arguments: &[String]) -> Result<Option<(Vec<&'static Step>, bool)>, String> {
    let mut steps: Vec<&Step> = STEPS.iter().collect();
    let mut is_whole = false;
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        if option == "--list" {
            for step in STEPS {
                println!("{:<10} {}", step.name, step.what);
            }
            return Ok(None);
        }
        if option == "--whole" {
            is_whole = true;
            continue;
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
    Ok(Some((steps, is_whole)))
}

fn verdict(result: Result<Count, (Count, String)>) -> Verdict {
    match result {
        Ok(count) => Verdict::Passed(count),
        Err((count, why)) => Verdict::Failed(count, why),
    }
}

fn format(gate: &Gate, _: Output) -> Verdict {
    verdict(process::run(gate.root, &mut process::cargo(&["fmt", "--all", "--check"])))
}

fn house_rules(gate: &Gate, _: Output) -> Verdict {
    match house::Workspace::read(gate.root).map(|workspace| house::check(&workspace)) {
        Ok(outcome) if outcome.breaches.is_empty() => Verdict::Passed(Count { passed: outcome.rules, failed: 0 }),
        Ok(outcome) => {
            let failed = outcome.rules_broken();
            let passed = outcome.rules - failed;
            Verdict::Failed(Count { passed, failed }, outcome.listing())
        }
        Err(why) => Verdict::Failed(Count::default(), why),
    }
}

fn supply_chain(gate: &Gate, _: Output) -> Verdict {
    verdict(supply::check(gate.root))
}

fn clippy(gate: &Gate, output: Output) -> Verdict {
    let mut command =
        process::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]);
    verdict(process::run_there(command.current_dir(gate.root), output))
}

fn before(gate: &Gate, _: Output) -> Verdict {
    if !test_programs::upgrades(gate.turns) {
        return Verdict::Skipped("it is not the turn of the tests that need it".to_owned());
    }
    match before::build(gate.root, None) {
        Ok(_) => Verdict::Passed(Count::default()),
        Err(why) => Verdict::Failed(Count::default(), why),
    }
}

fn build(gate: &Gate, _: Output) -> Verdict {
    match gate.programs.tests() {
        Ok(_) => Verdict::Passed(Count::default()),
        Err(why) => Verdict::Failed(Count::default(), why),
    }
}

/// Runs the test programs that `wanted` chooses.
fn run_tests(gate: &Gate, output: Output, wanted: fn(&TestProgram) -> bool) -> Result<Count, (Count, String)> {
    let programs = gate.programs.tests().map_err(|why| (Count::default(), why))?;
    let required = required();
    let wanted = programs.iter().filter(|program| wanted(program) && program.has_turn(gate.turns));
    process::sum(wanted.map(|program| program.run((REQUIRE, &required), gate.turns, output)).collect::<Vec<_>>())
}

fn blackbox(gate: &Gate, output: Output) -> Verdict {
    verdict(run_tests(gate, output, TestProgram::is_timed))
}

fn unit(gate: &Gate, output: Output) -> Verdict {
    let programs = run_tests(gate, output, |program| !program.is_timed());
    let mut examples = process::cargo(&["test", "--workspace", "--doc", "--locked", "--no-fail-fast", "--quiet"]);
    let examples = process::run_there(examples.current_dir(gate.root), output);
    verdict(process::sum([programs, examples]))
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

fn miri(gate: &Gate, output: Output) -> Verdict {
    let install = "rustup toolchain install nightly --profile minimal --component miri,rust-src";
    let version = nightly(&["miri", "--version"]).current_dir(gate.root).output();
    if !version.is_ok_and(|output| output.status.success()) {
        return lacking("miri", format!("no nightly toolchain with miri: `{install}`"));
    }
    let of = ["--package", "basalt-storage", "--package", "basalt-vocab", "--package", "basalt-lua", "--lib"];
    let test = [&["miri", "test", "--locked", "--quiet"][..], &of].concat();
    // Such a toolchain lacks the sources of the standard library, or is of another time than this program.
    if let Err((_, why)) = process::run_there(nightly(&test).arg("--no-run").current_dir(gate.root), output) {
        return lacking("miri", format!("the nightly toolchain builds no tests (`{install}`): {why}"));
    }
    // Tests read the clock and draw seeds.
    let flags = format!("-Zmiri-disable-isolation {MIRI_SEEDS}");
    let mut tests = nightly(&test);
    let turn = gate.turns.chosen(MIRI_TESTS);
    println!("miri: the turn of {}", turn.join(", "));
    tests.arg("--").args(turn).env("MIRIFLAGS", flags).current_dir(gate.root);
    match process::run_there(&mut tests, output) {
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

fn fuzz(gate: &Gate, output: Output) -> Verdict {
    let programs = match gate.programs.tests() {
        Ok(programs) => programs,
        Err(why) => return Verdict::Failed(Count::default(), why),
    };
    // By the tests' names. Files of tests have none: what fuzzes there runs with the other tests.
    let runs =
        programs.iter().filter(|program| !program.is_file_of_tests()).map(|program| program.fuzz(FUZZ_SECONDS, output));
    match process::sum(runs.collect::<Vec<_>>()) {
        Ok(count) if count.passed == 0 => Verdict::Failed(count, "no test has `fuzz` in its name".to_owned()),
        result => verdict(result),
    }
}

/// Known seeds, so that a red gate is the doing of the change that it looks at. New seeds are hunted
/// by hand (docs/TESTING.md); a seed that fails there is repeated with its number.
fn sim(gate: &Gate, output: Output) -> Verdict {
    let program = match gate.programs.basalt() {
        Ok(program) => program,
        Err(why) => return Verdict::Failed(Count::default(), why),
    };
    let runs = gate.turns.chosen(SIM_SEED).into_iter().map(|seed| {
        let mut command = Command::new(program);
        command.args(["sim", "--seed", seed, "--seeds", SIM_SEEDS, "--jobs", "2", "--steps", "10000"]);
        process::run_there(command.current_dir(gate.root), output)
    });
    verdict(process::sum(runs.collect::<Vec<_>>()))
}

fn redis_suite(gate: &Gate, _: Output) -> Verdict {
    match gate
        .programs
        .basalt()
        .map_err(suite::Failure::Short)
        .and_then(|basalt| suite::check(gate.root, basalt, gate.turns))
    {
        Ok(count) => Verdict::Passed(count),
        Err(suite::Failure::Short(why)) => Verdict::Failed(Count::default(), why),
        Err(suite::Failure::Unavailable(why)) => lacking("suite", why),
    }
}

fn applications(gate: &Gate, _: Output) -> Verdict {
    verdict(
        gate.programs
            .basalt()
            .map_err(|why| (Count::default(), why))
            .and_then(|basalt| apps::check(gate.root, basalt, gate.turns)),
    )
}

/// So that they cannot rot; their figures mean nothing here.
fn bench(gate: &Gate, _: Output) -> Verdict {
    let mut micro = process::cargo(&["test", "--workspace", "--bench", "*", "--locked", "--quiet"]);
    let small =
        &["run", "--package", "basalt", "--locked", "--quiet", "--", "bench", "--records", "5000", "--seconds", "1"];
    let mut canonical = process::cargo(small);
    canonical.args(["--warm-up-seconds", "0", "--quiet", "--out", "target/bench-smoke"]);
    verdict(process::sum([&mut micro, &mut canonical].map(|command| {
        // Each is one check, whatever it counts.
        process::run(gate.root, command)
            .map(|_| Count { passed: 1, failed: 0 })
            .map_err(|(_, why)| (Count::default(), why))
    })))
}

fn docs(gate: &Gate, output: Output) -> Verdict {
    let mut command = process::cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
    let rustdoc = process::run_there(command.env("RUSTDOCFLAGS", "-D warnings").current_dir(gate.root), output);
    match (rustdoc, commands_page::check(gate.root)) {
        (Ok(_), Ok(())) => Verdict::Passed(Count { passed: 2, failed: 0 }),
        (rustdoc, page) => {
            let whys: Vec<String> = [rustdoc.err().map(|(_, why)| why), page.err()].into_iter().flatten().collect();
            let failed = whys.len() as u64;
            Verdict::Failed(Count { passed: 2 - failed, failed }, whys.join("\n"))
        }
    }
}

//! The house's automation: `cargo xtask ci` is the gate; the rest are the tools that it and its users need.

mod apps;
mod before;
mod chart;
mod ci;
mod commands_page;
mod crash;
mod dist;
mod house;
mod perf;
mod process;
mod suite;
mod supply;
mod test_programs;
mod turns;
// What it reads of a thread is the processor's.
#[cfg(target_arch = "x86_64")]
mod way;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
The house's automation.

Usage: cargo xtask <task> [options]

Tasks:
  ci [--only STEP[,STEP]] [--skip STEP[,STEP]] [--whole] [--list]
                          the gate: every check that a change must pass; never edits the tree. Long suites take turns
                          by the number of commits; --whole: all of them run
  house [--report] [--shrink]
                          the house rules alone; their numbers a crate; excuses that are no longer needed removed
  crash [--rounds N] [--seed N]
                          kill -9 under load, restart, compare: 1,000 rounds unless told otherwise
  redis-suite [--unit NAME[,NAME]] [--port P] [--calibrate] [--databases]
                          Redis 7.0's own Tcl suite against Basalt, against the server at a port, or against
                          redis-server itself
  perf [NAME…] [--runs 5] [--quick] [--json] [--list] [--no-build] [--program FILE] [--against COMMIT] [--older FILE]
                          what docs/PERFORMANCE.md says, measured: each bar, both sides alternating, as Markdown;
                          --against: the older commit of `perf build`; --older: the program that `perf older` compares with
  apps [--only NAME[,NAME]] [--quarter 1-4] [--situation single|three|killed] [--program FILE] [--port P] [--list]
                          applications from their registries, against one node, three, and three of which one is
                          killed; writes docs/APPLICATIONS.md
  before [COMMIT]         builds the binary of a commit before, for tests of upgrades: target/before/basalt
  dist [--target amd64|arm64|all] [--test] [--program FILE] [--version V] [--out DIR] [--compression 1-9]
                          what people install, in target/packages, for this machine's processor or others: packages for
                          Debian and RPM, an image for containers, the program and its symbols, and the list of what it
                          is made of. --test: tries it under systemd in old systems, made by debootstrap
  chart [--check]         helm lints and renders the chart, and what comes out is read as Kubernetes reads it; helm is
                          built from its source with Go. --check: it must be as deploy/helm/rendered has it
  supply                  checks the libraries that Basalt is built from against deny.toml
  docs                    writes docs/COMMANDS.md from the command table
  way set|get [--program FILE]
                          the files that a plain SET, or a GET of a row in memory, goes through, by the lines of each that run;
                          needs llvm-symbolizer
  help                    this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    let result = match arguments.first().map(String::as_str) {
        Some("ci") => ci::run(&root, &arguments[1..]),
        Some("house") => house::run(&root, &arguments[1..]),
        Some("crash") => crash::run(&root, &arguments[1..]),
        Some("redis-suite") => match suite::run(&root, &arguments[1..]) {
            Ok(_) => Ok(()),
            Err(suite::Failure::Unavailable(why) | suite::Failure::Short(why)) => Err(why),
        },
        Some("apps") => apps::run(&root, &arguments[1..]),
        Some("perf") => perf::run(&root, &arguments[1..]),
        Some("before") => before::build(&root, arguments.get(1).map(String::as_str)).map(|_| ()),
        Some("dist") => dist::run(&root, &arguments[1..]),
        Some("chart") => chart::run(&root, &arguments[1..]),
        Some("supply") => supply::run(&root),
        Some("docs") => commands_page::write(&root),
        #[cfg(target_arch = "x86_64")]
        Some("way") => way::run(&root, &arguments[1..]),
        None | Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            Ok(())
        }
        Some(other) => Err(format!("no task is called {other}; `cargo xtask help` lists them")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The folder that holds the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies one folder below the workspace").to_path_buf()
}

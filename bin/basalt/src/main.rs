//! The one binary: `start` a node, run a whole `cluster` of them, `ctl` a store, `bench`, `inspect` and `sim`ulate.

mod cli;
mod cluster;
mod completions;
mod ctl;
mod demo;
mod embedded;
mod inspect;
mod lent;
mod logging;
mod sim;
mod start;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

/// Faster than the system's, and it gives memory back: measured in docs/PERFORMANCE.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::start(cli.verbose);
    match cli.command {
        Command::Start(options) => start::run(&options),
        Command::Cluster(options) => cluster::run(&options),
        Command::Ctl(options) => ctl::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Bench(options) => embedded::run(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Completions { shell } => completions::print(shell),
    }
}

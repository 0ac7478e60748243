//! The one binary: `start` a node, `bench` it or a peer, `inspect` a data directory, `sim`ulate stores.

mod cli;
mod completions;
mod embedded;
mod inspect;
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
        Command::Bench(options) => embedded::run(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Completions { shell } => completions::print(shell),
    }
}

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

/// It lists what is free beside the blocks, not in them: memory is not touched to be taken or given back. docs/adr/0019.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How it begins, jemalloc(3): what has been free for a second goes back to the system, whether or not anything is called.
#[expect(unsafe_code, reason = "the name under which the allocator looks for its settings, a C string")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 53] = b"background_thread:true,dirty_decay_ms:1000,thp:never\0";

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

//! The one binary: `start` a node, run a whole `cluster` of them, `ctl` a store, `bench`, `inspect` and `sim`ulate.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod cluster;
mod completions;
mod config;
mod ctl;
mod database_places;
mod demo;
mod embedded;
mod export;
mod health;
mod import;
mod inspect;
mod lines;
mod logging;
mod moment;
mod pace;
mod problems;
mod service_manager;
mod sim;
mod start;
mod stop_flag;
mod store_login;
mod store_writer;
mod suite_stores;
mod whole_file;

use clap::{CommandFactory as _, FromArgMatches as _};
use cli::{Cli, Command};
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

/// It lists what is free beside the blocks, not in them: memory is not touched to be taken or given back. docs/adr/0019.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How it begins, jemalloc(3): what has been free for a second goes back to the system, whether or not anything is called.
#[expect(unsafe_code, reason = "the name under which the allocator looks for its settings, a C string")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 53] = b"background_thread:true,dirty_decay_ms:1000,thp:never\0";

fn main() -> ExitCode {
    let parsed = Cli::command().try_get_matches_from(cli::arguments(std::env::args_os()));
    let (cli, matches) = match parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches))) {
        Ok(parsed) => parsed,
        Err(e) => return answer(&e),
    };
    logging::start(cli.verbose);
    match cli.command {
        Command::Start(options) => start::run(&options, matches.subcommand_matches("start"), cli.verbose),
        Command::Cluster(options) => cluster::run(&options),
        Command::Ctl(options) => ctl::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Bench(options) => embedded::run(&options),
        Command::Export(options) => export::run(&options),
        Command::Import(options) => import::run(&options),
        Command::Config(options) => config::run(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Completions { shell } => completions::print(shell),
    }
}

/// Prints what clap has to say: help and version to standard output, a wrong command line to standard error.
fn answer(e: &clap::Error) -> ExitCode {
    let wrong = e.use_stderr();
    match e.print().and_then(|()| std::io::stdout().flush()) {
        _ if wrong => ExitCode::from(2),
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            bench::note!("basalt: standard output: {e}");
            ExitCode::FAILURE
        }
    }
}

//! Completion scripts for shells.

use crate::cli::Cli;
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

/// Prints the script of one shell.
pub fn print(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "basalt", &mut script);
    match bench::output::print(&String::from_utf8_lossy(&script)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(e) => {
            bench::note!("basalt completions: {e}");
            ExitCode::FAILURE
        }
    }
}

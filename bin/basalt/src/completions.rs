//! Completion scripts for shells.

use crate::cli::Cli;
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

/// Prints the script of one shell.
pub fn print(shell: Shell) -> ExitCode {
    clap_complete::generate(shell, &mut Cli::command(), "basalt", &mut std::io::stdout());
    ExitCode::SUCCESS
}

//! Settings from files, the environment and the command line, and `basalt config`, which shows and checks them.
//!
//! A setting has the last of: its default, the line of the file, the variable of the environment, the flag or `--set`. A
//! value that the store has for all its nodes (`basalt ctl settings`) is above them all.

mod environment;
mod file;
mod given;
mod include;
mod print;
mod reading;
mod redis_conf;
mod rewrite;
mod toml_file;

pub use environment::Environment;
pub use file::FileSettings;
pub use given::{Given, Origin, last_of_each};
pub use reading::read_file;
pub use rewrite::rewrite;

use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

const AFTER: &str = "\
Examples:
  basalt config print > basalt.toml           every setting with its default and meaning
  basalt config check basalt.toml             what is wrong, by line
  basalt config check /etc/redis/redis.conf   what of it Basalt takes, and what not
  basalt start --config basalt.toml";

/// What to do with settings.
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct ConfigOptions {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand, Debug)]
enum ConfigCommand {
    /// Print a configuration file with every setting: its default, what it means, whether CONFIG SET may change it
    Print {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a configuration file, TOML or redis.conf, and name what is wrong by line
    Check {
        /// The file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs `basalt config`.
pub fn run(options: &ConfigOptions) -> ExitCode {
    let (text, code) = match &options.command {
        ConfigCommand::Print { json: true } => (print::json(), ExitCode::SUCCESS),
        ConfigCommand::Print { json: false } => (print::toml(), ExitCode::SUCCESS),
        ConfigCommand::Check { file, json } => match read_file(file) {
            Ok(settings) => {
                let code = if settings.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
                (if *json { findings(&settings) } else { report(&settings) }, code)
            }
            Err(e) => {
                bench::note!("basalt config check: {e}");
                return ExitCode::FAILURE;
            }
        },
    };
    match bench::output::print(&text) {
        Ok(_) => code,
        Err(e) => {
            bench::note!("basalt config: {e}");
            ExitCode::FAILURE
        }
    }
}

/// What a check has found, a line each.
fn report(settings: &FileSettings) -> String {
    let errors = settings.errors.iter().map(|note| format!("error    {note}\n"));
    let warnings = settings.warnings.iter().map(|note| format!("warning  {note}\n"));
    let count = format!(
        "{} settings, {} errors, {} warnings\n",
        last_of_each(settings.given.clone()).len(),
        settings.errors.len(),
        settings.warnings.len()
    );
    errors.chain(warnings).chain([count]).collect()
}

fn findings(settings: &FileSettings) -> String {
    let notes = |notes: &[file::Note]| -> Vec<_> {
        notes.iter().map(|note| json!({"file": *note.path, "line": note.line, "text": note.text})).collect()
    };
    let given: Vec<_> = last_of_each(settings.given.clone())
        .into_iter()
        .map(|one| {
            let is_secret = node::config::is_secret(one.name.as_bytes());
            json!({"name": one.name, "value": if is_secret { "(hidden)".to_owned() } else { one.value }})
        })
        .collect();
    let found = json!({"settings": given, "errors": notes(&settings.errors), "warnings": notes(&settings.warnings)});
    format!("{found:#}\n")
}

/// What this process' environment says.
pub fn of_environment() -> Environment {
    // What is no text is no setting.
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Environment::of(variables)
}

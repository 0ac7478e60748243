//! `basalt ctl settings`: what is set for the whole store.

use super::ask::{Asker, Failure};
use super::table::{Cell, Table, Tone, colours};
use super::verdict::Verdict;
use clap::{Args, Subcommand};
use serde_json::Value;

const AFTER: &str = "\
A setting applies on every node at once and survives restarts. Some settings, such as durability, override a setting of the \
nodes. Until such a setting is set, and after `reset`, each node uses the value with which it was started.

Examples:
  basalt ctl settings list
  basalt ctl settings set failure-timeout-ms 60000
  basalt ctl settings set split-bytes 8gb
  basalt ctl settings reset split-bytes";

#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(super) struct SettingsOptions {
    /// What to do
    #[command(subcommand)]
    command: SettingsCommand,
}

#[derive(Debug, Subcommand)]
enum SettingsCommand {
    /// Show all settings, what they are for, and which values they take
    List,
    /// Show one
    Get {
        /// Its name
        name: String,
    },
    /// Change one, on all nodes
    Set {
        /// Its name
        name: String,
        /// What it is to be
        value: String,
    },
    /// Let the default hold again
    Reset {
        /// Its name
        name: String,
    },
}

pub(super) fn run(asker: &mut Asker, options: &SettingsOptions) -> Result<Verdict, Failure> {
    let (answer, show): (_, fn(&Value) -> String) = match &options.command {
        SettingsCommand::List => (asker.ask(&["SETTINGS", "LIST"])?, |all| table(all, colours())),
        SettingsCommand::Get { name } => (asker.ask(&["SETTINGS", "GET", name])?, |one| format!("{}\n", value(one))),
        SettingsCommand::Set { name, value } => (asker.ask(&["SETTINGS", "SET", name, value])?, changed),
        SettingsCommand::Reset { name } => (asker.ask(&["SETTINGS", "RESET", name])?, changed),
    };
    asker.show(&answer, show)?;
    Ok(Verdict::Good)
}

fn value(setting: &Value) -> String {
    match setting["value"].as_str() {
        Some(value) => value.to_owned(),
        None => format!("(what each node was started with: {})", setting["node_setting"].as_str().unwrap_or_default()),
    }
}

fn changed(setting: &Value) -> String {
    let was = setting["was"].as_str().unwrap_or("what each node was started with");
    format!("{}: {} (was {was})\n", setting["name"].as_str().unwrap_or_default(), value(setting))
}

pub(super) fn table(answer: &Value, colours: bool) -> String {
    let mut text = String::new();
    let mut table = Table::new(&["setting ", "value ", "default ", "values "]);
    for setting in answer["settings"].as_array().into_iter().flatten() {
        let word = |name: &str| setting[name].as_str().unwrap_or_default().to_owned();
        let shown = setting["value"].as_str().map_or_else(|| "(each node's)".to_owned(), str::to_owned);
        let tone = if setting["set"] == true { Tone::Bold } else { Tone::Plain };
        let default = setting["default"].as_str().map_or_else(|| "(each node's)".to_owned(), str::to_owned);
        table.row(vec![word("name").into(), Cell::toned(shown, tone), default.into(), word("values").into()]);
        text += &format!("{}\n    {}\n", word("name"), word("help"));
    }
    format!("{}\n{text}", table.text(colours))
}

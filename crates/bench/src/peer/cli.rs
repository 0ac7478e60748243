//! `basalt bench peer`: other systems' servers on this machine.

use std::io;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;

use super::options::{DownOptions, StatusOptions, UpOptions};
use super::roster::Roster;
use super::start::up;
use crate::output::print;

/// What `bench peer` does.
#[derive(Clone, Debug, Subcommand)]
pub enum PeerCommand {
    /// Start a system's servers on this machine, and say what --target takes
    Up(UpOptions),
    /// Stop the servers that were started in a folder
    Down(DownOptions),
    /// Tell of the servers in a folder
    Status(StatusOptions),
}

/// Does what the command says; `stop` ends a start. True when all went well.
pub(crate) fn run(command: &PeerCommand, stop: &AtomicBool) -> io::Result<bool> {
    match command {
        PeerCommand::Up(options) => {
            crate::note!("starting {}…", options.name);
            let roster = up(options, stop)?;
            show(&roster, options.json)?;
            return Ok(roster.alive() == roster.nodes.len());
        }
        PeerCommand::Down(options) => {
            let roster = roster(&options.data)?;
            roster.end()?;
            if !options.keep_data {
                roster.remove(&options.data)?;
            }
            let data = if options.keep_data { "kept" } else { "removed" };
            crate::note!("{} is down; its data is {data}", roster.name);
        }
        PeerCommand::Status(options) => {
            let roster = roster(&options.data)?;
            show(&roster, options.json)?;
            return Ok(roster.alive() == roster.nodes.len());
        }
    }
    Ok(true)
}

fn roster(dir: &std::path::Path) -> io::Result<Roster> {
    let nothing = || io::Error::new(io::ErrorKind::NotFound, format!("no peer was started in {}", dir.display()));
    Roster::read(dir)?.ok_or_else(nothing)
}

fn show(roster: &Roster, json: bool) -> io::Result<()> {
    if json {
        return print(&(serde_json::to_string_pretty(roster)? + "\n")).map(drop);
    }
    let mut text = format!("{}: {} of {} servers are up\n", roster.name, roster.alive(), roster.nodes.len());
    text += &format!("settings  {}\n--target  {}\n", roster.settings, roster.target);
    for node in &roster.nodes {
        text += &format!("  {:<22} process {:<8} {}\n", node.address, node.process.id, node.data.display());
    }
    print(&text).map(drop)
}

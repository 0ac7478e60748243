//! `basalt ctl`: what an operator asks of a store, by any of its nodes.

mod backup;
mod picture;
mod status;

use clap::{Args, Subcommand};
use client::{Client, StoreUrl, Value};
use std::process::ExitCode;
use std::time::Duration;

const CONNECT_WITHIN: Duration = Duration::from_secs(3);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

const AFTER: &str = "\
A node is given as HOST:PORT, or as redis://USER:PASSWORD@HOST:PORT, with the address that clients use. Several, with
commas between them, are tried in turn.

Examples:
  basalt ctl init --node 10.0.0.1:7000      make the store that three nodes are waiting to be
  basalt ctl status --node 10.0.0.1:7000    who leads what, and whether anything is amiss

Exit codes: 0 done (status: all nodes are up and all shards have leaders), 1 not so, 2 the command line is wrong.";

/// Make a store, and see how it is
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct CtlOptions {
    /// What to do
    #[command(subcommand)]
    command: CtlCommand,
}

#[derive(Debug, Subcommand)]
enum CtlCommand {
    /// Make the store, as soon as enough nodes have joined the one that is asked
    Init(NodeOptions),
    /// Show the nodes, the shards, and who leads them
    Status {
        /// Whom to ask
        #[command(flatten)]
        node: NodeOptions,
        /// List the shards, however many there are
        #[arg(long)]
        shards: bool,
        /// Show it as JSON, shards included
        #[arg(long)]
        json: bool,
    },
    Backup(backup::BackupOptions),
    Restore(backup::RestoreOptions),
}

/// Whom to ask.
#[derive(Args, Debug)]
struct NodeOptions {
    /// A node's address for clients
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7000")]
    node: StoreUrl,
}

impl NodeOptions {
    fn connect(&self) -> Result<Client, String> {
        Client::open_within(&self.node, CONNECT_WITHIN, ANSWER_WITHIN).map_err(|e| e.to_string())
    }
}

/// Does what the options say.
pub fn run(options: &CtlOptions) -> ExitCode {
    let run = || match &options.command {
        CtlCommand::Init(node) => init(node),
        CtlCommand::Status { node, shards, json } => status::run(&mut node.connect()?, *shards, *json),
        CtlCommand::Backup(options) => backup::run(options),
        CtlCommand::Restore(options) => backup::run_restore(options),
    };
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("basalt ctl: {e}");
            ExitCode::FAILURE
        }
    }
}

fn init(node: &NodeOptions) -> Result<bool, String> {
    let answer = ask(&mut node.connect()?, &[b"KV.ADMIN", b"INIT"])?;
    let said = answer.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned());
    println!("{}", said.unwrap_or_default());
    Ok(true)
}

/// The node's answer. An error reply is an error.
pub(super) fn ask(client: &mut Client, request: &[&[u8]]) -> Result<Value, String> {
    match client.call_here(request) {
        Ok(Value::Error(text)) => Err(format!("{} answers: {text}", client.address())),
        Ok(answer) => Ok(answer),
        Err(e) => Err(format!("{}: {e}", client.address())),
    }
}

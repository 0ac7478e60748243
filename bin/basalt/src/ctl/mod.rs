//! `basalt ctl`: what an operator asks of a store, by any of its nodes.

mod ask;
mod backup;
mod database;
mod events;
mod map;
mod nodes;
mod plan;
mod plan_begin;
mod plan_table;
mod recover;
mod screen;
mod settings;
mod shards;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod top;
mod verdict;
mod verify;

use crate::store_login;
use ask::{Asker, Failure};
use bench::options::TlsOptions;
use clap::{Args, Subcommand};
use client::{Login, StoreUrl};
use serde_json::json;
use std::process::ExitCode;
use verdict::Verdict;

const AFTER: &str = "\
A node is given by the address that clients use, as HOST:PORT or redis://USER:PASSWORD@HOST:PORT; rediss:// is for TLS, and the port is 7000 if none is given. Any node of the store will \
do. Several, separated by commas, are tried in turn. In arguments a node is given by its address, or by the beginning of its id.

Examples:
  basalt ctl init --node 10.0.0.1:7000                make the store from the nodes that have joined
  basalt ctl status --node 10.0.0.1:7000              one screen: what is there, what is wrong
  basalt ctl top                                      the same, live
  basalt ctl plan preview drain-node 10.0.0.3:7000    what emptying a node would move
  basalt ctl plan apply drain-node 10.0.0.3:7000      empty it
  basalt ctl plan wait 7                              wait for plan 7, with its progress
  basalt ctl settings set failure-timeout-ms 60000    on all nodes at once, without a restart
  basalt ctl events --follow                          elections, failures, plans, settings, live
  basalt ctl verify                                   compare all replicas with each other

Exit codes: 0 done, and nothing is wrong; 1 something is wrong, or the request was refused; 2 the command line is wrong; 3 the \
answer could not be found, or not in time. With --json, the last line on standard error is {\"error\": …, \"exit_code\": …} when a command fails.";

/// Make a store, see how it is, and change its shape and settings
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct CtlOptions {
    /// The node that is asked, by its address for clients
    #[arg(long, global = true, value_name = "HOST:PORT", default_value = "127.0.0.1:7000", value_parser = StoreUrl::of_nodes)]
    node: StoreUrl,
    /// How it is reached with TLS
    #[command(flatten)]
    tls: TlsOptions,
    /// The user to log in as
    #[arg(long, global = true, value_name = "NAME")]
    user: Option<String>,
    /// The password; better in the environment variable BASALT_PASSWORD, which other users of the machine do not see
    #[arg(long, global = true, value_name = "PASSWORD")]
    pass: Option<String>,
    /// Show what the node answers, as JSON
    #[arg(long, global = true)]
    json: bool,
    /// What to do
    #[command(subcommand)]
    command: CtlCommand,
}

#[derive(Debug, Subcommand)]
enum CtlCommand {
    /// Make the store, once enough nodes have joined the node that is asked
    Init,
    /// Say whether the node answers: for health checks
    Ping,
    /// Say whether the node that this container runs works, wherever it listens: for the image's health check
    Health,
    /// Show the state of the store on one screen
    Status(status::StatusOptions),
    /// Show the state of the store, live
    Top(top::TopOptions),
    /// Show each node, with its figures
    Nodes,
    /// Show each shard, with its replicas
    Shards(shards::ShardsOptions),
    /// Show the map: where each slot is, and what moves
    Map,
    /// Show what has happened: elections, failures, plans, settings
    Events(events::EventsOptions),
    /// Compare the map with the nodes, and the replicas of each shard with each other
    Verify(verify::VerifyOptions),
    /// Change the store's shape: show, begin, pause, resume, cancel and wait for plans
    Plan(plan::PlanOptions),
    /// Show the databases of clients that do not know clusters: place them, name them, bound them
    #[command(after_help = database::after())]
    Database(database::DatabaseOptions),
    /// Show and change the settings of the whole store
    Settings(settings::SettingsOptions),
    /// Move all leaders away from a node, so that it can be restarted without a failed request
    DrainLeaders(plan::DrainOptions),
    Backup(backup::BackupOptions),
    Restore(backup::RestoreOptions),
}

/// Does what the options say.
pub fn run(options: &CtlOptions) -> ExitCode {
    match dispatch(options) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Ok(Verdict::Unknown) => ExitCode::from(3),
        Err(failure) => {
            if options.json {
                bench::note!("{}", json!({ "error": failure.to_string(), "exit_code": failure.code() }));
            } else {
                bench::note!("basalt ctl: {failure}");
            }
            ExitCode::from(failure.code())
        }
    }
}

impl CtlOptions {
    /// The node that is asked, and who asks: as `--user` and `--pass` say, the environment, or the node's URL.
    fn store(&self) -> Result<StoreUrl, Failure> {
        let given = self.pass.clone().or_else(store_login::password);
        let (of_url, password) = self.node.login.clone().map(|login| (login.user, login.password)).unzip();
        let user = self.user.clone().or(of_url.flatten());
        match (given.or(password), user) {
            (Some(password), user) => Ok(StoreUrl { login: Some(Login { user, password }), ..self.node.clone() }),
            (None, Some(_)) => Err(Failure::Usage("--user needs a password: --pass, or BASALT_PASSWORD".to_owned())),
            (None, None) => Ok(self.node.clone()),
        }
    }
}

/// What the container's node says of itself.
fn health(json: bool) -> Result<Verdict, Failure> {
    let said =
        crate::health::ask().map_err(|e| Failure::Unreachable(format!("no node answers in this container: {e}")))?;
    let works = said == crate::health::WORKS;
    let shown = if json { format!("{}\n", json!({ "works": works, "told": said.trim_end() })) } else { said };
    ask::print(&shown)?;
    Ok(Verdict::of(works))
}

fn dispatch(options: &CtlOptions) -> Result<Verdict, Failure> {
    let node = options.tls.towards(&options.store()?);
    let asker = || Asker::new(&node, options.json);
    match &options.command {
        CtlCommand::Init => asker()?.init().map(|()| Verdict::Good),
        CtlCommand::Ping => asker()?.ping().map(|()| Verdict::Good),
        CtlCommand::Health => health(options.json),
        CtlCommand::Status(options) => status::run(&mut asker()?, options),
        CtlCommand::Top(options) => top::run(&mut asker()?, options),
        CtlCommand::Nodes => nodes::run(&mut asker()?),
        CtlCommand::Shards(options) => shards::run(&mut asker()?, options),
        CtlCommand::Map => map::run(&mut asker()?),
        CtlCommand::Events(options) => events::run(&mut asker()?, options),
        CtlCommand::Verify(options) => verify::run(&mut asker()?, options),
        CtlCommand::Plan(options) => plan::run(&mut asker()?, options),
        CtlCommand::Database(options) => database::run(&mut asker()?, options),
        CtlCommand::Settings(options) => settings::run(&mut asker()?, options),
        CtlCommand::DrainLeaders(options) => plan::drain_leaders(&mut asker()?, options),
        CtlCommand::Backup(backup) => backup::run(backup, &node, options.json),
        CtlCommand::Restore(restore) => backup::run_restore(restore, &node, options.json),
    }
}

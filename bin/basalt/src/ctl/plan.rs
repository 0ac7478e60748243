//! `basalt ctl plan` and `drain-leaders`: the store's shape, changed while it serves.

use super::ask::{Asker, Failure};
use super::plan_begin::{ask_preview, begin, confirm, wait};
use super::plan_table::{one, plural, preview, table};
use super::recover;
use super::screen::Progress;
use super::table::colours;
use super::verdict::Verdict;
use bench::output::remark;
use clap::{Args, Subcommand};
use cluster::PLAN_KINDS;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Within so long nodes have told of what they lead: what has just come to a node may not be known yet.
const TOLD_WITHIN: Duration = Duration::from_millis(1000);

const AFTER: &str = "\
A plan is numbered and durable: it continues when any node crashes. It can be paused, resumed and cancelled at any time; \
finished steps are kept. `preview` shows what a plan would do, and begins nothing.

Examples:
  basalt ctl plan preview drain-node 10.0.0.3:7000
  basalt ctl plan apply remove-node 10.0.0.3:7000 --wait
  basalt ctl plan apply set-replication-factor 5
  basalt ctl plan apply move-shard 12 10.0.0.1:7000 10.0.0.4:7000
  basalt ctl plan list
  basalt ctl plan pause 7
  basalt ctl plan wait 7";

#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(super) struct PlanOptions {
    /// What to do
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    /// Show what a plan would do; nothing is begun
    #[command(after_help = kinds())]
    Preview(Words),
    /// Begin a plan
    #[command(after_help = kinds())]
    Apply(ApplyOptions),
    /// Show the plans that have not ended, and the last ones that have
    List,
    /// Show one plan in full
    Show(Id),
    /// Begin no further steps of a plan; those under way are finished
    Pause(Id),
    /// Continue a paused plan
    Resume(Id),
    /// End a plan; finished steps are kept
    Cancel(Id),
    /// Wait until a plan has ended, and show its progress
    Wait(WaitOptions),
    /// Let shards without a majority continue with one replica: ACKNOWLEDGED WRITES MAY BE LOST
    UnsafeRecover(recover::RecoverOptions),
}

/// Every kind of plan.
fn kinds() -> String {
    let wide = PLAN_KINDS.iter().map(|kind| kind.word.len() + kind.arguments.len() + 1).max().unwrap_or(0);
    let of = |kind: &cluster::PlanWords| {
        format!("  {:<wide$}  {}\n", format!("{} {}", kind.word, kind.arguments), kind.help)
    };
    let all: String = PLAN_KINDS.iter().filter(|kind| kind.word != "unsafe-recover").map(of).collect();
    format!(
        "Plans:\n{all}\nA node is the beginning of its id, or its address. `basalt ctl plan unsafe-recover` is apart."
    )
}

#[derive(Args, Debug)]
struct Words {
    /// Which plan
    #[arg(value_name = "KIND")]
    kind: String,
    /// What it is about
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

impl Words {
    fn all(&self) -> Vec<&str> {
        std::iter::once(&self.kind).chain(&self.arguments).map(String::as_str).collect()
    }
}

#[derive(Args, Debug)]
struct ApplyOptions {
    #[command(flatten)]
    words: Words,
    /// Only show what the plan would do
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation before what cannot be undone
    #[arg(long)]
    yes: bool,
    /// Wait until the plan has ended, and show its progress
    #[arg(long)]
    wait: bool,
    /// The reason, which the plan and its events show
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Args, Debug)]
struct Id {
    /// The plan's number
    id: u64,
}

#[derive(Args, Debug)]
struct WaitOptions {
    /// The plan's number
    id: u64,
    /// Give up waiting (exit code 3) after so long: 90s, 15m, 2h
    #[arg(long, value_name = "TIME", value_parser = super::events::ago)]
    timeout: Option<Duration>,
}

const DRAIN_AFTER: &str = "\
To restart the nodes one after the other without a failed request:
  basalt ctl drain-leaders 10.0.0.1:7000      returns when the node leads nothing
  (restart the node)
  basalt ctl status                           wait until all is well, then go on with the next

The plan ends when the node has been restarted; `basalt ctl plan cancel` ends it earlier.";

#[derive(Args, Debug)]
#[command(after_help = DRAIN_AFTER)]
pub(super) struct DrainOptions {
    /// The node: the beginning of its id, or its address; the one that is asked if none is named
    #[arg(value_name = "NODE")]
    which: Option<String>,
    /// Return at once
    #[arg(long)]
    no_wait: bool,
    /// Give up waiting (exit code 3) after so long: 90s, 15m, 2h
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = super::events::ago)]
    timeout: Duration,
}

pub(super) fn run(asker: &mut Asker, options: &PlanOptions) -> Result<Verdict, Failure> {
    let said = |asker: &mut Asker, words: &[&str]| {
        let answer = asker.ask(words)?;
        asker.show(&answer, one)?;
        Ok(Verdict::Good)
    };
    match &options.command {
        PlanCommand::Preview(words) => {
            let answer = ask_preview(asker, &words.all())?;
            asker.show(&answer, preview)?;
            Ok(Verdict::Good)
        }
        PlanCommand::Apply(options) => apply(asker, options),
        PlanCommand::List => {
            let answer = asker.ask(&["PLAN", "LIST"])?;
            asker.show(&answer, |answer| table(answer, colours()))?;
            Ok(Verdict::Good)
        }
        PlanCommand::Show(Id { id }) => said(asker, &["PLAN", "SHOW", &id.to_string()]),
        PlanCommand::Pause(Id { id }) => said(asker, &["PLAN", "PAUSE", &id.to_string()]),
        PlanCommand::Resume(Id { id }) => said(asker, &["PLAN", "RESUME", &id.to_string()]),
        PlanCommand::Cancel(Id { id }) => said(asker, &["PLAN", "CANCEL", &id.to_string()]),
        PlanCommand::Wait(options) => wait(asker, options.id, options.timeout),
        PlanCommand::UnsafeRecover(options) => recover::run(asker, options),
    }
}

fn apply(asker: &mut Asker, options: &ApplyOptions) -> Result<Verdict, Failure> {
    let words = options.words.all();
    if words[0].eq_ignore_ascii_case("unsafe-recover") {
        return Err(Failure::Usage(
            "unsafe-recover is a command of its own: basalt ctl plan unsafe-recover".to_owned(),
        ));
    }
    let planned = ask_preview(asker, &words)?;
    if options.dry_run {
        asker.show(&planned, preview)?;
        return Ok(Verdict::Good);
    }
    if let Some(warning) = planned["warning"].as_str().filter(|_| !options.yes) {
        remark(format_args!("{}", preview(&planned)));
        confirm(&format!("This cannot be undone: {warning}."), "yes", "--yes")?;
    }
    begin(asker, &words, options.reason.as_deref(), options.wait)
}

pub(super) fn drain_leaders(asker: &mut Asker, options: &DrainOptions) -> Result<Verdict, Failure> {
    let which = options.which.clone().map_or_else(|| asker.asked_node(), Ok)?;
    let begun = asker.ask(&["DRAIN-LEADERS", &which])?;
    let (plan, node) = (begun["id"].clone(), begun["about"].as_str().unwrap_or_default().to_owned());
    if options.no_wait {
        asker.show(&begun, |_| format!("plan {plan} is begun\n"))?;
        return Ok(Verdict::Good);
    }
    let (since, mut progress, mut free_since) = (Instant::now(), Progress::new(), None::<Instant>);
    loop {
        let is_late = since.elapsed() >= options.timeout;
        let nodes = match asker.ask(&["NODES"]) {
            Ok(nodes) => nodes,
            Err(Failure::Unreachable(why)) if !is_late => {
                free_since = None;
                progress.show(&why);
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            Err(failure) => {
                progress.end();
                return Err(failure.and(&format!("plan {plan} goes on")));
            }
        };
        let known = nodes["nodes"].as_array().into_iter().flatten().find(|known| known["id"] == node.as_str());
        let leads = known.and_then(|known| known["leaders"].as_u64()).unwrap_or(0);
        // A node that the store has no more leads nothing either.
        let is_free = known.is_none_or(|known| known["leads_nothing"] == true);
        if !is_free || nodes["complete"] != true {
            free_since = None;
        } else if free_since.get_or_insert_with(Instant::now).elapsed() >= TOLD_WITHIN {
            progress.end();
            given_up(asker, &plan.to_string())?;
            asker.show(&begun, |_| format!("node {node} leads nothing: restart it now (plan {plan})\n"))?;
            return Ok(Verdict::Good);
        }
        if is_late {
            progress.end();
            given_up(asker, &plan.to_string())?;
            let leads = plural(leads, "shard", "shards");
            return Err(Failure::Unreachable(format!("node {node} still leads {leads}; plan {plan} goes on")));
        }
        progress.show(&format!("node {node} leads {}", plural(leads, "shard", "shards")));
        std::thread::sleep(LOOK_EVERY);
    }
}

/// An error if a plan has ended without its work, as far as is known: another operator may have cancelled it meanwhile.
fn given_up(asker: &mut Asker, plan: &str) -> Result<(), Failure> {
    let shown = asker.ask(&["PLAN", "SHOW", plan]).unwrap_or_default();
    match shown["state"].as_str() {
        Some(state @ ("cancelled" | "failed")) => {
            Err(Failure::Refused(format!("plan {plan} is {state}: the node may lead shards again")))
        }
        _ => Ok(()),
    }
}

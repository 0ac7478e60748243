//! `basalt ctl verify`: is the store what it should be, down to the last row?

use super::ask::{Asker, Failure};
use super::screen::Progress;
use super::table::{Cell, Table, Tone, bytes, colours, duration, painted, time};
use super::verdict::Verdict;
use clap::Args;
use serde_json::Value;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Said where the node does not tell how far it is.
const GOES_ON: &str = "it may go on there: `basalt ctl verify --status` tells";

const AFTER: &str = "\
It checks three things: that replicas are placed by the rules; that nodes have the replicas that the map names; and that the \
replicas of each shard hold the same data at one entry of its log, by checksum. The last check reads all data while the store \
serves, at no more than the setting verify-rate-mb on each node. It continues on the node that was asked if this command ends.

Exit codes: 0 no fault was found; 1 a fault was found; 3 something could not be checked, or the check was stopped.";

#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(super) struct VerifyOptions {
    /// Only these shards; all unless some are given
    #[arg(value_name = "SHARD")]
    shards: Vec<u32>,
    /// Begin, and return at once
    #[arg(long)]
    background: bool,
    /// Show how far the last look of the node is, or what it has found
    #[arg(long, conflicts_with_all = ["background", "shards"])]
    status: bool,
    /// End the look that is under way
    #[arg(long, conflicts_with_all = ["background", "shards", "status"])]
    stop: bool,
}

pub(super) fn run(asker: &mut Asker, options: &VerifyOptions) -> Result<Verdict, Failure> {
    if options.stop || options.status {
        let state = asker.ask(&["VERIFY", if options.stop { "STOP" } else { "STATUS" }])?;
        asker.show(&state, |state| report(state, colours()))?;
        return Ok(verdict(&state));
    }
    let shards: Vec<String> = options.shards.iter().map(u32::to_string).collect();
    let mut words = vec!["VERIFY", "START"];
    words.extend(shards.iter().map(String::as_str));
    match asker.ask(&words) {
        Ok(_) => {}
        // It looks at what was to be looked at: its end is waited for.
        Err(Failure::Refused(text)) if shards.is_empty() && !options.background && is_under_way(asker)? => {
            bench::note!("{text}");
        }
        Err(failure) => return Err(failure),
    }
    let mut progress = Progress::new();
    loop {
        let state = asker.ask(&["VERIFY", "STATUS"]).map_err(|failure| failure.and(GOES_ON))?;
        if options.background || state["state"] != "running" {
            progress.end();
            asker.show(&state, |state| report(state, colours()))?;
            return Ok(if options.background { Verdict::Good } else { verdict(&state) });
        }
        progress.show(&line(&state));
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Whether the node compares the replicas of all shards now.
fn is_under_way(asker: &mut Asker) -> Result<bool, Failure> {
    let state = asker.ask(&["VERIFY", "STATUS"])?;
    let all = asker.ask(&["SHARDS"])?["shards"].as_array().map_or(0, Vec::len) as u64;
    Ok(state["state"] == "running" && state["shards"].as_u64().is_some_and(|shards| shards >= all))
}

fn verdict(state: &Value) -> Verdict {
    match state["result"].as_str() {
        Some("ok") => Verdict::Good,
        Some("wrong") => Verdict::Bad,
        _ => Verdict::Unknown,
    }
}

/// How far it is.
pub(super) fn line(state: &Value) -> String {
    let count = |name: &str| state[name].as_u64().unwrap_or(0);
    let seconds = vocab::wall_clock_ms().saturating_sub(count("began_ms")) / 1000;
    let (done, all) = (count("shards_done"), count("shards"));
    let left = (seconds * (all - done.min(all))).checked_div(done);
    let left = left.map(|left| format!(", about {} left", duration(left))).unwrap_or_default();
    let rate = count("bytes").checked_div(seconds).map(|rate| format!(" at {}/s", bytes(rate))).unwrap_or_default();
    format!("{done} of {all} shards compared, {} read{rate}{left}", bytes(count("bytes")))
}

pub(super) fn report(state: &Value, colours: bool) -> String {
    let count = |name: &str| state[name].as_u64().unwrap_or(0);
    let list = |name: &str| state[name].as_array().map_or(&[][..], Vec::as_slice);
    match state["state"].as_str() {
        Some("never") => return "this node has not compared replicas since it was started\n".to_owned(),
        Some("running") => return format!("under way: {}\n", line(state)),
        _ => {}
    }
    let mut table = Table::new(&["what ", "shard", "finding "]);
    for finding in list("findings") {
        table.row(vec![
            Cell::toned(finding["kind"].as_str().unwrap_or_default(), Tone::Bad),
            finding["shard"].as_u64().map(|shard| shard.to_string()).unwrap_or_default().into(),
            finding["text"].as_str().unwrap_or_default().into(),
        ]);
    }
    let mut text = if list("findings").is_empty() { String::new() } else { table.text(colours) };
    for missing in list("missing") {
        text += &format!("not looked at: {}\n", missing.as_str().unwrap_or_default());
    }
    let took = duration(count("ended_ms").saturating_sub(count("began_ms")) / 1000);
    let (done, all) = (count("shards_done"), count("shards"));
    let outcome = match state["result"].as_str() {
        Some("ok") => painted("all is as it should be", Tone::Good, colours),
        Some("wrong") => painted("something is wrong", Tone::Bad, colours),
        _ => painted("not everything was looked at", Tone::Odd, colours),
    };
    let (read, ended) = (bytes(count("bytes")), time(count("ended_ms")));
    text + &format!("{outcome}: {done} of {all} shards compared, {read} read in {took}, ended {ended}\n")
}

//! `basalt ctl status`: how the store is, on one screen.

use super::ask::{Asker, Failure};
use super::plan_table;
use super::table::{Tone, bytes, colours, number, painted};
use super::verdict::Verdict;
use super::{nodes, shards};
use clap::Args;
use serde_json::Value;

#[derive(Args, Debug)]
pub(super) struct StatusOptions {
    /// List the shards too, however many there are
    #[arg(long)]
    shards: bool,
}

pub(super) fn run(asker: &mut Asker, options: &StatusOptions) -> Result<Verdict, Failure> {
    let mut status = asker.ask(&["STATUS"])?;
    let mut table = String::new();
    if options.shards && !status["store"].is_null() {
        let shards = asker.ask(&["SHARDS"])?;
        table = format!("\n{}", shards::table(&shards, colours()));
        status["shard_list"] = shards["shards"].clone();
    }
    asker.show(&status, |status| screen(status, colours()) + &table)?;
    Ok(Verdict::of(status["healthy"].as_bool() == Some(true)))
}

/// One screen.
pub(super) fn screen(status: &Value, colours: bool) -> String {
    let mut text = headline(status, colours);
    if !status["store"].is_null() {
        text += &summary(status);
    }
    text += &format!("\n{}", nodes::table(status, colours));
    if status["plans"].as_array().is_some_and(|plans| !plans.is_empty()) {
        text += &format!("\n{}", plan_table::table(status, colours));
    }
    text
}

/// Whether all is well, and what is not.
pub(super) fn headline(status: &Value, colours: bool) -> String {
    let store = status["store"].as_str();
    let mut text = match (store, status["healthy"].as_bool()) {
        (None, _) => "no store".to_owned(),
        (Some(store), Some(true)) => format!("store {store}: {}", painted("all is well", Tone::Good, colours)),
        (Some(store), _) => format!("store {store}: {}", painted("NOT WELL", Tone::Bad, colours)),
    };
    text.push('\n');
    for problem in status["problems"].as_array().into_iter().flatten() {
        text += &format!("  {} {}\n", painted("!", Tone::Bad, colours), problem.as_str().unwrap_or_default());
    }
    text
}

fn summary(status: &Value) -> String {
    let count = |name: &str| status[name].as_u64().unwrap_or(0);
    let nodes = status["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let up = nodes.iter().filter(|node| node["state"] == "up").count();
    let zones = status["zones"].as_array().map_or(&[][..], Vec::as_slice);
    let zones: Vec<String> = zones
        .iter()
        .filter(|zone| zone["name"] != "")
        .map(|zone| format!("{} {}/{}", zone["name"].as_str().unwrap_or_default(), zone["up"], zone["nodes"]))
        .collect();
    let zones = if zones.is_empty() { String::new() } else { format!("; zones {}", zones.join(", ")) };
    let mut text = format!("nodes   {up} of {} up{zones}\n", nodes.len());
    let mut shards = format!("{} with {} replicas each", count("shards"), count("replication_factor"));
    if count("replication_factor") > nodes.len() as u64 {
        shards += &format!(" wanted, of which each has {} at most: there are no more nodes", nodes.len());
    }
    shards += &format!("; {} of {} slots have leaders", count("slots_led"), count("slots"));
    for (name, what) in [("under_replicated", "under-replicated"), ("without_majority", "without a majority")] {
        if count(name) > 0 {
            shards += &format!("; {} {what}", count(name));
        }
    }
    text += &format!("shards  {shards}; map {}\n", count("epoch"));
    let ops = status["ops_per_s"].as_f64().unwrap_or(0.0);
    let partly = if status["complete"] == true { "" } else { " (as far as this node knows)" };
    let (data, keys) = (bytes(count("bytes")), number(count("keys") as f64));
    text += &format!("data    {data}, {keys} keys; {} commands/s{partly}\n", number(ops));
    text
}

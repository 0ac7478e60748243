//! `basalt ctl plan unsafe-recover`: shards whose majority is gone for good go on with what is left of them.

use super::ask::{Asker, Failure};
use super::plan_begin::{ask_preview, begin, confirm};
use super::verdict::Verdict;
use clap::Args;
use cluster::{ACCEPT_DATA_LOSS, PLAN_KINDS};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long the metadata group may take to lead itself again.
const LED_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(200);

const AFTER: &str = "\
`basalt ctl shards --unwell` lists the shards without a majority, and the nodes that each waits for. Bring one of these nodes \
back if there is any way: that loses nothing. Only if they are gone for good, name the shards here. If the metadata group \
(shard 0) has lost its majority too, name it as well: no plan can begin without it.

Each shard continues with the replica that has the newest log, and gets new replicas from it. What only the lost nodes held is \
lost. THE LOST NODES MUST NEVER BE STARTED AGAIN with their old data. `basalt ctl plan apply remove-node` removes them from the \
store.

Examples:
  basalt ctl plan unsafe-recover 0 3 7 --dry-run
  basalt ctl plan unsafe-recover --all --reason \"fire in rack 4\"";

#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(super) struct RecoverOptions {
    /// The shards
    #[arg(value_name = "SHARD", required_unless_present = "all")]
    shards: Vec<u32>,
    /// Every shard that has lost its majority
    #[arg(long, conflicts_with = "shards")]
    all: bool,
    /// Do not ask for confirmation: acknowledged writes may be lost
    #[arg(long)]
    accept_data_loss: bool,
    /// Only show which replicas would continue
    #[arg(long)]
    dry_run: bool,
    /// Wait until every shard has a leader, and show the progress
    #[arg(long)]
    wait: bool,
    /// The reason, which the plan and its events show
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(super) fn run(asker: &mut Asker, options: &RecoverOptions) -> Result<Verdict, Failure> {
    let sight = asker.ask(&["SHARDS"])?;
    let chosen = if options.all { lost(&sight) } else { options.shards.clone() };
    if chosen.is_empty() {
        return Err(Failure::Refused("every shard has its majority: there is nothing to recover".to_owned()));
    }
    let shards: Vec<String> = chosen.iter().map(u32::to_string).collect();
    let mut words = vec!["unsafe-recover"];
    words.extend(shards.iter().map(String::as_str));
    words.push(ACCEPT_DATA_LOSS);
    let is_led = find(&sight, 0).is_some_and(|meta| meta["leader"].is_string()) && sight["complete"] == true;
    let map = if is_led {
        // Whatever is refused is refused before anybody is frightened.
        ask_preview(asker, &words)?;
        None
    } else {
        Some(lost_map(asker, &chosen)?)
    };
    let mut outcomes = Vec::new();
    for id in chosen.iter().filter(|id| **id != 0 || map.is_none()) {
        let outlook = outlook(&sight, *id)?;
        bench::note!("{outlook}");
        outcomes.push(json!({ "shard": id, "outlook": outlook }));
    }
    if options.dry_run {
        if asker.json {
            asker.show(&json!({ "shards": outcomes, "metadata_group": map }), |_| String::new())?;
        }
        return Ok(Verdict::Good);
    }
    if !options.accept_data_loss {
        let kind = PLAN_KINDS.iter().find(|kind| kind.word == "unsafe-recover");
        let warning = kind.and_then(|kind| kind.warning).unwrap_or_default();
        confirm(warning, ACCEPT_DATA_LOSS, "--accept-data-loss")?;
    }
    if map.is_some() {
        recover_map(asker)?;
    }
    begin(asker, &words, options.reason.as_deref(), options.wait)
}

/// The shards without a majority.
fn lost(sight: &Value) -> Vec<u32> {
    let shards = sight["shards"].as_array().into_iter().flatten();
    let lost = shards.filter(|shard| shard["state"] == "no-majority");
    lost.filter_map(|shard| shard["id"].as_u64().and_then(|id| u32::try_from(id).ok())).collect()
}

fn find(sight: &Value, id: u32) -> Option<&Value> {
    sight["shards"].as_array().into_iter().flatten().find(|shard| shard["id"] == id)
}

/// What one shard would go on with.
fn outlook(sight: &Value, id: u32) -> Result<String, Failure> {
    let shard = find(sight, id).ok_or_else(|| Failure::Usage(format!("the store has no shard {id}")))?;
    if shard["state"] != "no-majority" {
        let state = shard["state"].as_str().unwrap_or("unknown");
        let text = format!("shard {id} has its majority ({state}): there is nothing to recover");
        return Err(Failure::Refused(text));
    }
    let replicas = || shard["replicas"].as_array().into_iter().flatten();
    let of = |up: bool| {
        let is = |replica: &&Value| (replica["state"] != "silent" && replica["state"] != "broken") == up;
        let name = |replica: &Value| sight["nodes"][replica["node"].as_str().unwrap_or_default()].clone();
        let names = replicas().filter(is).map(|replica| name(replica).as_str().unwrap_or("?").to_owned());
        names.collect::<Vec<_>>().join(", ")
    };
    let (left, gone) = (of(true), of(false));
    if left.is_empty() {
        let text = format!("nothing is left of shard {id}: it waits for {gone}; restore a backup into a new store");
        return Err(Failure::Refused(text));
    }
    Ok(format!("shard {id}: goes on with what is on {left}; what was on {gone} must never come back"))
}

/// The metadata group has no leader: it has to be one of those that are recovered.
fn lost_map(asker: &mut Asker, chosen: &[u32]) -> Result<Value, Failure> {
    let told = asker.ask(&["RECOVER-MAP", "PREVIEW"])?;
    if !chosen.contains(&0) {
        let text = "the metadata group (shard 0) has lost its majority too, and nothing can be planned without it: name it \
                    among the shards, or say --all";
        return Err(Failure::Refused(text.to_owned()));
    }
    let gone: Vec<&str> = told["gone_addresses"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let left = told["survivor_address"].as_str().unwrap_or("?");
    let text = "shard 0 (the map): goes on with what is on";
    bench::note!("{text} {left}; what was on {} must never come back", gone.join(", "));
    Ok(told)
}

/// Has the metadata group go on, and waits until it is led and knows what nodes have.
fn recover_map(asker: &mut Asker) -> Result<(), Failure> {
    let told = asker.ask(&["RECOVER-MAP", ACCEPT_DATA_LOSS])?;
    let (since, survivor) = (Instant::now(), told["survivor_address"].as_str().unwrap_or("?").to_owned());
    bench::note!("the metadata group goes on with what is on {survivor}");
    while since.elapsed() < LED_WITHIN {
        std::thread::sleep(LOOK_EVERY);
        match asker.ask(&["STATUS"]) {
            Ok(status) if status["complete"] == true => return Ok(()),
            Ok(_) | Err(Failure::Unreachable(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::Unreachable(format!(
        "the metadata group is not led within {} s: see {survivor}",
        LED_WITHIN.as_secs()
    )))
}

//! `basalt ctl shards`: each shard, with its replicas.

use super::ask::{Asker, Failure};
use super::table::{Cell, Table, Tone, bytes, colours, number};
use super::verdict::Verdict;
use clap::Args;
use serde_json::Value;

#[derive(Args, Debug)]
pub(super) struct ShardsOptions {
    /// Only those with which something is wrong
    #[arg(long)]
    unwell: bool,
    /// Only those with a replica on that node
    #[arg(long, value_name = "NODE")]
    on: Option<String>,
}

pub(super) fn run(asker: &mut Asker, options: &ShardsOptions) -> Result<Verdict, Failure> {
    let answer = asker.ask(&["SHARDS"])?;
    let on = options.on.as_deref().map(|name| find(&answer, name)).transpose()?;
    let wanted = |shard: &Value| {
        let held = |node: &str| replicas(shard).iter().any(|replica| replica["node"] == node);
        (!options.unwell || shard["state"] != "ok") && on.as_deref().is_none_or(held)
    };
    let all_well = answer["shards"].as_array().is_some_and(|shards| shards.iter().all(|shard| shard["state"] == "ok"));
    let mut shown = answer.clone();
    if let Some(shards) = shown["shards"].as_array_mut() {
        shards.retain(|shard| wanted(shard));
    }
    asker.show(&shown, |shown| table(shown, colours()) + &super::nodes::missing(&answer))?;
    Ok(Verdict::of(all_well))
}

/// The id of the node that a name means.
fn find(answer: &Value, name: &str) -> Result<String, Failure> {
    let nodes = answer["nodes"].as_object().into_iter().flatten();
    let fits = |(id, address): &(&String, &Value)| id.starts_with(&name.to_lowercase()) || **address == name;
    let found: Vec<String> = nodes.filter(fits).map(|(id, _)| id.clone()).collect();
    match &found[..] {
        [id] => Ok(id.clone()),
        [] => Err(Failure::Usage(format!("no node is called {name}; `basalt ctl nodes` lists them"))),
        _ => Err(Failure::Usage(format!("{} nodes have ids that begin with {name}", found.len()))),
    }
}

fn replicas(shard: &Value) -> &[Value] {
    shard["replicas"].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn table(answer: &Value, colours: bool) -> String {
    let mut table = Table::new(&["shard", "slots ", "state ", "data", "keys", "plan", "leader ", "other replicas "]);
    let address = |id: &str| answer["nodes"][id].as_str().unwrap_or(id).to_owned();
    let mut broken = String::new();
    for shard in answer["shards"].as_array().into_iter().flatten() {
        let count = |name: &str| shard[name].as_u64().unwrap_or(0);
        let leader = shard["leader"].as_str();
        let others = replicas(shard).iter().filter(|replica| replica["node"].as_str() != leader);
        let others: Vec<String> = others.map(|replica| other(replica, &address)).collect();
        let is_meta = count("id") == 0;
        table.row(vec![
            count("id").into(),
            if is_meta { "(the map)".to_owned() } else { ranges(&shard["slots"]) }.into(),
            Cell::state(shard["state"].as_str().unwrap_or("unknown")),
            bytes(count("bytes")).into(),
            if is_meta { String::new() } else { number(count("keys") as f64) }.into(),
            shard["plan"].as_u64().map(|plan| plan.to_string()).unwrap_or_default().into(),
            leader.map_or_else(|| Cell::toned("none", Tone::Bad), |id| address(id).into()),
            others.join(", ").into(),
        ]);
        let waits: Vec<String> =
            shard["waits_for"].as_array().into_iter().flatten().filter_map(Value::as_str).map(&address).collect();
        if !waits.is_empty() {
            broken += &format!("shard {} waits for {}\n", count("id"), waits.join(", "));
        }
        for replica in replicas(shard).iter().filter(|replica| replica["broken"].is_string()) {
            let (node, why) = (address(replica["node"].as_str().unwrap_or_default()), &replica["broken"]);
            broken += &format!("shard {} on {node}: {}\n", count("id"), why.as_str().unwrap_or_default());
        }
    }
    let gap = if broken.is_empty() { "" } else { "\n" };
    format!("{}{gap}{broken}", table.text(colours))
}

/// A replica that does not lead: where, and what is special about it.
fn other(replica: &Value, address: &dyn Fn(&str) -> String) -> String {
    let mut notes = Vec::new();
    let (role, state) = (replica["role"].as_str().unwrap_or_default(), replica["state"].as_str().unwrap_or_default());
    if !["voter", "leader"].contains(&role) {
        notes.push(role.to_owned());
    }
    let lag = replica["lag"].as_u64().unwrap_or(0);
    match state {
        "ok" | "unknown" => {}
        "behind" => notes.push(format!("behind by {lag}")),
        other => notes.push(other.to_owned()),
    }
    let address = address(replica["node"].as_str().unwrap_or_default());
    if notes.is_empty() { address } else { format!("{address} ({})", notes.join(", ")) }
}

/// `0-99,200`
pub(super) fn ranges(slots: &Value) -> String {
    let range = |pair: &Value| match (pair[0].as_u64(), pair[1].as_u64()) {
        (Some(first), Some(last)) if first == last => first.to_string(),
        (Some(first), Some(last)) => format!("{first}-{last}"),
        _ => String::new(),
    };
    slots.as_array().into_iter().flatten().map(range).collect::<Vec<_>>().join(",")
}

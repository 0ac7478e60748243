//! `basalt ctl map`: where each slot is, and what is under way.

use super::ask::{Asker, Failure};
use super::shards::ranges;
use super::table::{Cell, Table, Tone, colours};
use super::verdict::Verdict;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn run(asker: &mut Asker) -> Result<Verdict, Failure> {
    let map = asker.ask(&["MAP"])?;
    asker.show(&map, |map| text(map, colours()))?;
    Ok(Verdict::Good)
}

pub(super) fn text(map: &Value, colours: bool) -> String {
    let list = |name: &str| map[name].as_array().map_or(&[][..], Vec::as_slice);
    let (store, epoch) = (map["store"].as_str().unwrap_or_default(), &map["epoch"]);
    let mut text = format!("map {epoch} of the store {store}; {} replicas each\n\n", map["replication_factor"]);
    let nodes: BTreeMap<&str, &Value> =
        list("nodes").iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let mut table = Table::new(&["node ", "peer address ", "zone ", "capacity", "", "id "]);
    for node in nodes.values() {
        let text = |name: &str| node[name].as_str().unwrap_or_default().to_owned();
        table.row(vec![
            Cell::toned(text("client_address"), Tone::Bold),
            text("peer_address").into(),
            text("zone").into(),
            node["capacity"].as_u64().unwrap_or(0).into(),
            Cell::toned(if node["leaving"] == true { "leaving" } else { "" }, Tone::Odd),
            Cell::toned(text("id"), Tone::Dim),
        ]);
    }
    text += &table.text(colours);
    let mut table = Table::new(&["shard", "slots ", "replicas "]);
    for shard in list("shards") {
        let replicas = shard["replicas"].as_array().into_iter().flatten().map(|replica| {
            let node = replica["node"].as_str().unwrap_or_default();
            let address = nodes.get(node).and_then(|node| node["client_address"].as_str()).unwrap_or(node);
            let note = match (replica["member"] == true, replica["learner"] == true) {
                (false, _) => " (coming)",
                (true, true) => " (learner)",
                (true, false) => "",
            };
            format!("{}@{address}{note}", replica["id"])
        });
        table.row(vec![
            shard["id"].as_u64().unwrap_or(0).into(),
            ranges(&shard["slots"]).into(),
            replicas.collect::<Vec<_>>().join(", ").into(),
        ]);
    }
    text += &format!("\n{}", table.text(colours));
    for step in list("steps") {
        let id = |name: &str| step[name].as_u64().map_or_else(|| "none".to_owned(), |id| id.to_string());
        let (shard, plan) = (&step["shard"], &step["plan"]);
        text += &format!("shard {shard}: replica {} comes, {} goes (plan {plan})\n", id("add"), id("remove"));
    }
    for split in list("splits") {
        let slots = ranges(&split["slots"]);
        text +=
            &format!("shard {} gets {slots} of shard {} (plan {})\n", split["child"], split["parent"], split["plan"]);
    }
    text
}

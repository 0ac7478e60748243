//! `basalt ctl nodes`: each node, with its figures.

use super::ask::{Asker, Failure};
use super::table::{Cell, Table, Tone, bytes, colours, duration, number};
use super::verdict::Verdict;
use serde_json::Value;

pub(super) fn run(asker: &mut Asker) -> Result<Verdict, Failure> {
    let answer = asker.ask(&["NODES"])?;
    asker.show(&answer, |answer| table(answer, colours()) + &missing(answer))?;
    Ok(Verdict::of(answer["nodes"].as_array().is_some_and(|nodes| nodes.iter().all(is_well))))
}

/// Whether a node is up, and nothing keeps it from its work.
pub(super) fn is_well(node: &Value) -> bool {
    let is_sound =
        node["can_write"] != false && node["clock_is_off"] != true && node["broken"].as_u64().unwrap_or(0) == 0;
    node["state"] == "up" && is_sound
}

/// What is to be said of figures that are not there.
pub(super) fn missing(answer: &Value) -> String {
    let text =
        "this is what one node knows: the leader of the metadata group was not asked, or has only just begun to lead";
    if answer["complete"] == false { format!("\n{text}\n") } else { String::new() }
}

pub(super) fn table(answer: &Value, colours: bool) -> String {
    let head = [
        "node ",
        "zone ",
        "state ",
        "leads",
        "replicas",
        "data",
        "keys",
        "ops/s",
        "clients",
        "memory",
        "disk free",
        "since",
        "version ",
        "id ",
    ];
    let mut table = Table::new(&head);
    let mut nodes: Vec<&Value> = answer["nodes"].as_array().into_iter().flatten().collect();
    nodes.sort_by_key(|node| (node["zone"].as_str(), node["client_address"].as_str()));
    for node in nodes {
        let count = |name: &str| node[name].as_u64().unwrap_or(0);
        let text = |name: &str| node[name].as_str().unwrap_or_default().to_owned();
        let size = |name: &str| if count(name) > 0 { bytes(count(name)) } else { String::new() };
        let told = count("started_ms") > 0;
        let now = answer["at_ms"].as_u64().unwrap_or_else(vocab::wall_clock_ms);
        let up_for = if told { duration(now.saturating_sub(count("started_ms")) / 1000) } else { String::new() };
        let known = |shown: String| if told { shown } else { String::new() };
        table.row(vec![
            Cell::toned(text("client_address"), Tone::Bold),
            text("zone").into(),
            state(node),
            count("leaders").into(),
            count("replicas").into(),
            size("bytes").into(),
            known(number(count("keys") as f64)).into(),
            known(number(node["ops_per_s"].as_f64().unwrap_or(0.0))).into(),
            known(count("clients").to_string()).into(),
            size("rss_bytes").into(),
            size("disk_free_bytes").into(),
            up_for.into(),
            text("version").into(),
            Cell::toned(text("id"), Tone::Dim),
        ]);
    }
    table.text(colours)
}

fn state(node: &Value) -> Cell {
    let word = node["state"].as_str().unwrap_or("unknown");
    match () {
        () if word == "up" && node["can_write"] == false => Cell::toned("no writes", Tone::Bad),
        () if word == "up" && node["clock_is_off"] == true => Cell::toned("clock off", Tone::Bad),
        () if word == "up" && node["broken"].as_u64().unwrap_or(0) > 0 => Cell::toned("damaged", Tone::Bad),
        () if word == "up" && node["leaving"] == true && node["replicas"] == 0 => Cell::toned("empty", Tone::Odd),
        () if word == "up" && node["leaving"] == true => Cell::toned("leaving", Tone::Odd),
        () => Cell::state(word),
    }
}

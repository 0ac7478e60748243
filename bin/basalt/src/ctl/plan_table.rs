//! Plans in a table, one in full, and what one would do.

use super::table::{Cell, Table, bytes, duration, time};
use serde_json::Value;

/// Moves that a preview lists.
const MOVES_SHOWN: usize = 20;

/// What is said of nodes, with their addresses in the place of their ids.
fn addressed(answer: &Value, text: &str) -> String {
    let listed = answer["nodes"].as_array().into_iter().flatten();
    let listed = listed.filter_map(|node| Some((node["id"].as_str()?, node["client_address"].as_str()?)));
    let named = answer["nodes"].as_object().into_iter().flatten();
    let named = named.filter_map(|(id, address)| Some((id.as_str(), address.as_str()?)));
    listed.chain(named).fold(text.to_owned(), |text, (id, address)| text.replace(id, address))
}

pub(super) fn table(answer: &Value, colours: bool) -> String {
    let head = ["plan", "kind ", "about ", "state ", "steps", "moved", "left", "rate", "done in", "detail "];
    let mut table = Table::new(&head);
    for plan in answer["plans"].as_array().into_iter().flatten() {
        let count = |name: &str| plan[name].as_u64().unwrap_or(0);
        let size = |name: &str| if count(name) > 0 { bytes(count(name)) } else { String::new() };
        let text = |name: &str| plan[name].as_str().unwrap_or_default().to_owned();
        let rate = if count("rate") > 0 { format!("{}/s", bytes(count("rate"))) } else { String::new() };
        table.row(vec![
            count("id").into(),
            text("kind").into(),
            addressed(answer, &text("about")).into(),
            Cell::state(&text("state")),
            steps(plan).into(),
            size("bytes_moved").into(),
            size("bytes_left").into(),
            rate.into(),
            plan["eta_s"].as_u64().map(duration).unwrap_or_default().into(),
            addressed(
                answer,
                &plan["waits_for"].as_str().map_or_else(|| text("detail"), |what| format!("waits: {what}")),
            )
            .into(),
        ]);
    }
    table.text(colours)
}

/// Those that are done, of all that are known.
fn steps(plan: &Value) -> String {
    let count = |name: &str| plan[name].as_u64().unwrap_or(0);
    let (done, left) = (count("steps_done"), count("steps_now") + count("steps_left"));
    if left > 0 { format!("{done} of {}", done + left) } else { done.to_string() }
}

/// One plan in full.
pub(super) fn one(plan: &Value) -> String {
    let count = |name: &str| plan[name].as_u64().unwrap_or(0);
    let text = |name: &str| addressed(plan, plan[name].as_str().unwrap_or_default());
    let mut lines = vec![
        format!("plan {}: {} {}", count("id"), text("kind"), text("about")),
        format!("state    {}", text("state")),
    ];
    if !text("detail").is_empty() {
        lines.push(format!("detail   {}", text("detail")));
    }
    if count("began_ms") > 0 {
        lines.push(format!("begun    {}", time(count("began_ms"))));
    }
    if count("ended_ms") > 0 {
        let took = duration(count("ended_ms").saturating_sub(count("began_ms")) / 1000);
        lines.push(format!("ended    {} after {took}", time(count("ended_ms"))));
    }
    if plan["steps_done"].is_u64() {
        lines.push(format!("steps    {}, {} under way", steps(plan), count("steps_now")));
    }
    if count("bytes_moved") + count("bytes_left") > 0 {
        lines.push(format!("moved    {}", moved(plan)));
    }
    if plan["waits_for"].is_string() {
        lines.push(format!("waits    {}", text("waits_for")));
    }
    let shards = plan["shards_now"].as_array().into_iter().flatten();
    let shards: Vec<String> = shards.map(|shard| shard["id"].to_string()).collect();
    if !shards.is_empty() {
        lines.push(format!("shards   {}", shards.join(", ")));
    }
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// `1.0 GB, 2.0 GB left at 200.0 MB/s: done in 10s`
fn moved(plan: &Value) -> String {
    let count = |name: &str| plan[name].as_u64().unwrap_or(0);
    let mut text = format!("{}, {} left", bytes(count("bytes_moved")), bytes(count("bytes_left")));
    if count("rate") > 0 {
        text += &format!(" at {}/s", bytes(count("rate")));
    }
    if let Some(seconds) = plan["eta_s"].as_u64() {
        text += &format!(": done in {}", duration(seconds));
    }
    text
}

/// How far a plan is, in one line.
pub(super) fn line(plan: &Value) -> String {
    let text = |name: &str| plan[name].as_str().unwrap_or_default();
    let waits =
        plan["waits_for"].as_str().map(|what| format!("; waits: {}", addressed(plan, what))).unwrap_or_default();
    format!("plan {} ({}): {}, {} steps, {}{waits}", plan["id"], text("kind"), text("state"), steps(plan), moved(plan))
}

/// What a plan would do.
pub(super) fn preview(preview: &Value) -> String {
    let count = |name: &str| preview[name].as_u64().unwrap_or(0);
    let text = |name: &str| preview[name].as_str().unwrap_or_default();
    let mut said = format!("{} {}", text("kind"), text("about")).trim_end().to_owned() + "\n";
    said += &format!("  {}\n", text("help"));
    if let Some(warning) = preview["warning"].as_str() {
        said += &format!("  Cannot be undone: {warning}.\n");
    }
    match (count("moves"), count("splits")) {
        (0, 0) if count("hand_overs") > 0 => {
            said += &format!(
                "  Nothing moves; {} handed over to others.\n",
                plural(count("hand_overs"), "leader is", "leaders are")
            );
        }
        (0, 0) => said += "  Nothing moves for it now.\n",
        (0, splits) => {
            said += &format!("  {} two, where the data is.\n", plural(splits, "shard becomes", "shards become"));
        }
        (moves, _) => {
            let at_least = match count("seconds") {
                0 => String::new(),
                seconds => format!(", at least {} at the rate that moves may take", duration(seconds)),
            };
            let what = plural(moves, "replica comes, goes or moves", "replicas come, go or move");
            said += &format!("  {what}: {}{at_least}.\n\n", bytes(count("bytes")));
            said += &moves_table(preview);
        }
    }
    if let Some(note) = preview["note"].as_str() {
        said += &format!("  Mind: {note}.\n");
    }
    said
}

/// `1 shard`, `2 shards`.
pub(super) fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn moves_table(preview: &Value) -> String {
    let mut table = Table::new(&["shard", "from ", "to ", "why ", "data"]);
    let moves = preview["first_moves"].as_array().map_or(&[][..], Vec::as_slice);
    for step in moves.iter().take(MOVES_SHOWN) {
        let name = |end: &str| {
            let of = &step[end];
            of["address"].as_str().or(of["id"].as_str()).unwrap_or("-").to_owned()
        };
        table.row(vec![
            step["shard"].as_u64().unwrap_or(0).into(),
            name("from").into(),
            name("to").into(),
            step["why"].as_str().unwrap_or_default().into(),
            bytes(step["bytes"].as_u64().unwrap_or(0)).into(),
        ]);
    }
    let more = preview["moves"].as_u64().unwrap_or(0).saturating_sub(MOVES_SHOWN.min(moves.len()) as u64);
    let more = if more > 0 { format!("and {more} more; --json lists up to 1000\n") } else { String::new() };
    format!("{}{more}", table.text(false))
}

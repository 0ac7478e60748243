//! `basalt ctl top`: how the store is, again and again.

use super::ask::{Asker, Failure, print};
use super::plan_table;
use super::screen::Screen;
use super::status::headline;
use super::table::{Cell, Table, Tone, bytes, colours, number, time};
use super::verdict::Verdict;
use bench::output::Reader;
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct TopOptions {
    /// Show it once, and come back
    #[arg(long)]
    once: bool,
    /// Seconds from one look to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

pub(super) fn run(asker: &mut Asker, options: &TopOptions) -> Result<Verdict, Failure> {
    let mut screen = Screen::new();
    let mut before = asker.ask(&["STATUS"])?;
    // Rates by node need two answers: the first picture is drawn at once, without them.
    if !options.once && draw(asker, &mut screen, &before, &before)? == Reader::Gone {
        return Ok(Verdict::Good);
    }
    let interval = Duration::from_secs(if options.once { 1 } else { options.interval });
    loop {
        std::thread::sleep(interval);
        let now = match asker.ask(&["STATUS"]) {
            Ok(now) => now,
            Err(failure) if options.once => return Err(failure),
            Err(failure) => {
                let told = failure.to_string();
                let shown = match asker.json {
                    true => print(&format!("{}\n", json!({ "error": told }))),
                    false => screen.draw(&format!("{told}\n"), &told),
                };
                if shown? == Reader::Gone {
                    return Ok(Verdict::Unknown);
                }
                continue;
            }
        };
        let verdict = Verdict::of(now["healthy"].as_bool() == Some(true));
        if options.once {
            asker.show(&now, |now| picture(&before, now, colours()))?;
            return Ok(verdict);
        }
        if draw(asker, &mut screen, &before, &now)? == Reader::Gone {
            return Ok(verdict);
        }
        before = now;
    }
}

/// One picture; as JSON a line, so that another program can read them as they come.
fn draw(asker: &Asker, screen: &mut Screen, before: &Value, now: &Value) -> Result<Reader, Failure> {
    if asker.json {
        return print(&format!("{now}\n"));
    }
    screen.draw(&picture(before, now, screen.is_terminal() && colours()), &line(now))
}

/// The whole picture.
pub(super) fn picture(before: &Value, now: &Value, colours: bool) -> String {
    let count = |name: &str| now[name].as_u64().unwrap_or(0);
    let mut text = format!("{}  ", time(count("at_ms"))) + &headline(now, colours);
    let ops = number(now["ops_per_s"].as_f64().unwrap_or(0.0));
    text += &format!("{ops} commands/s, {}, {} keys\n\n", bytes(count("bytes")), number(count("keys") as f64));
    text += &nodes(before, now, colours);
    if now["plans"].as_array().is_some_and(|plans| !plans.is_empty()) {
        text += &format!("\n{}", plan_table::table(now, colours));
    }
    text
}

fn nodes(before: &Value, now: &Value, colours: bool) -> String {
    let head =
        ["node ", "state ", "ops/s", "errors/s", "cpu", "memory", "leads", "replicas", "data", "clients", "in", "out"];
    let mut table = Table::new(&head);
    let passed_s = now["at_ms"].as_u64().zip(before["at_ms"].as_u64());
    let passed_s = passed_s.map_or(0.0, |(now, before)| now.saturating_sub(before) as f64 / 1000.0);
    for node in now["nodes"].as_array().into_iter().flatten() {
        let count = |name: &str| node[name].as_u64().unwrap_or(0);
        let earlier = before["nodes"].as_array().into_iter().flatten().find(|known| known["id"] == node["id"]);
        // None if it was restarted meanwhile, or nothing was told.
        let rise = |name: &str| {
            let was = earlier?[name].as_u64()?;
            let same = earlier?["started_ms"] == node["started_ms"] && passed_s > 0.0 && count("started_ms") > 0;
            same.then(|| count(name).saturating_sub(was) as f64 / passed_s)
        };
        let rate = |inbound: bool| {
            let transfers = node["transfers"].as_array().into_iter().flatten();
            let transfers = transfers.filter(|transfer| transfer["inbound"] == inbound);
            match transfers.filter_map(|transfer| transfer["rate"].as_u64()).sum::<u64>() {
                0 => String::new(),
                rate => format!("{}/s", bytes(rate)),
            }
        };
        let errors = rise("errors").unwrap_or(0.0);
        let tone = if errors >= 1.0 { Tone::Odd } else { Tone::Plain };
        table.row(vec![
            Cell::toned(node["client_address"].as_str().unwrap_or_default(), Tone::Bold),
            Cell::state(node["state"].as_str().unwrap_or("unknown")),
            number(node["ops_per_s"].as_f64().unwrap_or(0.0)).into(),
            Cell::toned(number(errors), tone),
            rise("cpu_us").map(|us| format!("{:.0}%", us / 1e4)).unwrap_or_default().into(),
            if count("rss_bytes") > 0 { bytes(count("rss_bytes")) } else { String::new() }.into(),
            count("leaders").into(),
            count("replicas").into(),
            bytes(count("bytes")).into(),
            count("clients").into(),
            rate(true).into(),
            rate(false).into(),
        ]);
    }
    table.text(colours)
}

/// In one line, where there is no terminal.
pub(super) fn line(now: &Value) -> String {
    let count = |name: &str| now[name].as_u64().unwrap_or(0);
    let nodes = now["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let up = nodes.iter().filter(|node| node["state"] == "up").count();
    let ops = number(now["ops_per_s"].as_f64().unwrap_or(0.0));
    let running = now["plans"].as_array().map_or(0, Vec::len);
    let well = if now["healthy"] == true { "well" } else { "NOT WELL" };
    format!(
        "{} {well}; {up} of {} nodes up; {ops} commands/s; {}; {} shards under-replicated, {} without leader; {running} plans",
        time(count("at_ms")),
        nodes.len(),
        bytes(count("bytes")),
        count("under_replicated"),
        count("without_leader")
    )
}

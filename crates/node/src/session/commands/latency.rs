//! LATENCY: events that took long, and the latencies of commands.

use super::ask::{Ask, Outcome, Row, shown};
use crate::session::Effect;
use crate::stats::{CommandTotals, Event};
use resp::Reply;
use resp::table::{self, CommandSpec};

pub(super) const ROWS: &[Row] = &[
    ("LATENCY|LATEST", latest),
    ("LATENCY|HISTORY", history),
    ("LATENCY|RESET", reset),
    ("LATENCY|GRAPH", graph),
    ("LATENCY|DOCTOR", doctor),
    ("LATENCY|HISTOGRAM", histogram),
];

fn latest(ask: &mut Ask<'_>) -> Outcome {
    let events = ask.host.stats().events();
    ask.reply.array(events.iter().len());
    for (name, event) in events.iter() {
        let last = event.samples.back().copied();
        ask.reply.array(4);
        ask.reply.bulk(name.as_bytes());
        ask.reply.int(last.map_or(0, |sample| sample.at_s as i64));
        ask.reply.int(last.map_or(0, |sample| sample.ms as i64));
        ask.reply.int(event.ms_max as i64);
    }
    Ok(Effect::None)
}

fn history(ask: &mut Ask<'_>) -> Outcome {
    let events = ask.host.stats().events();
    let Some(event) = events.get(ask.args[2]) else {
        ask.reply.array(0);
        return Ok(Effect::None);
    };
    ask.reply.array(event.samples.len());
    for sample in &event.samples {
        ask.reply.array(2);
        ask.reply.int(sample.at_s as i64);
        ask.reply.int(sample.ms as i64);
    }
    Ok(Effect::None)
}

fn reset(ask: &mut Ask<'_>) -> Outcome {
    let kinds = ask.host.stats().events().reset(&ask.args[2..]);
    ask.reply.int(kinds as i64);
    Ok(Effect::None)
}

/// One line a sample, with a bar as long as its part of the longest one.
fn graph(ask: &mut Ask<'_>) -> Outcome {
    const BAR: usize = 60;
    let events = ask.host.stats().events();
    let Some(event) = events.get(ask.args[2]) else {
        return Err(format!("ERR No samples available for event '{}'", shown(ask.args[2])).into());
    };
    let (low, high) = low_and_high(event);
    let mut text =
        format!("{} - high {high} ms, low {low} ms (all time high {} ms)\n", shown(ask.args[2]), event.ms_max);
    let now_s = ask.host.now_us() / 1_000_000;
    for sample in &event.samples {
        let bar = "#".repeat((sample.ms as usize * BAR).div_ceil(high.max(1) as usize));
        text += &format!("{:>8}s ago {:>8} ms {bar}\n", now_s.saturating_sub(sample.at_s), sample.ms);
    }
    ask.reply.verbatim(&text);
    Ok(Effect::None)
}

fn low_and_high(event: &Event) -> (u64, u64) {
    let of = |pick: fn(u64, u64) -> u64| event.samples.iter().map(|sample| sample.ms).reduce(pick).unwrap_or(0);
    (of(u64::min), of(u64::max))
}

fn doctor(ask: &mut Ask<'_>) -> Outcome {
    let threshold_ms = ask.host.config().latency_threshold_ms();
    let events = ask.host.stats().events();
    let mut text = String::new();
    if threshold_ms == 0 {
        text += "Latency events are not recorded. CONFIG SET latency-monitor-threshold <milliseconds> records what \
                 takes longer.\n";
    }
    for (name, event) in events.iter() {
        let count = event.samples.len() as u64;
        let sum: u64 = event.samples.iter().map(|sample| sample.ms).sum();
        let first = event.samples.front().map_or(0, |sample| sample.at_s);
        let last = event.samples.back().map_or(0, |sample| sample.at_s);
        text += &format!(
            "{name}: {count} spikes within {} s, mean {} ms, longest of all times {} ms. {}\n",
            last.saturating_sub(first),
            sum / count.max(1),
            event.ms_max,
            advice(name),
        );
    }
    if events.iter().len() == 0 && threshold_ms > 0 {
        text += "No latency events so far.\n";
    }
    ask.reply.verbatim(&text);
    Ok(Effect::None)
}

fn advice(event: &str) -> &'static str {
    match event {
        "command" | "fast-command" => "SLOWLOG GET shows which commands they were.",
        "fsync" => "The disk is slow to make writes durable: see INFO basalt, and the disk's own figures.",
        "flush" | "compaction" => "Background work competes for the disk: see the setting rate-limit.",
        _ => "LATENCY HISTORY shows when.",
    }
}

fn histogram(ask: &mut Ask<'_>) -> Outcome {
    let stats = ask.host.stats();
    let chosen: Vec<(&CommandSpec, CommandTotals)> = if ask.args.len() == 2 {
        stats.commands().collect()
    } else {
        let named = ask.args[2..].iter().filter_map(|name| table::lookup_full(name));
        named
            .flat_map(|spec| std::iter::once(spec).chain(table::subcommands(spec)))
            .map(|s| (s, stats.command(s.id)))
            .collect()
    };
    let called: Vec<_> = chosen.into_iter().filter(|(_, totals)| totals.latency.count() > 0).collect();
    ask.reply.map(called.len());
    called.iter().for_each(|(spec, totals)| write_histogram(spec, totals, ask.reply));
    Ok(Effect::None)
}

fn write_histogram(spec: &CommandSpec, totals: &CommandTotals, reply: &mut Reply) {
    reply.bulk(spec.shown_name().as_bytes());
    reply.map(2);
    reply.bulk(b"calls");
    reply.int(totals.latency.count() as i64);
    reply.bulk(b"histogram_usec");
    let buckets = totals.latency.cumulative_us();
    reply.map(buckets.len());
    for (us, count) in buckets {
        reply.int(us as i64);
        reply.int(count as i64);
    }
}

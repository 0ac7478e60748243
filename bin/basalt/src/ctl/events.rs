//! `basalt ctl events`: what has happened to the store.

use super::ask::{Asker, Failure, print};
use super::table::{Tone, colours, painted, time};
use super::verdict::Verdict;
use bench::output::Reader;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use std::time::Duration;

/// Between two looks for new ones.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The kinds that a store has.
const KINDS: [&str; 10] =
    ["store", "node", "failure", "election", "plan", "shard", "setting", "user", "backup", "restore"];
/// Events that are shown, unless more are asked for.
const LIMIT: usize = 100;
/// Events that one answer holds at most.
const PAGE: usize = 1000;

const AFTER: &str = "\
Examples:
  basalt ctl events                  the newest 100
  basalt ctl events --since 2h       those of the last two hours
  basalt ctl events --follow         also new ones as they come, until Ctrl-C";

#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(super) struct EventsOptions {
    /// Only events of this last time, such as 90s, 15m, 2h or 1d
    #[arg(long, value_name = "TIME", value_parser = ago)]
    since: Option<Duration>,
    /// Only events with higher numbers
    #[arg(long, value_name = "NUMBER", conflicts_with = "since")]
    after: Option<u64>,
    /// Only events of this kind
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(KINDS))]
    kind: Option<String>,
    /// The most events that are shown: 100, or all with --since
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: Option<u64>,
    /// Show new events as they come, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

/// `90s`, `15m`, `2h`, `1d`.
pub(super) fn ago(text: &str) -> Result<Duration, String> {
    let unit = text.chars().last().and_then(|unit| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        _ => None,
    });
    let number = |text: &str| text[..text.len() - 1].parse::<u64>().ok();
    let seconds = unit.and_then(|unit| number(text)?.checked_mul(unit));
    seconds.map(Duration::from_secs).ok_or_else(|| "90s, 15m, 2h or 1d is expected".to_owned())
}

pub(super) fn run(asker: &mut Asker, options: &EventsOptions) -> Result<Verdict, Failure> {
    let (mut events, mut last) = first(asker, options)?;
    let mut is_cut_off = false;
    loop {
        let answer = json!({ "events": events });
        if !options.follow {
            asker.show(&answer, |answer| text(answer, colours()))?;
            return Ok(Verdict::Good);
        }
        // A line each, so that another program can read them as they come.
        let lines = || events.iter().map(|event| format!("{event}\n")).collect::<String>();
        let shown = if asker.json { lines() } else { text(&answer, colours()) };
        if print(&shown)? == Reader::Gone {
            return Ok(Verdict::Good);
        }
        std::thread::sleep(LOOK_EVERY);
        events = match ask(asker, Some(last), PAGE) {
            // An election, or the death of a node, is what there will be events of.
            Err(Failure::Unreachable(why)) => {
                if !std::mem::replace(&mut is_cut_off, true) {
                    bench::note!("basalt ctl: {why}; events are asked for until they are answered again");
                }
                Vec::new()
            }
            page => page.inspect(|_| is_cut_off = false)?,
        };
        last = newest(&events).unwrap_or(last);
        events.retain(|event| is_wanted(event, options, 0));
    }
}

/// Those that are wanted of the events that the store has, the oldest first; and the number up to which it was looked.
fn first(asker: &mut Asker, options: &EventsOptions) -> Result<(Vec<Value>, u64), Failure> {
    let from_ms = options.since.map_or(0, |since| vocab::wall_clock_ms().saturating_sub(since.as_millis() as u64));
    let all_since = if options.since.is_some() { usize::MAX } else { LIMIT };
    let limit = options.limit.map_or(all_since, |limit| limit as usize);
    if options.after.is_none() && options.since.is_none() && options.kind.is_none() {
        let events = ask(asker, None, limit)?;
        let last = newest(&events).unwrap_or(0);
        return Ok((events, last));
    }
    let (mut wanted, mut last) = (Vec::new(), options.after.unwrap_or(0));
    loop {
        let page = ask(asker, Some(last), PAGE)?;
        let Some(newest_of_page) = newest(&page) else { break };
        last = newest_of_page;
        wanted.extend(page.into_iter().filter(|event| is_wanted(event, options, from_ms)));
        if options.after.is_some() && wanted.len() >= limit {
            // The next ones come with the number of the last one that is shown.
            wanted.truncate(limit);
            last = newest(&wanted).unwrap_or(last);
            break;
        }
        wanted.drain(..wanted.len().saturating_sub(limit));
    }
    Ok((wanted, last))
}

fn newest(events: &[Value]) -> Option<u64> {
    events.iter().filter_map(|event| event["number"].as_u64()).max()
}

fn ask(asker: &mut Asker, after: Option<u64>, limit: usize) -> Result<Vec<Value>, Failure> {
    let (limit, after) = (limit.to_string(), after.map(|after| after.to_string()));
    let mut words = vec!["EVENTS", "LIMIT", &limit];
    if let Some(after) = &after {
        words.extend(["AFTER", after]);
    }
    Ok(asker.ask(&words)?["events"].as_array().cloned().unwrap_or_default())
}

fn is_wanted(event: &Value, options: &EventsOptions, from_ms: u64) -> bool {
    let kind = options.kind.as_deref();
    event["at_ms"].as_u64().unwrap_or(0) >= from_ms && kind.is_none_or(|kind| event["kind"] == kind)
}

pub(super) fn text(answer: &Value, colours: bool) -> String {
    let line = |event: &Value| {
        let kind = event["kind"].as_str().unwrap_or_default();
        let tone = match kind {
            "failure" => Tone::Bad,
            "plan" | "setting" => Tone::Good,
            _ => Tone::Plain,
        };
        let at = painted(&time(event["at_ms"].as_u64().unwrap_or(0)), Tone::Dim, colours);
        let kind = painted(&format!("{kind:<8}"), tone, colours);
        let number = event["number"].as_u64().unwrap_or(0);
        format!("{at}  {number:>6}  {kind}  {}\n", event["text"].as_str().unwrap_or_default())
    };
    answer["events"].as_array().into_iter().flatten().map(line).collect()
}

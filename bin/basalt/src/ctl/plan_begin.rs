//! Begins a plan, after a question where it cannot be undone, and waits for its end.

use super::ask::{Asker, Failure};
use super::plan_table::{line, one};
use super::screen::Progress;
use super::table::{Tone, painted};
use super::verdict::Verdict;
use bench::output::remark;
use serde_json::Value;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) fn ask_preview(asker: &mut Asker, words: &[&str]) -> Result<Value, Failure> {
    asker.ask(&[&["PLAN", "PREVIEW"], words].concat())
}

fn apply(asker: &mut Asker, words: &[&str], reason: Option<&str>) -> Result<Value, Failure> {
    let mut all = [&["PLAN", "APPLY"], words].concat();
    if let Some(reason) = reason {
        all.extend(["REASON", reason]);
    }
    asker.ask(&all)
}

pub(super) fn begin(asker: &mut Asker, words: &[&str], reason: Option<&str>, waits: bool) -> Result<Verdict, Failure> {
    let begun = apply(asker, words, reason)?;
    let id = begun["id"].as_u64().unwrap_or(0);
    if waits {
        return wait(asker, id, None);
    }
    asker.show(&begun, |_| format!("plan {id} is begun; `basalt ctl plan wait {id}` waits for it\n"))?;
    Ok(Verdict::Good)
}

/// Goes on only if the word is typed.
pub(super) fn confirm(warning: &str, word: &str, flag: &str) -> Result<(), Failure> {
    bench::note!("{}", painted(warning, Tone::Bad, std::io::stderr().is_terminal()));
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "nothing is done: there is no terminal to ask at, and {flag} is not given"
        )));
    }
    remark(format_args!("Type {word} to go on: "));
    let mut typed = String::new();
    let read = std::io::stdin().read_line(&mut typed);
    if read.is_ok() && typed.trim() == word {
        return Ok(());
    }
    Err(Failure::Refused("nothing is done".to_owned()))
}

/// Begins a plan and waits for its end: how it has ended. Shows nothing but progress.
pub(super) fn carried_out(asker: &mut Asker, words: &[&str], reason: &str) -> Result<(Value, Verdict), Failure> {
    let begun = apply(asker, words, Some(reason))?;
    ended(asker, begun["id"].as_u64().unwrap_or(0), None)
}

pub(super) fn wait(asker: &mut Asker, id: u64, timeout: Option<Duration>) -> Result<Verdict, Failure> {
    let (plan, verdict) = ended(asker, id, timeout)?;
    asker.show(&plan, one)?;
    Ok(verdict)
}

fn ended(asker: &mut Asker, id: u64, timeout: Option<Duration>) -> Result<(Value, Verdict), Failure> {
    let (begun, mut progress) = (Instant::now(), Progress::new());
    let id = id.to_string();
    loop {
        let plan = match asker.ask(&["PLAN", "SHOW", &id]) {
            Ok(plan) => plan,
            // The metadata group may be electing a leader.
            Err(Failure::Unreachable(why)) if timeout.is_none_or(|timeout| begun.elapsed() < timeout) => {
                progress.show(&why);
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let verdict = match plan["state"].as_str() {
            Some("done") => Some(Verdict::Good),
            Some("failed" | "cancelled") => Some(Verdict::Bad),
            _ if timeout.is_some_and(|timeout| begun.elapsed() >= timeout) => Some(Verdict::Unknown),
            _ => None,
        };
        if let Some(verdict) = verdict {
            progress.end();
            return Ok((plan, verdict));
        }
        progress.show(&line(&plan));
        std::thread::sleep(LOOK_EVERY);
    }
}

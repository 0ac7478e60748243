//! Waiting until a store has nothing left to do: so that a step does not pay for the one before it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Client, SlotMap, StoreUrl, Value};

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// The number of looks in a row that must find nothing to do.
const QUIET_LOOKS: u32 = 3;
const WITHIN: Duration = Duration::from_secs(5);
/// What is done when these are 0, as INFO names it.
const WORK: [&str; 3] = ["flushes_running", "compactions_running", "store_learners"];

/// Waits until no node flushes or compacts, no replica is on its way and no plan is under way. How long it took; none
/// if it is to stop meanwhile.
pub(crate) fn settle(
    store: &StoreUrl,
    patience: Duration,
    stop: &AtomicBool,
    show: &dyn Fn(&str),
) -> io::Result<Option<Duration>> {
    let begun = Instant::now();
    let (mut quiet, mut told) = (0, Duration::ZERO);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match busy(store)? {
            Some(what) if begun.elapsed() >= patience => {
                let text = format!("the store has not come to rest after {} s: {what}", patience.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Some(what) => {
                quiet = 0;
                if begun.elapsed() >= told + TELL_EVERY {
                    told = begun.elapsed();
                    show(&format!("  waiting for {} s: {what}", told.as_secs()));
                }
            }
            None => quiet += 1,
        }
        if quiet == QUIET_LOOKS {
            return Ok(Some(begun.elapsed()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What the store is busy with, in words.
fn busy(store: &StoreUrl) -> io::Result<Option<String>> {
    let map = SlotMap::fetch(store, true)?;
    for address in map.nodes() {
        let one = store.with_seeds(vec![address.clone()]);
        let asked =
            Client::open_within(&one, WITHIN, WITHIN).and_then(|mut client| client.call_here(&[b"INFO", b"basalt"]));
        // One that is dead has nothing to do; what is done about it is a plan.
        let Ok(info) = asked else { continue };
        let info = info.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default();
        for (name, value) in info.lines().filter_map(|line| line.trim().split_once(':')) {
            if WORK.contains(&name) && value != "0" {
                return Ok(Some(format!("{address}: {name} {value}")));
            }
        }
    }
    let under_way = plans(store).into_iter().find(|plan| plan.under_way());
    Ok(under_way.map(|plan| format!("plan {} ({}) is {}", plan.id, plan.kind, plan.state)))
}

/// A plan of the store, as it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanSight {
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) state: String,
}

impl PlanSight {
    fn under_way(&self) -> bool {
        matches!(self.state.as_str(), "running" | "pending" | "planned" | "active")
    }
}

/// The store's plans; none where it has none, or is of a kind that knows no plans.
pub(crate) fn plans(store: &StoreUrl) -> Vec<PlanSight> {
    let asked =
        Client::open_within(store, WITHIN, WITHIN).and_then(|mut client| client.call(&[b"KV.ADMIN", b"PLAN", b"LIST"]));
    let Ok(answer) = asked else { return Vec::new() };
    let Some(text) = answer.as_bytes().filter(|_| !matches!(answer, Value::Error(_))) else { return Vec::new() };
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(text) else { return Vec::new() };
    let list = json.get("plans").unwrap_or(&json).as_array().cloned().unwrap_or_default();
    let word = |plan: &serde_json::Value, name: &str| {
        plan.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_lowercase()
    };
    let sight = |plan: &serde_json::Value| {
        Some(PlanSight { id: plan.get("id")?.as_u64()?, kind: word(plan, "kind"), state: word(plan, "state") })
    };
    list.iter().filter_map(sight).collect()
}

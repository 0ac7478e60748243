//! `basalt cluster up`: starts the nodes, waits until they serve, and shows how they are until it is told to stop.

use super::authority::Authority;
use super::local_store::{Lifetime, LocalStore};
use super::options::UpOptions;
use super::ports::OutgoingPorts;
use super::status::{Board, node_name, quoted};
use super::trouble::Trouble;
use super::watch::{Sight, Watch};
use crate::stop_flag::stop_flag;
use bench::output::print;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Within this time a store serves, also one that has a log to replay.
const HEALTHY_WITHIN: Duration = Duration::from_secs(120);
/// Between two looks at a store that is coming up.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two looks at one that serves.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// Runs it.
pub fn run(options: &UpOptions) -> Result<bool, Trouble> {
    let stop = stop_flag().map_err(|e| Trouble::Failed(e.to_string()))?;
    let mut store = prepare(options)?;
    if let Some(warning) = OutgoingPorts::of_system().and_then(|ports| ports.warning(store.roster())) {
        bench::note!("basalt cluster: {warning}");
    }
    store.require_free_ports(&store.numbers())?;
    if let Some(warning) = store.without_databases() {
        bench::note!("basalt cluster: {warning}");
    }
    let lifetime = if options.background { Lifetime::Their } else { Lifetime::Ours };
    let begun = Instant::now();
    if let Err(e) = start_all(&mut store, lifetime, &stop) {
        // What the user did not get is not left running.
        store.stop_all()?;
        return Err(e);
    }
    if stop.load(Ordering::Acquire) {
        return stop_all(&mut store);
    }
    let count = store.roster().nodes.len();
    let (took, dir) = (begun.elapsed().as_secs_f64(), store.dir().display().to_string());
    let serves = format!("the store of {count} nodes in {dir} serves after {took:.1} s: redis://{}\n", store.url());
    let serves = serves + &Watch::default().look(&store).databases() + &store.tls_line();
    if options.background {
        store.let_go();
        let down = format!("`basalt cluster down --data {}` stops it\n", quoted(store.dir()));
        print(&(serves + &down))?;
        return Ok(true);
    }
    print(&serves)?;
    tend(&mut store, &stop)?;
    stop_all(&mut store)
}

/// The store that is to be started: new, or as it was.
fn prepare(options: &UpOptions) -> Result<LocalStore, Trouble> {
    let dir = &options.place.data;
    let mut store = prepare_plain(options)?;
    if options.tls {
        let settings = Authority::of(dir)?.settings();
        store.change(|roster| {
            roster.settings.retain(|(known, _)| settings.iter().all(|(name, _)| name != known));
            roster.settings.extend(settings);
        })?;
    }
    Ok(store)
}

/// The same without what `--tls` adds.
fn prepare_plain(options: &UpOptions) -> Result<LocalStore, Trouble> {
    let dir = &options.place.data;
    let Some(mut store) = LocalStore::open(dir)? else {
        return Ok(LocalStore::create(dir, options.shape.fresh()?)?);
    };
    if let Some(node) = store.roster().nodes.iter().find(|node| node.runs()) {
        let text = format!("the store in {} runs already: {}", dir.display(), node_name(node.number, node.port));
        return Err(Trouble::Failed(text));
    }
    // One that was never made may still become another.
    let known = store.roster();
    let roster = if known.made { options.shape.again(known)? } else { options.shape.fresh()? };
    store.change(|known| *known = roster)?;
    Ok(store)
}

fn start_all(store: &mut LocalStore, lifetime: Lifetime, stop: &AtomicBool) -> Result<(), Trouble> {
    for number in store.numbers() {
        store.start(number, lifetime)?;
    }
    if wait_until_healthy(store, stop)? {
        store.change(|roster| roster.made = true)?;
    }
    Ok(())
}

/// Waits until all nodes are up and all shards have leaders. False if it is to stop.
///
/// # Errors
/// A node has ended, or it takes too long.
pub fn wait_until_healthy(store: &mut LocalStore, stop: &AtomicBool) -> Result<bool, String> {
    let until = Instant::now() + HEALTHY_WITHIN;
    let mut watch = Watch::default();
    while !stop.load(Ordering::Acquire) {
        let sight = watch.look(store);
        // A node may have ended while the others were asked.
        if let Some(node) = store.roster().nodes.iter().find(|node| !node.runs()) {
            let (name, words) = (node_name(node.number, node.port), store.last_words(node.number));
            return Err(format!("{name} has ended instead of starting; it said last:{words}"));
        }
        if sight.healthy {
            if sight.nodes.iter().any(|node| node.told.as_ref().is_some_and(|told| told.locked)) {
                bench::note!(
                    "the nodes answer, and tell only users who may ask how they are; `basalt ctl status --user NAME` shows it"
                );
            }
            return Ok(true);
        }
        if Instant::now() >= until {
            let seconds = HEALTHY_WITHIN.as_secs();
            return Err(format!("the store does not serve after {seconds} s: {}", sight.line()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(false)
}

/// Shows how the nodes are, and says when one ends or is back.
fn tend(store: &mut LocalStore, stop: &AtomicBool) -> Result<(), Trouble> {
    let mut watch = Watch::default();
    let mut board = Board::new();
    let mut before: Option<Sight> = None;
    while !stop.load(Ordering::Acquire) {
        store.refresh()?;
        let sight = watch.look(store);
        for (node, was) in sight.nodes.iter().zip(before.iter().flat_map(|sight| &sight.nodes)) {
            let name = node_name(node.number, node.port);
            match (was.process, node.process) {
                (Some(_), None) => {
                    let (words, number) = (store.last_words(node.number), node.number);
                    let dir = quoted(store.dir());
                    board.say(&format!(
                        "{name} has ended; `basalt cluster restart {number} --data {dir}` brings it back. It said last:{words}"
                    ));
                }
                (was, Some(process)) if was != Some(process) => board.say(&format!("{name} runs again")),
                _ => {}
            }
        }
        board.show(&sight);
        before = Some(sight);
        std::thread::sleep(SHOW_EVERY);
    }
    Ok(())
}

fn stop_all(store: &mut LocalStore) -> Result<bool, Trouble> {
    bench::note!("stopping {} nodes", store.roster().nodes.len());
    let forced = store.stop_all()?;
    for number in &forced {
        bench::note!("node {number} did not stop in time and was killed");
    }
    Ok(forced.is_empty())
}

//! `basalt cluster down | status | kill | restart`: what is done to a store that another command has started.

use super::local_store::{Lifetime, LocalStore};
use super::status::node_name;
use super::trouble::Trouble;
use super::watch::Watch;
use bench::output::print;
use std::path::Path;
use std::time::{Duration, Instant};

/// Within this time a node answers that is started again, also one that has a log to replay.
const ANSWERS_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn open(dir: &Path) -> Result<LocalStore, Trouble> {
    LocalStore::open(dir)?.ok_or_else(|| Trouble::Usage(format!("--data {}: there is no store here", dir.display())))
}

/// Stops all nodes in order.
pub fn down(dir: &Path) -> Result<bool, Trouble> {
    let mut store = open(dir)?;
    let running = store.roster().nodes.iter().filter(|node| node.runs()).count();
    if running == 0 {
        print(&format!("no node of the store in {} runs\n", dir.display()))?;
        return Ok(true);
    }
    let forced = store.stop_all()?;
    for number in &forced {
        bench::note!("basalt cluster: node {number} did not stop in time and was killed");
    }
    print(&format!("{running} nodes have stopped\n"))?;
    Ok(forced.is_empty())
}

/// Shows how the store is. True if it is as it should be.
pub fn status(dir: &Path, json: bool) -> Result<bool, Trouble> {
    let store = open(dir)?;
    let sight = Watch::default().look(&store);
    if json {
        let text = serde_json::to_string_pretty(&sight).map_err(|e| Trouble::Failed(e.to_string()))?;
        print(&(text + "\n"))?;
    } else {
        print(&sight.table())?;
    }
    Ok(sight.healthy)
}

/// Kills a node at once.
pub fn kill(number: usize, dir: &Path) -> Result<bool, Trouble> {
    let mut store = open(dir)?;
    known(&store, number)?;
    let killed = store.kill(number)?;
    print(&format!("node {number} {}\n", if killed { "was killed" } else { "did not run" }))?;
    Ok(killed)
}

/// Starts a node again and waits until it answers.
pub fn restart(number: usize, dir: &Path) -> Result<bool, Trouble> {
    let mut store = open(dir)?;
    known(&store, number)?;
    if !store.stop(&[number])?.is_empty() {
        bench::note!("basalt cluster: node {number} did not stop in time and was killed");
    }
    store.start(number, Lifetime::Their)?;
    // From here on it goes on, whatever we find.
    store.let_go();
    let until = Instant::now() + ANSWERS_WITHIN;
    let mut watch = Watch::default();
    loop {
        let node = store.roster().node(number).cloned().ok_or_else(|| format!("node {number} is gone"))?;
        let (sight, name) = (watch.look_at(&store, &node), node_name(number, node.port));
        if sight.told.is_some_and(|told| told.serves()) {
            print(&format!("{name} serves\n"))?;
            return Ok(true);
        }
        if sight.process.is_none() {
            let words = store.last_words(number);
            return Err(Trouble::Failed(format!("{name} has ended instead of starting; it said last:{words}")));
        }
        if Instant::now() >= until {
            return Err(Trouble::Failed(format!("{name} does not serve after {} s", ANSWERS_WITHIN.as_secs())));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn known(store: &LocalStore, number: usize) -> Result<(), Trouble> {
    let nodes = store.roster().nodes.len();
    match store.roster().node(number) {
        Some(_) => Ok(()),
        None => Err(Trouble::Usage(format!("there is no node {number}: nodes are 1 to {nodes}"))),
    }
}

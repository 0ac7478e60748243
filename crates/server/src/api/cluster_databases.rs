//! Databases of a cluster's clients beyond 0: how a store begins them, and FLUSHDB of one, which leaves the others.

use super::databases::{Made, Promise, knows_setting, run_at, write_at};
use super::format_gate::CLUSTER_DATABASES;
use super::handlers::{PoolWriter, Takes};
use super::opening::open;
use crate::shared::{LAYOUT, LAYOUT_SETTING, NodeShared};
use node::session::{Durability, Host as _, flushed_database};
use resp::{Reply, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{ClusterDatabase, Slot, slot_tag};

/// What removes a part of the keys of a database.
const REMOVE_SOME: &str = "KV.REMOVE";
/// Keys that one entry removes.
const REMOVED_AT_ONCE: &str = "4096";
/// For how long a store is gone through anew whose shards are divided meanwhile, and the pause before.
const DIVIDED_WITHIN: Duration = Duration::from_secs(10);
const DIVIDED_PAUSE: Duration = Duration::from_millis(20);
/// For how long the beginning waits for the other nodes to know it.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn handler(name: &str) -> Option<PoolWriter> {
    // Beside nodes that do not know the command no entry may have it.
    let refuse: PoolWriter =
        |_, _, _, reply| reply.error("ERR the store has no databases beyond 0 for clients of a cluster");
    (name == REMOVE_SOME).then_some(refuse)
}

/// Which requests of the command with that name go to the pool.
pub(super) fn takes(name: &str) -> Option<Takes> {
    (name == REMOVE_SOME).then_some(Takes::WithoutClusterDatabases)
}

/// Has a thread begin the databases that a client waits for; all clients that wait are looked at again then.
pub(crate) fn begin_wanted(store: &Arc<NodeShared>) {
    if store.begins_cluster_databases.take_wanted() {
        let of_job = store.clone();
        store.pool.run_patient(Box::new(move || {
            of_job.begins_cluster_databases.ended(begin(&of_job));
            of_job.wake_all();
        }));
    }
}

/// Once every node knows their keys, the map says so. The error is the text of a reply.
fn begin(store: &Arc<NodeShared>) -> Result<(), String> {
    let known = store.known();
    let map = known.map.as_ref().ok_or("CLUSTERDOWN this node belongs to no store yet")?;
    if let Some(layout) = map.settings.get(LAYOUT_SETTING)
        && layout != LAYOUT
        && layout != "0"
    {
        return Err(format!(
            "ERR keys of databases beyond 0 have a layout that this release does not know (`{LAYOUT_SETTING}`)"
        ));
    }
    open(store, &CLUSTER_DATABASES, LAYOUT)?;
    let until = Instant::now() + KNOWN_WITHIN;
    while !store.has_cluster_databases() {
        if Instant::now() > until {
            return Err("TRYAGAIN this node does not know yet that the store has databases beyond 0".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    knows_setting(store, LAYOUT_SETTING, &Made { value: LAYOUT.to_owned(), epoch: None }, until);
    Ok(())
}

/// FLUSHDB of a cluster's client, in a store that has databases beyond 0. Part after part, so that other requests get in between.
pub(super) fn empty_one(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    match emptied(store, args, durability) {
        Ok(()) => reply.ok(),
        Err(text) => reply.error(&text),
    }
}

fn emptied(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability) -> Result<(), String> {
    let database = flushed_database(args)?;
    let mut promise = Promise::of(durability);
    let until = Instant::now() + DIVIDED_WITHIN;
    empty_everywhere(
        || store.known().shards().into_iter().map(|(_, run)| run).collect(),
        |(first, last)| {
            empty_shard(store, Slot(first), database, &mut promise)?;
            has_span(store, (Slot(first), Slot(last)), database)
        },
        || {
            std::thread::sleep(DIVIDED_PAUSE);
            Instant::now() < until
        },
    )?;
    promise.end()
}

/// Slots that one shard has, as far as it is known: the first and the last one.
type Run = (u16, u16);

/// Empties run after run. A shard that was divided before the map says so has left out what is the other one's by then, and does not
/// have the whole run: then all are emptied anew, by a newer map. `empty_run` empties the shard of a run, and answers whether that
/// has the whole of it afterwards. It gets no slots, so it had it before. `pause` answers whether there is time for another turn.
fn empty_everywhere(
    runs: impl Fn() -> Vec<Run>,
    mut empty_run: impl FnMut(Run) -> Result<bool, String>,
    mut pause: impl FnMut() -> bool,
) -> Result<(), String> {
    loop {
        let mut is_whole = true;
        for run in runs() {
            is_whole &= empty_run(run)?;
        }
        if is_whole {
            return Ok(());
        }
        if !pause() {
            return Err("TRYAGAIN the shards of the store change all the time: not all keys were removed".to_owned());
        }
    }
}

/// A name that says which shard, and which database.
fn place_of(slot: Slot, database: Option<ClusterDatabase>) -> Vec<u8> {
    match database {
        Some(database) => database.prefix_of_slot(slot).to_vec(),
        None => format!("{{{}}}", slot_tag(slot)).into_bytes(),
    }
}

/// Removes the keys of a database that the shard of a slot has.
fn empty_shard(
    store: &Arc<NodeShared>,
    slot: Slot,
    database: Option<ClusterDatabase>,
    promise: &mut Promise,
) -> Result<(), String> {
    let place = place_of(slot, database);
    let remove: [&[u8]; 3] = [REMOVE_SOME.as_bytes(), &place, REMOVED_AT_ONCE.as_bytes()];
    loop {
        let answer = match write_at(store, slot, promise.durability(), &remove)? {
            Value::Error(text) => Err(text),
            answer => Ok(answer),
        };
        match promise.keep(answer)? {
            Some(Value::Int(0)) => return Ok(()),
            Some(Value::Int(_)) | None => {}
            Some(_) => {
                return Err("TIMEOUT a database was not emptied in time: that may be done later, or never".to_owned());
            }
        }
    }
}

/// Whether the shard of a slot has all from there to another one. A node of an older release does not tell: it is taken to.
fn has_span(
    store: &Arc<NodeShared>,
    (first, last): (Slot, Slot),
    database: Option<ClusterDatabase>,
) -> Result<bool, String> {
    let asked: [&[u8]; 3] = [b"KV.SPAN", &place_of(first, database), &place_of(last, database)];
    match run_at(store, first, &asked)? {
        Value::Int(1) => Ok(true),
        Value::Error(text) => Ok(text.starts_with("ERR unknown command")),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// A store whose shards are divided while they are emptied: the map says so some time later.
    struct Dividing {
        /// What the shards have, and what the map says that they have.
        shards: Vec<Run>,
        map: Vec<Run>,
        keys: BTreeSet<u16>,
    }

    impl Dividing {
        /// The shard that has a slot.
        fn of(&self, slot: u16) -> Run {
            *self.shards.iter().find(|(first, last)| (*first..=*last).contains(&slot)).unwrap_or(&(0, 0))
        }

        fn divide(&mut self, run: Run) {
            let middle = run.0 + (run.1 - run.0) / 2;
            self.shards.retain(|shard| *shard != run);
            self.shards.extend([(run.0, middle), (middle + 1, run.1)]);
        }
    }

    #[test]
    fn no_part_of_a_shard_is_left_out_that_is_divided_meanwhile() {
        for divided_first in [true, false] {
            let runs = vec![(0, 99), (100, 199)];
            let store = RefCell::new(Dividing { shards: runs.clone(), map: runs, keys: (0..200).collect() });
            let mut divisions = vec![(100, 199), (0, 99)];
            let end = empty_everywhere(
                || store.borrow().map.clone(),
                |run| {
                    let mut store = store.borrow_mut();
                    let next = divisions.iter().position(|divided| *divided == run).map(|at| divisions.remove(at));
                    if let Some(run) = next.filter(|_| divided_first) {
                        store.divide(run);
                    }
                    let (first, last) = store.of(run.0);
                    store.keys.retain(|key| !(first..=last).contains(key));
                    if let Some(run) = next.filter(|_| !divided_first) {
                        store.divide(run);
                    }
                    let (_, last) = store.of(run.0);
                    Ok(last >= run.1)
                },
                || {
                    let mut store = store.borrow_mut();
                    store.map = store.shards.clone();
                    true
                },
            );
            assert_eq!(end, Ok(()));
            assert!(store.borrow().keys.is_empty(), "{:?}", store.borrow().keys);
        }
        let never = empty_everywhere(|| vec![(0, 9)], |_| Ok(false), || false);
        assert!(never.is_err_and(|text| text.starts_with("TRYAGAIN")));
        let broken = empty_everywhere(|| vec![(0, 9)], |_| Err("ERR broken".to_owned()), || true);
        assert_eq!(broken, Err("ERR broken".to_owned()));
    }
}

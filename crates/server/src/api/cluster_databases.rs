//! Databases of a cluster's clients beyond 0: how a store begins them, and FLUSHDB of one, which leaves the others.

use super::admin;
use super::databases::{knows_setting, run_at};
use super::handlers::{PoolHandler, Takes};
use crate::links::CLUSTER_DATABASES_SINCE;
use crate::shared::{LAYOUT, LAYOUT_SETTING, NodeShared};
use node::session::{Host as _, flushed_database};
use resp::{Reply, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{ClusterDatabase, Slot, slot_tag};

/// What removes a part of the keys of a database.
const REMOVE_SOME: &str = "KV.REMOVE";
/// Keys that one entry removes.
const REMOVED_AT_ONCE: &str = "4096";
/// How often a store is gone through whose shards change meanwhile.
const PASSES_MAX: usize = 16;
/// For how long the beginning waits for the other nodes to know it.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn handler(name: &str) -> Option<PoolHandler> {
    // Beside nodes that do not know the command no entry may have it.
    let refuse: PoolHandler =
        |_, _, reply| reply.error("ERR the store has no databases beyond 0 for clients of a cluster");
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
    for node in map.nodes.keys().filter(|node| **node != store.node()) {
        match store.entry_formats.spoken(*node) {
            Some(version) if version >= CLUSTER_DATABASES_SINCE => {}
            Some(_) => {
                return Err(format!(
                    "ERR clients of a cluster have databases beyond 0 once every node is of a release that has them: node {node} is older"
                ));
            }
            None => {
                return Err(format!(
                    "ERR clients of a cluster have databases beyond 0 once every node is known to have them: node {node} \
                     cannot be asked; start it, or remove it from the store"
                ));
            }
        }
    }
    admin::admin(store, &["SETTINGS", "SET", LAYOUT_SETTING, LAYOUT]).map_err(|e| e.reply())?;
    let until = Instant::now() + KNOWN_WITHIN;
    while !store.has_cluster_databases() {
        if Instant::now() > until {
            return Err("TRYAGAIN this node does not know yet that the store has databases beyond 0".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    knows_setting(store, LAYOUT_SETTING, LAYOUT, until);
    Ok(())
}

/// FLUSHDB of a cluster's client, in a store that has databases beyond 0. Part after part, so that other requests get in between.
pub(super) fn empty_one(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    match emptied(store, args) {
        Ok(()) => reply.ok(),
        Err(text) => reply.error(&text),
    }
}

fn emptied(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<(), String> {
    let database = flushed_database(args)?;
    for _ in 0..PASSES_MAX {
        let epoch = store.known().map.as_ref().map(|map| map.epoch);
        for (_, (first, _)) in store.known().shards() {
            empty_shard(store, Slot(first), database)?;
        }
        // A shard that was divided meanwhile may have been left out with a part.
        if store.known().map.as_ref().map(|map| map.epoch) == epoch {
            return Ok(());
        }
    }
    Err("TRYAGAIN the shards of the store change all the time: not all keys were removed".to_owned())
}

/// Removes the keys of a database that the shard of a slot has.
fn empty_shard(store: &Arc<NodeShared>, slot: Slot, database: Option<ClusterDatabase>) -> Result<(), String> {
    // Only says which shard, and which database.
    let place = match database {
        Some(database) => database.prefix_of_slot(slot).to_vec(),
        None => format!("{{{}}}", slot_tag(slot)).into_bytes(),
    };
    loop {
        match run_at(store, slot, &[REMOVE_SOME.as_bytes(), &place, REMOVED_AT_ONCE.as_bytes()])? {
            Value::Int(0) => return Ok(()),
            Value::Int(_) => {}
            Value::Error(text) => return Err(text),
            _ => return Err("TIMEOUT a database was not emptied in time: that may be done later, or never".to_owned()),
        }
    }
}

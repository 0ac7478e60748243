//! From when on the store evaluates scripts, and by which rules: once all of its nodes know them, which a setting of the map says.

use super::format_gate::{FormatGate, SCRIPTS};
use super::opening::open;
use super::programs::at_meta;
use crate::shared::{ENGINE_SETTING, NodeShared, script_engine};
use node::EngineVersion;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The second word of a request to the leader of the metadata group: scripts are to run.
pub(super) const ENGINE: &[u8] = b"ENGINE";
/// How long the map may take that says that they do.
const MAP_WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until the store evaluates scripts, and this node knows. The error is the text of a reply. A store that evaluates them by older
/// rules goes on to the newest, if all nodes know these.
pub(super) fn await_engine(store: &Arc<NodeShared>) -> Result<(), String> {
    match engine_of(store) {
        Some(EngineVersion::NEWEST) => Ok(()),
        Some(_) => {
            renew(store);
            Ok(())
        }
        None => {
            // The leader of the metadata group may be such a node itself, and then does not know the question.
            SCRIPTS.refuse_beside_older(store)?;
            at_meta(store, &[b"SCRIPT", ENGINE])?;
            await_map(store, EngineVersion::First)
        }
    }
}

/// A link has come up, by which this node knows what one more node knows: the store's scripts may run by newer rules.
pub(crate) fn renew_engine(store: &Arc<NodeShared>) {
    if engine_of(store).is_some_and(|engine| engine < EngineVersion::NEWEST) && all_know_newest(store) {
        let of_job = store.clone();
        store.pool.run_patient(Box::new(move || renew(&of_job)));
    }
}

/// Has the store go on to the newest rules. Where that cannot be now, its scripts run as before, and the next node that meets a script or a link
/// tries it again.
fn renew(store: &Arc<NodeShared>) {
    if all_know_newest(store) && at_meta(store, &[b"SCRIPT", ENGINE]).is_ok() {
        let _ = await_map(store, EngineVersion::NEWEST);
    }
}

/// Whether this node has heard of every other one that it knows the newest rules.
fn all_know_newest(store: &NodeShared) -> bool {
    let (known, newest) = (store.known(), FormatGate::of_engine(EngineVersion::NEWEST));
    known.map.as_ref().is_some_and(|map| newest.check(map, store.node(), &store.entry_formats).is_ok())
}

/// By which rules scripts are evaluated, as far as this node knows.
fn engine_of(store: &NodeShared) -> Option<EngineVersion> {
    store.known().map.as_ref().and_then(|map| script_engine(map))
}

/// Waits until this node knows that scripts are evaluated by such rules or newer ones.
fn await_map(store: &NodeShared, least: EngineVersion) -> Result<(), String> {
    let until = Instant::now() + MAP_WITHIN;
    while engine_of(store).is_none_or(|engine| engine < least) {
        if Instant::now() > until {
            return Err("TRYAGAIN this node does not know yet that the store runs scripts".to_owned());
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Has the store evaluate scripts by the newest rules that all nodes know, on the leader of the metadata group. The error is the text of
/// a reply.
pub(super) fn begin_engine(store: &Arc<NodeShared>) -> Result<(), String> {
    let known = store.known();
    let map = known.map.as_ref().ok_or("CLUSTERDOWN this node belongs to no store yet")?;
    let now = script_engine(map);
    if now.is_none() && map.settings.contains_key(ENGINE_SETTING) {
        return Err(format!("ERR scripts run by rules that this release does not know (`{ENGINE_SETTING}`)"));
    }
    let begin = |engine: EngineVersion| open(store, FormatGate::of_engine(engine), &engine.number().to_string());
    // A store that has none yet begins with the second at least.
    let before = now.unwrap_or(EngineVersion::First);
    let mut outcome = Ok(());
    for engine in EngineVersion::ALL.into_iter().rev().take_while(|engine| *engine > before) {
        outcome = begin(engine);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

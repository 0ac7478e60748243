//! From when on the store evaluates scripts: once all of its nodes know how, which a setting of the map says.

use super::format_gate::SCRIPTS;
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

/// Waits until the store evaluates scripts, and this node knows. The error is the text of a reply.
pub(super) fn await_engine(store: &Arc<NodeShared>) -> Result<(), String> {
    let is_known = || store.known().map.as_ref().is_some_and(|map| script_engine(map).is_some());
    if is_known() {
        return Ok(());
    }
    // The leader of the metadata group may be such a node itself, and then does not know the question.
    SCRIPTS.refuse_beside_older(store)?;
    at_meta(store, &[b"SCRIPT", ENGINE])?;
    let until = Instant::now() + MAP_WITHIN;
    while !is_known() {
        if Instant::now() > until {
            return Err("TRYAGAIN this node does not know yet that the store runs scripts".to_owned());
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Has the store evaluate scripts, on the leader of the metadata group, once all nodes know how. The error is the text of a reply.
pub(super) fn begin_engine(store: &Arc<NodeShared>) -> Result<(), String> {
    let known = store.known();
    let map = known.map.as_ref().ok_or("CLUSTERDOWN this node belongs to no store yet")?;
    if map.settings.contains_key(ENGINE_SETTING) {
        return match script_engine(map) {
            Some(_) => Ok(()),
            None => Err(format!("ERR scripts run by rules that this release does not know (`{ENGINE_SETTING}`)")),
        };
    }
    open(store, &SCRIPTS, &EngineVersion::NEWEST.number().to_string())
}

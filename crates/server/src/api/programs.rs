//! What scripts and functions need of the metadata group, which keeps them.

use super::admin;
use super::writer::ShardWriter;
use crate::links::SCRIPTS_SINCE;
use crate::os::steady_us;
use crate::peers::call_leader;
use crate::shared::{ENGINE_SETTING, NodeShared, script_engine};
use node::command::PROGRAM;
use node::{EncodedCommand, EngineVersion, ScriptContext, ShardHandle};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::limits::{SCRIPT_INSTRUCTIONS_MAX, SCRIPT_MEMORY_BYTES_MAX};
use vocab::{Database, ShardId, Slot, SlotSpan};

/// Where the keys are that a script of a client of the cluster may touch, if that is more than one slot: all that its shard has, on a
/// node that is a store by itself.
pub(crate) fn span_of_scripts(store: &NodeShared, slot: Slot) -> Option<SlotSpan> {
    store.is_alone().then(|| store.known().run_of(slot)).flatten()
}

/// The second word of a request to the leader of the metadata group: scripts are to run.
pub(super) const ENGINE: &[u8] = b"ENGINE";
/// How long the map may take that says that they do.
const MAP_WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// The context of a script: its budgets are settings of the store. None while the store evaluates no scripts.
pub(super) fn context(store: &NodeShared, slot: Slot, database: Option<Database>) -> Option<ScriptContext> {
    let known = store.known();
    let map = known.map.as_ref()?;
    let number = |name: &str| {
        let setting = cluster::store_setting(name)?;
        cluster::setting_value(map, setting)?.parse::<u64>().ok()
    };
    Some(ScriptContext {
        engine: script_engine(map)?,
        slot: database.map_or(slot, Database::slot),
        wider: if database.is_none() { span_of_scripts(store, slot) } else { None },
        database,
        instructions_max: number("script-instructions-max").unwrap_or(SCRIPT_INSTRUCTIONS_MAX),
        memory_bytes_max: number("script-memory-max").unwrap_or(SCRIPT_MEMORY_BYTES_MAX),
        user: None,
    })
}

/// Waits until the store evaluates scripts, and this node knows. The error is the text of a reply.
pub(super) fn await_engine(store: &Arc<NodeShared>) -> Result<(), String> {
    let is_known = || store.known().map.as_ref().is_some_and(|map| script_engine(map).is_some());
    if is_known() {
        return Ok(());
    }
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
    for node in map.nodes.keys().filter(|node| **node != store.node()) {
        match store.entry_formats.spoken(*node) {
            Some(version) if version >= SCRIPTS_SINCE => {}
            Some(_) => {
                return Err(format!(
                    "ERR scripts and functions run once every node is of a release that has them: node {node} is older"
                ));
            }
            None => {
                return Err(format!(
                    "ERR scripts and functions run once every node is known to have them: node {node} cannot be asked; \
                     start it, or remove it from the store"
                ));
            }
        }
    }
    let version = EngineVersion::NEWEST.number().to_string();
    admin::admin(store, &["SETTINGS", "SET", ENGINE_SETTING, &version]).map(drop).map_err(|e| e.reply())
}

/// Asks the leader of the metadata group. The error is the text of a reply.
pub(super) fn at_meta(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<resp::Value, String> {
    if store.known().map.is_none() {
        return Err("CLUSTERDOWN this node belongs to no store yet".to_owned());
    }
    let frame = call_leader(store, ShardId::META, args)?;
    match resp::decode(&frame) {
        Ok(Some((resp::Value::Error(text), _))) => Err(text),
        Ok(Some((value, _))) => Ok(value),
        _ => Err("ERR the metadata group has answered what cannot be read".to_owned()),
    }
}

/// The replica of the metadata group here, if it leads.
pub(super) fn meta_leader(store: &NodeShared) -> Result<Arc<ShardHandle>, String> {
    let handle = store.known().handle(0).filter(|handle| handle.serving()).cloned();
    let handle = handle.filter(|handle| store.access().confirm_leader(handle, steady_us()));
    handle.ok_or_else(|| "CLUSTERDOWN this node does not lead the metadata group".to_owned())
}

/// Has the metadata group write programs.
pub(super) fn write_program(store: &Arc<NodeShared>, words: &[Vec<u8>]) -> Result<(), String> {
    let mut args = vec![PROGRAM];
    args.extend(words.iter().map(Vec::as_slice));
    ShardWriter::new(store.clone()).confirm_command(ShardId::META, EncodedCommand::new(&args))
}

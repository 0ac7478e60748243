//! Reads and writes the scripts and functions that the metadata group keeps.

use super::writer::ShardWriter;
use crate::os::steady_us;
use crate::peers::{call_leader, change_by_leader};
use crate::shared::NodeShared;
use node::command::PROGRAM;
use node::{EncodedCommand, EngineVersion, ScriptContext, ScriptDatabases, ShardHandle, slot_of_script};
use std::sync::Arc;
use vocab::{Namespace, ShardId, Slot, SlotSpan};

/// Where the keys are that a script may touch, if that is more than one slot: all that its shard has, on a node that is a store by itself, or
/// for a client of a database.
pub(crate) fn span_of_scripts(store: &NodeShared, slot: Slot) -> Option<SlotSpan> {
    let known = store.known();
    let is_wider = store.is_alone() || known.scripts.is_some_and(|rules| rules.engine >= EngineVersion::Third);
    is_wider.then(|| known.run_of(slot)).flatten()
}

/// The context of a script: its budgets are settings of the store. None while the store evaluates no scripts.
pub(super) fn context(store: &NodeShared, slot: Slot, namespace: Option<Namespace>) -> Option<ScriptContext> {
    let known = store.known();
    let rules = known.scripts?;
    if matches!(namespace, Some(Namespace::Cluster(_))) && !rules.has_databases {
        return None;
    }
    let of_namespace = namespace.and_then(Namespace::slot);
    let slot = of_namespace.unwrap_or(slot);
    // A node alone has all keys of a shard. A script of a database may choose those that are in its shard.
    let is_wider = match of_namespace {
        Some(_) => rules.engine >= EngineVersion::Third,
        None => store.is_alone(),
    };
    let databases = match namespace {
        _ if rules.engine < EngineVersion::Third => ScriptDatabases::default(),
        Some(Namespace::Database(_)) => {
            ScriptDatabases { count: store.config.databases(), exchanged: known.databases.exchanged().collect() }
        }
        _ => ScriptDatabases { count: store.config.cluster_databases(), exchanged: Vec::new() },
    };
    Some(ScriptContext {
        engine: rules.engine,
        slot,
        wider: if is_wider { known.run_of(slot) } else { None },
        namespace,
        chooses: namespace.is_some() || rules.has_databases,
        databases,
        instructions_max: rules.instructions_max,
        memory_bytes_max: rules.memory_bytes_max,
        user: None,
    })
}

/// By which rules scripts are evaluated.
pub(super) fn engine_now(store: &NodeShared) -> EngineVersion {
    store.known().scripts.map_or(EngineVersion::NEWEST, |rules| rules.engine)
}

/// The slot of a script, or of a function of a library, that declares no keys.
pub(super) fn probed_slot(store: &NodeShared, (text, function): (&[u8], Option<&str>), argv: &[&[u8]]) -> Slot {
    slot_of_script(engine_now(store), text, function, argv, store.now_ms()).unwrap_or(Slot(0))
}

/// Asks the leader of the metadata group. The error is the text of a reply.
pub(super) fn at_meta(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<resp::Value, String> {
    answer_of_meta(store, || call_leader(store, ShardId::META, args))
}

/// Has the leader of the metadata group change something. The error, the text of a reply, tells if that may have been made.
pub(super) fn change_at_meta(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<resp::Value, String> {
    answer_of_meta(store, || change_by_leader(store, ShardId::META, args))
}

fn answer_of_meta(store: &NodeShared, ask: impl FnOnce() -> Result<Vec<u8>, String>) -> Result<resp::Value, String> {
    if store.known().map.is_none() {
        return Err("CLUSTERDOWN this node belongs to no store yet".to_owned());
    }
    let frame = ask()?;
    match resp::decode(&frame) {
        Ok(Some((resp::Value::Error(text), _))) => Err(text),
        Ok(Some((value, _))) => Ok(value),
        _ => Err("ERR the metadata group has answered what cannot be read".to_owned()),
    }
}

/// The replica of the metadata group here, if it leads.
pub(super) fn meta_leader(store: &NodeShared) -> Result<Arc<ShardHandle>, String> {
    let handle = store.known().handle(ShardId::META).filter(|handle| handle.serving()).cloned();
    let handle = handle.filter(|handle| store.access().confirm_leader(handle, steady_us()));
    handle.ok_or_else(|| "CLUSTERDOWN this node does not lead the metadata group".to_owned())
}

/// Has the metadata group write programs.
pub(super) fn write_program(store: &Arc<NodeShared>, words: &[Vec<u8>]) -> Result<(), String> {
    let mut args = vec![PROGRAM];
    args.extend(words.iter().map(Vec::as_slice));
    ShardWriter::new(store.clone()).confirm_command(ShardId::META, EncodedCommand::new(&args))
}

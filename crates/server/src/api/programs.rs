//! What scripts and functions need of the metadata group, which keeps them.

use super::writer::ShardWriter;
use crate::os::steady_us;
use crate::peers::call_leader;
use crate::shared::NodeShared;
use node::command::PROGRAM;
use node::{EncodedCommand, ScriptContext, ShardHandle};
use std::sync::Arc;
use vocab::{Namespace, ShardId, Slot, SlotSpan};

/// Where the keys are that a script of a client of the cluster may touch, if that is more than one slot: all that its shard has, on a
/// node that is a store by itself.
pub(crate) fn span_of_scripts(store: &NodeShared, slot: Slot) -> Option<SlotSpan> {
    store.is_alone().then(|| store.known().run_of(slot)).flatten()
}

/// The context of a script: its budgets are settings of the store. None while the store evaluates no scripts.
pub(super) fn context(store: &NodeShared, slot: Slot, namespace: Option<Namespace>) -> Option<ScriptContext> {
    let known = store.known();
    let rules = known.scripts?;
    if matches!(namespace, Some(Namespace::Cluster(_))) && !rules.has_databases {
        return None;
    }
    let of_namespace = namespace.and_then(Namespace::slot);
    // A node alone has all keys of a shard.
    let is_wider = of_namespace.is_none() && store.is_alone();
    Some(ScriptContext {
        engine: rules.engine,
        slot: of_namespace.unwrap_or(slot),
        wider: if is_wider { known.run_of(slot) } else { None },
        namespace,
        chooses: namespace.is_some() || rules.has_databases,
        instructions_max: rules.instructions_max,
        memory_bytes_max: rules.memory_bytes_max,
        user: None,
    })
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

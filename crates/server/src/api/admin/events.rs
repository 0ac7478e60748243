//! The events of the store, for operators.

use super::changes::change;
use super::error::AdminError;
use crate::os::now_ms;
use crate::shared::NodeShared;
use cluster::Change;
use node::{ShardHandle, StoreEvent, events_after, newest_events};
use serde_json::{Value, json};
use std::sync::Arc;

/// The events after the event of that number, or the newest ones; the oldest first.
pub(super) fn list(handle: &ShardHandle, after: Option<u64>, limit: usize) -> Result<Value, AdminError> {
    let events = match after {
        Some(after) => events_after(handle, after, limit),
        None => newest_events(handle, limit),
    };
    let events = events.map_err(|e| AdminError::Failed(e.to_string()))?;
    let shown = |event: &StoreEvent| json!({"number": event.number, "at_ms": event.at_ms, "kind": event.kind, "text": event.text});
    Ok(json!({"events": events.iter().map(shown).collect::<Vec<_>>()}))
}

/// Has something remembered that was done from outside.
pub(super) fn note(store: &Arc<NodeShared>, handle: &ShardHandle, kind: &str, text: &str) -> Result<Value, AdminError> {
    let event = || Change::Event { at_ms: now_ms(), kind: kind.to_owned(), text: text.to_owned() };
    change(store, handle, |_| Ok((Some(event()), ())))?;
    Ok(json!({"noted": true}))
}

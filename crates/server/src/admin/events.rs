//! What has happened to the store.

use super::error::AdminError;
use node::{ShardView, StoreEvent, events_after, newest_events};
use serde_json::{Value, json};

/// Those after the event of that number, or the newest; the oldest first.
pub(super) fn list(view: &ShardView, after: Option<u64>, limit: usize) -> Result<Value, AdminError> {
    let events = match after {
        Some(after) => events_after(view, after, limit),
        None => newest_events(view, limit),
    };
    let events = events.map_err(|e| AdminError::Failed(e.to_string()))?;
    let shown = |event: &StoreEvent| json!({"number": event.number, "at_ms": event.at_ms, "kind": event.kind, "text": event.text});
    Ok(json!({"events": events.iter().map(shown).collect::<Vec<_>>()}))
}

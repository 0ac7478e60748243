//! How a store turns on a feature that nodes of an older release do not know.

use super::admin::{AdminError, admin};
use super::format_gate::FormatGate;
use crate::shared::NodeShared;
use std::sync::Arc;

/// Has the leader of the metadata group open a gate. The error is the text of a reply.
pub(super) fn open(store: &Arc<NodeShared>, gate: &FormatGate, value: &str) -> Result<(), String> {
    gate.refuse_beside_older(store)?;
    match admin(store, &["SETTINGS", "SET", gate.setting, value]) {
        Ok(_) => Ok(()),
        Err(AdminError::Refused(text)) => Err(format!("ERR {text}")),
        Err(error) => Err(error.reply()),
    }
}

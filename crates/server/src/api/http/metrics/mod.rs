//! Figures of this node in the text format of Prometheus; of the whole store too, where its director is.

mod commands;
mod node;
mod shards;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod text;

use crate::shared::NodeShared;
use std::sync::Arc;
use text::Exposition;

/// All figures, as of now.
pub(crate) fn exposition(store: &Arc<NodeShared>) -> String {
    let mut out = Exposition::default();
    node::write(store, &mut out);
    commands::write(store, &mut out);
    shards::write(store, &mut out);
    store::write(store, &mut out);
    out.finish()
}

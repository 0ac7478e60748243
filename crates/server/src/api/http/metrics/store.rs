//! Figures of the whole store, as its director sees them: one node of the store has these at a time.

use super::table as m;
use super::text::Exposition;
use crate::api::admin::director_status;
use crate::os::now_ms;
use crate::shared::NodeShared;
use node::control::director::StoreStatus;
use node::newest_event;
use std::sync::Arc;
use vocab::ShardId;

pub(super) fn write(store: &Arc<NodeShared>, out: &mut Exposition) {
    if let Some(status) = director_status(store).filter(|status| status.complete) {
        write_status(&status, out);
        write_backup_age(newest_backup_ms(store), now_ms(), out);
    }
}

/// When the newest backup ended that the store's events remember, in ms since the epoch.
fn newest_backup_ms(store: &Arc<NodeShared>) -> Option<u64> {
    let known = store.known();
    let handle = known.handle(ShardId::META)?;
    // Attempts that failed are events of the same kind.
    let taken = newest_event(handle, |event| event.kind == "backup" && event.text.contains(" was taken to "));
    taken.inspect_err(|e| log::warn!("the store's events: {e}")).ok().flatten().map(|event| event.at_ms)
}

pub(super) fn write_backup_age(ended_ms: Option<u64>, now_ms: u64, out: &mut Exposition) {
    if let Some(ended_ms) = ended_ms {
        out.one(&m::STORE_BACKUP_AGE, now_ms.saturating_sub(ended_ms) as f64 / 1000.0);
    }
}

pub(super) fn write_status(status: &StoreStatus, out: &mut Exposition) {
    out.begin(&m::STORE_NODES);
    for state in ["up", "silent", "lost"] {
        let count = status.nodes.iter().filter(|node| node.state == state).count();
        out.sample(&[("state", state)], count as f64);
    }
    out.begin(&m::STORE_SHARDS);
    for state in ["ok", "under-replicated", "no-leader", "no-majority"] {
        let count = status.shards.iter().filter(|shard| shard.state == state).count();
        out.sample(&[("state", state)], count as f64);
    }
    out.begin(&m::STORE_PLANS);
    for state in ["running", "paused", "done", "cancelled", "failed"] {
        let count = status.plans.iter().filter(|plan| plan.state == state).count();
        out.sample(&[("state", state)], count as f64);
    }
    out.one(&m::STORE_EPOCH, status.epoch as f64);
    out.one(&m::STORE_BYTES, status.shards.iter().map(|shard| shard.bytes as f64).sum());
    let running = status.plans.iter().filter(|plan| plan.state == "running");
    out.one(&m::STORE_LEFT, running.map(|plan| plan.bytes_left as f64).sum());
    let up = status.nodes.iter().filter(|node| node.state == "up");
    out.one(&m::STORE_BROKEN, up.map(|node| node.broken as f64).sum());
}

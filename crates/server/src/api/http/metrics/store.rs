//! Figures of the whole store, as its director sees them: one node of the store has these at a time.

use super::table as m;
use super::text::Exposition;
use crate::api::admin::director_picture;
use crate::shared::NodeShared;
use node::director::StorePicture;
use std::sync::Arc;

pub(super) fn write(store: &Arc<NodeShared>, out: &mut Exposition) {
    if let Some(picture) = director_picture(store).filter(|picture| picture.complete) {
        write_picture(&picture, out);
    }
}

pub(super) fn write_picture(picture: &StorePicture, out: &mut Exposition) {
    out.begin(&m::STORE_NODES);
    for state in ["up", "silent", "lost"] {
        let count = picture.nodes.iter().filter(|node| node.state == state).count();
        out.sample(&[("state", state)], count as f64);
    }
    out.begin(&m::STORE_SHARDS);
    for state in ["ok", "under-replicated", "no-leader", "no-majority"] {
        let count = picture.shards.iter().filter(|shard| shard.state == state).count();
        out.sample(&[("state", state)], count as f64);
    }
    out.begin(&m::STORE_PLANS);
    for state in ["running", "paused", "done", "cancelled", "failed"] {
        let count = picture.plans.iter().filter(|plan| plan.state == state).count();
        out.sample(&[("state", state)], count as f64);
    }
    out.one(&m::STORE_EPOCH, picture.epoch as f64);
    out.one(&m::STORE_BYTES, picture.shards.iter().map(|shard| shard.bytes as f64).sum());
    let running = picture.plans.iter().filter(|plan| plan.state == "running");
    out.one(&m::STORE_LEFT, running.map(|plan| plan.bytes_left as f64).sum());
    let up = picture.nodes.iter().filter(|node| node.state == "up");
    out.one(&m::STORE_BROKEN, up.map(|node| node.broken as f64).sum());
}

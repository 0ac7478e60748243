//! Figures of this node's replicas: of each replica, unless there are too many for a scraper.

use super::table as m;
use super::text::Exposition;
use crate::shared::NodeShared;
use crate::snapshots::Direction;
use node::ShardHandle;
use std::sync::Arc;

/// Replicas with series of their own.
const SHARDS_SHOWN_MAX: usize = 256;

pub(super) fn write(store: &Arc<NodeShared>, out: &mut Exposition) {
    let known = store.known();
    let handles: Vec<Arc<ShardHandle>> = known.handles().cloned().collect();
    let stats: Vec<_> = handles.iter().map(|handle| handle.engine().stats()).collect();
    out.one(&m::TREE_BYTES, stats.iter().map(|stats| stats.disk_bytes as f64).sum());
    out.one(&m::UNWANTED_BYTES, stats.iter().map(|stats| stats.unwanted_bytes as f64).sum());
    out.one(&m::DEBT, handles.iter().map(|handle| handle.engine().debt()).fold(0.0, f64::max));
    let leading = || handles.iter().filter(|handle| handle.serving());
    out.one(&m::KEYS, leading().map(|handle| handle.key_count() as f64).sum());
    out.begin(&m::REPLICAS);
    let leaders = leading().count();
    out.sample(&[("role", "leader")], leaders as f64);
    out.sample(&[("role", "follower")], (handles.len() - leaders) as f64);
    let unled = known.places().filter(|place| place.handle.is_some() && store.leader_at(place).is_none()).count();
    out.one(&m::REPLICAS_UNLED, unled as f64);
    transfers(store, out);
    let shown = handles.len().min(SHARDS_SHOWN_MAX);
    let each = |figure: &dyn Fn(usize) -> f64| -> Vec<(String, f64)> {
        (0..shown).map(|at| (handles[at].id().to_string(), figure(at))).collect()
    };
    let figures = [
        (&m::SHARD_KEYS, each(&|at| handles[at].key_count() as f64)),
        (&m::SHARD_BYTES, each(&|at| stats[at].disk_bytes as f64)),
        (&m::SHARD_APPLIED, each(&|at| handles[at].engine().applied_index() as f64)),
        (&m::SHARD_LEADS, each(&|at| f64::from(u8::from(handles[at].serving())))),
    ];
    for (metric, samples) in figures {
        out.begin(metric);
        samples.iter().for_each(|(shard, value)| out.sample(&[("shard", shard)], *value));
    }
    out.one(&m::SHARDS_LEFT_OUT, (handles.len() - shown) as f64);
}

fn transfers(store: &NodeShared, out: &mut Exposition) {
    let transfers = store.snapshots.get().map(|snapshots| snapshots.transfers()).unwrap_or_default();
    let of = |inbound: bool| {
        let transfers = transfers.iter().filter(move |of| (of.direction == Direction::In) == inbound);
        transfers.fold((0.0, 0.0), |(count, rate), of| (count + 1.0, rate + of.rate as f64))
    };
    let (inbound, outbound) = (of(true), of(false));
    out.begin(&m::TRANSFERS);
    out.sample(&[("direction", "in")], inbound.0);
    out.sample(&[("direction", "out")], outbound.0);
    out.begin(&m::TRANSFER_RATE);
    out.sample(&[("direction", "in")], inbound.1);
    out.sample(&[("direction", "out")], outbound.1);
}

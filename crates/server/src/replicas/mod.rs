//! This node's replicas: opening, forking, moving from node to node, and bringing them in line with the map.

mod closing;
mod leftovers;
mod open;
mod patience;
mod reconcile;
mod replica;
mod report;
mod skips;
mod split;
mod transfers;

pub(crate) use open::open_shards;
pub(crate) use reconcile::reconcile_thread;
pub(crate) use split::fork_behind;
pub(crate) use transfers::{receive_snapshot, send_snapshot, start_transfers, transfer_facts};

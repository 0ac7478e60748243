//! This node's replicas: opening, forking, and moving them from node to node.

mod open;
mod split;
mod transfers;

pub(crate) use open::{open_planned, open_shards};
pub(crate) use split::fork_behind;
pub(crate) use transfers::{receive_snapshot, send_snapshot, start_transfers, transfer_facts};

//! Other nodes, as this node calls them.

mod for_client;
mod rpc;

pub(crate) use for_client::{ask, ask_to_write, ask_transaction, call_for_client};
pub(crate) use rpc::{
    LEADER_WITHIN, call_each_leader, call_known_leaders, call_leader, call_node, change_by_leader,
    change_once_by_leader, serve_call,
};

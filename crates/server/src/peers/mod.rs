//! Other nodes, as this node calls them.

mod for_client;
mod rpc;

pub(crate) use for_client::{ask, ask_transaction, call_for_client};
pub(crate) use rpc::{
    LEADER_WITHIN, call_each_leader, call_leader, call_leaders, call_node, change_by_leader, change_once_by_leader,
    serve_call,
};

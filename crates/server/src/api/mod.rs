//! What operators and programs ask of a node, beside the commands of the data path: KV.ADMIN, HTTP, backups, and the
//! facts behind INFO and CLUSTER.

pub(crate) mod admin;
mod backup;
mod copy;
mod embedded;
pub(crate) mod http;
mod peer_command;
mod route;
mod scatter_gather;
mod session_host;

pub(crate) use admin::digest_marked;
pub use embedded::Caller;
pub(crate) use peer_command::run_peer_command;
pub(crate) use route::{KeyTarget, Routed, conclude_on, route};
pub(crate) use scatter_gather::{Asked, DIVIDED, SLOTS, ranges_text, run_on_store};
pub(crate) use session_host::{close_session, open_session};

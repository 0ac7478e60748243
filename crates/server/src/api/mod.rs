//! What operators and programs ask of a node, beside the commands of the data path: KV.ADMIN, HTTP, backups, and the
//! facts behind INFO and CLUSTER.

pub(crate) mod admin;
mod backup;
mod backup_shares;
mod cluster_databases;
mod copy;
mod databases;
mod embedded;
mod exchange;
mod format_gate;
mod functions;
mod handlers;
pub(crate) mod http;
mod long_list;
mod migrate;
mod opening;
mod peer_command;
mod programs;
mod route;
mod routed;
mod scatter_gather;
mod script_engine;
mod scripts;
mod session_host;
mod writer;

pub(crate) use admin::digest_marked;
pub(crate) use cluster_databases::begin_wanted;
pub use embedded::Caller;
pub(crate) use embedded::run_own_command;
pub(crate) use format_gate::engine_since;
pub(crate) use handlers::PoolCommand;
pub(crate) use peer_command::run_peer_command;
pub(crate) use programs::span_of_scripts;
pub(crate) use route::route;
pub(crate) use routed::{KeyTarget, MayWrite, Routed, ScriptRuns};
pub(crate) use scatter_gather::{DIVIDED, SLOTS, StoreRequest, begin_on_store, ranges_text, run_on_store};
pub(crate) use script_engine::renew_engine;
pub(crate) use scripts::{learn, resolved};
pub(crate) use session_host::{close_session, open_session};
pub(crate) use writer::ShardWriter;

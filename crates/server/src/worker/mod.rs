//! A worker: an event loop with some connections and some shards.

mod acceptor;
mod apply_thread;
mod blocked;
mod effects;
mod event_loop;
mod fenced_writes;
mod log_pipeline;
mod peers;
mod subscribers;
mod switch_master;
mod telling;
mod write_barriers;

pub(crate) use acceptor::Listener;
pub(crate) use event_loop::{Worker, WorkerSetup};
pub(crate) use peers::require_versions;

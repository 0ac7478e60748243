//! What all threads of a node share.

mod access;
mod applied_settings;
mod audit_log;
mod background_state;
mod backup_snapshots;
mod budget;
mod callers;
mod data_dir;
mod database_rates;
mod digests;
mod entry_formats;
mod forks;
mod free_space;
mod holdings;
mod key_misses;
mod known_functions;
mod masters;
mod node_shared;
mod peer_registry;
mod pending_calls;
mod pool;
mod routing_table;
mod shard_claims;
mod store_users;
mod verification;
mod worker_mailboxes;

pub(crate) use access::refusal_text;
pub(crate) use background_state::BACKGROUND_PAUSE;
#[cfg(test)]
pub(crate) use background_state::BackgroundState;
pub(crate) use backup_snapshots::{BackupKey, BackupPoint, BackupSnapshot, BackupSnapshots};
pub(crate) use callers::{AnswerBox, Answers};
pub use data_dir::{DataDir, Identity, read_map, read_map_changes};
pub(crate) use digests::Digest;
pub(crate) use free_space::FreeSpace;
pub(crate) use holdings::SET_ASIDE;
pub(crate) use key_misses::tell_misses;
pub(crate) use known_functions::{KnownFunctions, VERSION_SETTING};
pub(crate) use masters::{SWITCH_MASTER, host_and_port};
pub(crate) use node_shared::{NodeShared, SLOW_READ};
pub(crate) use pending_calls::PendingCall;
pub(crate) use pool::{Job, Pool};
pub(crate) use routing_table::RoutingSnapshot;
pub(crate) use store_users::read_file;
pub(crate) use verification::{Finding, Progress};
pub(crate) use worker_mailboxes::LINKS_WORKER;

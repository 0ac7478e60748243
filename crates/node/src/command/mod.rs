//! The commands over data: each handler reads and writes through a space (`crate::space`) and writes its reply.
//!
//! Handlers are deterministic: the same space, arguments and entry give the same writes on every replica.

mod args;
mod bits;
mod blocking;
mod call;
mod cluster_scan;
mod condition;
mod counted;
mod counters;
mod cursors;
mod database;
mod database_keys;
mod dump;
#[cfg(test)]
mod earlier_rules;
mod error;
mod expiry;
mod gathered;
mod geo;
pub(crate) mod hash;
mod hyperloglog;
mod idempotency;
mod increx;
mod internal;
mod keyspace;
mod kv;
mod lcs;
pub(crate) mod list;
mod long_list;
mod number;
mod object;
mod random_key;
mod ranges;
pub(crate) mod registry;
mod scan;
mod scripts;
mod set;
mod slot;
mod slot_stats;
mod sort;
mod sort_pattern;
mod steps;
pub(crate) mod stream;
mod string;
#[cfg(test)]
mod test_keys;
#[cfg(test)]
mod test_walk;
#[cfg(test)]
pub(crate) mod testspace;
#[cfg(test)]
pub(crate) mod transcript;
pub(crate) mod zset;

pub use crate::format::internal_commands::{PROGRAM, STAGE};
pub(crate) use blocking::{block_option, holds, timeout_of_ms, timeout_of_seconds};
pub(crate) use call::run_to_end;
pub use call::{
    Call, Error, Handler, Outcome, ReadCall, ReadHandler, ScriptCommand, ScriptName, ShardCall, StepHandler, StoreCall,
    StoreHandler, Walk, WriteCall, WriteHandler, conclude, conclude_on,
};
pub use cursors::ScanCursors;
pub use database_keys::walks_keys;
pub use hash::fuzz_packed;
pub(crate) use internal::entry_handler;
pub use internal::{CollectionCopy, SliceSource, SortedSetCopy, StagedAt, backup_page, peer_handler};
pub use keyspace::copy_options;
pub use long_list::{ListCopy, LongEdit};
pub(crate) use object::about_bytes;
pub(crate) use registry::{growth, known_answer, rewrites};
pub use registry::{handler, script_of};
pub use set::SetCopy;
pub(crate) use slot::slot_argument;
pub use sort::sorted_copy;
pub use steps::{PartLeft, Progress, ReplySteps, Rest, StoreRest, StoreSteps};
pub(crate) use stream::{ClaimLook, Claiming, claiming, is_end, stream_end};

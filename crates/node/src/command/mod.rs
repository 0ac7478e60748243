//! The commands over data: each handler reads and writes through a `Space` and writes its reply.
//!
//! Handlers are deterministic: the same space, arguments and entry give the same writes on every replica.

mod args;
mod call;
mod counters;
mod cursors;
mod dump;
mod expiry;
pub(crate) mod hash;
mod idempotency;
mod internal;
mod keyspace;
mod kv;
mod lcs;
mod number;
mod object;
mod random_key;
mod ranges;
pub(crate) mod registry;
mod scan;
mod string;
#[cfg(test)]
pub(crate) mod testspace;
#[cfg(test)]
mod transcript;

pub use call::{Call, Error, Handler, Outcome, StoreCall, StoreHandler};
pub use cursors::ScanCursors;
pub use hash::fuzz_packed;
pub(crate) use idempotency::kept_until_ms as requests_kept_until_ms;
pub(crate) use internal::{SHARD_PAGE, entry_handler};
pub use internal::{STAGE, backup_page, peer_handler};
pub use keyspace::copy_options;
pub use registry::{handler, store_handler};

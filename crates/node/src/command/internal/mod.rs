//! Commands that nodes ask of each other, and pages of backups: not in the command table.

mod backup_page;
mod collection_copy;
mod programs;
mod shard_page;
mod sorted_set_copy;
mod staging;

pub use backup_page::backup_page;
pub use collection_copy::{CollectionCopy, SliceSource, StagedAt};
pub use shard_page::peer_handler;
pub use sorted_set_copy::SortedSetCopy;
pub(crate) use staging::entry_handler;

//! Commands that nodes ask of each other, and pages of backups: not in the command table.

mod backup_page;
mod shard_page;
mod staging;

pub use backup_page::backup_page;
pub use shard_page::peer_handler;
pub(crate) use staging::entry_handler;

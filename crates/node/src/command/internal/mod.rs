//! Commands that nodes ask of each other, and pages of backups: not in the command table.

mod backup_page;
mod shard_page;

pub use backup_page::backup_page;
pub(crate) use shard_page::NAME as SHARD_PAGE;
pub use shard_page::peer_handler;

//! The whole store as of one moment, read row by row while it serves: what backups and exports are made of.
//!
//! The moment lies between the call of [`StoreMoment::begin`] and its answer. If a client wrote A, was answered, and then wrote
//! B, no shard shows B where another lacks A (docs/adr/0012).

mod node;
mod pages;
mod row;

pub(crate) use node::{connect, note, number_of_setting, said, text_of_setting};
pub(crate) use pages::{NodePages, ShardMoment, StoreMoment};
pub(crate) use row::{BackupRow, ExpiringField, Item, RowValue, score_of};

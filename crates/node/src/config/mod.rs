//! The settings of a node: one table of what they are, and their values, shared by all threads.
//!
//! A setting that is read for every request is an atomic. All settings of one CONFIG SET change together, or none does.

mod command_log;
mod eviction;
mod output_limit;
mod parse;
mod setting;
mod small_collections;
mod table;
mod values;

pub use command_log::CommandLogKind;
pub use eviction::{Among, By, EvictionPolicy};
pub use output_limit::{ClientClass, OutputLimit};
pub use setting::{Kind, Setting, SettingFiles};
pub use small_collections::SmallCollections;
pub use table::SETTINGS;
pub use values::{Config, RewriteError, SetError, is_known, is_secret};
pub use vocab::memory_bytes;

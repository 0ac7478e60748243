//! The settings of a node: one table of what they are, and their values, shared by all threads.
//!
//! What is read for every request is read from an atomic; what is set together by one CONFIG SET is set as one.

mod parse;
mod setting;
mod small_hash;
mod table;
mod values;

pub use setting::{Kind, Setting};
pub use small_hash::SmallHash;
pub use table::SETTINGS;
pub use values::{Config, SetError, is_secret};
pub use vocab::memory_bytes;

//! Reads that wait for the disk: requests that missed memory, and rows that writes will find.

mod deferred;
mod deferred_get;
mod outcome;
mod prefetch;
mod reader_thread;
mod schedule;
#[cfg(test)]
mod tests;
mod uring_reader;

pub(crate) use deferred::Cold;
pub(crate) use deferred_get::{ColdRead, begin_patiently};
pub(crate) use prefetch::{Applying, ColdRows, warm_entries};
pub(crate) use schedule::DiskReads;

//! Reads that wait for the disk: requests that missed memory, and rows that writes will find.

mod deferred;
mod deferred_get;
mod long_reply;
mod outcome;
mod prefetch;
mod reader_thread;
mod schedule;
#[cfg(test)]
mod tests;
mod uring_reader;

pub(crate) use deferred::{DeferredRead, read_in_pool};
pub(crate) use deferred_get::{DeferredGet, begin_patiently};
pub(crate) use long_reply::{make_next_part, next_part};
pub(crate) use prefetch::{Applying, Prefetch, rows_of_entries};
pub(crate) use schedule::DiskReads;

//! Reads that wait for the disk: requests that missed memory, and rows that writes will find.

mod deferred;
mod prefetch;
mod reader_thread;
mod schedule;
mod uring_reader;

pub(crate) use deferred::{Cold, Outcome};
pub(crate) use prefetch::{Applying, ColdRows, warm_entries};
pub(crate) use schedule::DiskReads;

//! Threads that fsync the log.

mod log_threads;

pub(crate) use log_threads::LogThreads;

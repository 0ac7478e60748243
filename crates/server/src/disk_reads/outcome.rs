//! The outcome of an attempt at a deferred read that does not wait.

use crate::mailbox::WorkerMessage;
use crate::shared::Job;
use storage::BlockRead;

/// The outcome of an attempt; `T` is the read.
pub(crate) enum Outcome<T> {
    /// It is done, and its worker is to be told this, if anything.
    Over(Option<WorkerMessage>),
    /// It needs this block first.
    Lacks(T, BlockRead),
    /// A thread that may wait for the disk has to do it.
    WouldWait(T),
    /// A thread has to do the rest: which rows it needs is only known by doing it.
    Rest(Job),
    /// It waits for something other than the disk.
    Patient(Job),
}

impl<T> Outcome<T> {
    /// This outcome with its read wrapped.
    pub(super) fn map<U>(self, wrap: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Over(message) => Outcome::Over(message),
            Self::Lacks(read, block) => Outcome::Lacks(wrap(read), block),
            Self::WouldWait(read) => Outcome::WouldWait(wrap(read)),
            Self::Rest(job) => Outcome::Rest(job),
            Self::Patient(job) => Outcome::Patient(job),
        }
    }
}

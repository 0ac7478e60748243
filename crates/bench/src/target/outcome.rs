//! How an operation ended.

use std::time::Instant;

/// Why an operation did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A record that must exist was not there.
    NotFound,
    /// What was read is not what was written.
    Wrong,
    /// The store refused, or did not answer.
    Error(StoreError),
}

/// An error of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// What it is counted under: the first word of the error reply, or why there was none.
    pub kind: Box<str>,
    /// The reply; empty where there was none.
    pub text: Box<str>,
}

impl Fault {
    /// An error of this kind, without a reply.
    #[must_use]
    pub fn error(kind: &str) -> Self {
        Self::Error(StoreError { kind: kind.into(), text: Box::default() })
    }

    /// All words that [`Fault::code`] has.
    pub const CODES: [&'static str; 3] = ["NOT_FOUND", "UNEXPECTED_STATE", "ERROR"];

    /// YCSB's word for it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "NOT_FOUND",
            Self::Wrong => "UNEXPECTED_STATE",
            Self::Error(_) => "ERROR",
        }
    }
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpOutcome {
    /// Well, or why not.
    pub result: Result<(), Fault>,
    /// Whether what was read has been checked.
    pub verified: bool,
    /// A replica that is behind did not have the record; the leader did.
    pub stale: bool,
    /// Attempts beyond the first, lost races excluded.
    pub retries: u32,
    /// Compare-and-set attempts that lost a race.
    pub conflicts: u32,
    /// It was a write that may have been done: its record may be as before or after.
    pub unknown: bool,
}

/// Which part of an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpStage {
    /// All of it.
    Whole {
        /// Its parts have been told, each with its own faults.
        has_parts: bool,
    },
    /// The read of a read-modify-write; more will come.
    Read,
    /// The write of a read-modify-write; the whole comes next.
    Write,
}

/// An operation, or a part of one, has ended.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The lane it was started on.
    pub lane: u32,
    /// When its answer was read.
    pub at: Instant,
    /// Which part.
    pub part: OpStage,
    /// How.
    pub outcome: OpOutcome,
}

//! What an export has done, and what went wrong.

use crate::problems::Problems;
use serde::Serialize;

/// What an export has done.
#[derive(Debug, Default, Serialize)]
pub(super) struct Outcome {
    /// The moment that it shows, in ms since the epoch.
    pub(super) at_ms: u64,
    /// Keys that were written.
    pub(super) keys: u64,
    /// Bytes that were written.
    pub(super) bytes: u64,
    /// Libraries of functions that were written.
    pub(super) libraries: u64,
    pub(super) seconds: f64,
    /// Things that are not in the file as they are in the store.
    #[serde(flatten)]
    pub(super) problems: Problems,
}

impl Outcome {
    /// The result for people.
    pub(super) fn text(&self) -> String {
        let size = indicatif::HumanBytes(self.bytes);
        let at = bench::report::rfc3339(self.at_ms);
        format!("{} keys as of {at}, {size}, in {:.1} s\n{}", self.keys, self.seconds, self.problems)
    }
}

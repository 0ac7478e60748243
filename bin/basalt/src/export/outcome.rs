//! What an export has done, and what went wrong.

use serde::Serialize;

/// Problems that are told one by one.
const TOLD_MAX: usize = 20;

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
    pub(super) problems: u64,
    /// The first of them.
    pub(super) first_problems: Vec<String>,
}

impl Outcome {
    /// Notes that something is not as it should be.
    pub(super) fn problem(&mut self, text: String) {
        self.problems += 1;
        if self.first_problems.len() < TOLD_MAX {
            self.first_problems.push(text);
        }
    }

    /// The result for people.
    pub(super) fn text(&self) -> String {
        let size = indicatif::HumanBytes(self.bytes);
        let at = bench::report::rfc3339(self.at_ms);
        let mut text = format!("{} keys as of {at}, {size}, in {:.1} s\n", self.keys, self.seconds);
        for problem in &self.first_problems {
            text.push_str(&format!("problem: {problem}\n"));
        }
        let untold = self.problems - self.first_problems.len() as u64;
        if untold > 0 {
            text.push_str(&format!("and {untold} more problems\n"));
        }
        text
    }
}

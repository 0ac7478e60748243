//! Remembers what was logged about each node, so that failed calls do not repeat it.

use super::refusal::RefusalKind;
use std::collections::HashSet;

/// Complaints that are remembered.
const COMPLAINTS_MAX: usize = 1024;

/// What is wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Complaint {
    /// The address does not answer.
    Silence,
    /// What comes makes no sense.
    Garbage,
    /// One of the two refuses.
    Refusal(RefusalKind),
}

#[derive(Default)]
pub(super) struct Complaints(HashSet<(String, Complaint)>);

impl Complaints {
    /// Whether this is to be logged.
    pub(super) fn is_new(&mut self, about: &str, complaint: Complaint) -> bool {
        if self.0.len() >= COMPLAINTS_MAX {
            self.0.clear();
        }
        self.0.insert((about.to_owned(), complaint))
    }

    /// The node has proven who it is: the next complaint is logged again.
    pub(super) fn settle(&mut self, about: &str) {
        self.0.retain(|(who, _)| who != about);
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = Complaint> + '_ {
        self.0.iter().map(|(_, complaint)| *complaint)
    }
}

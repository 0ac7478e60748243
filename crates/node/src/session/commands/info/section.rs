//! What a section of INFO is made from, and its lines.

use crate::session::{ClusterFacts, Host, Keyspace, MemoryFigures, NodeFacts, ShardFacts};
use std::fmt::Display;

/// What the sections are made from, looked up once for all of them.
pub(super) struct Facts<'a> {
    pub(super) host: &'a dyn Host,
    /// Of the client that asks.
    pub(super) keyspace: Keyspace,
    pub(super) node: NodeFacts,
    pub(super) shards: Vec<ShardFacts>,
    pub(super) cluster: ClusterFacts,
    pub(super) memory: MemoryFigures,
}

impl Facts<'_> {
    /// Whether the client that asks sees a Redis without cluster mode.
    pub(super) fn is_standalone(&self) -> bool {
        self.keyspace.database().is_some()
    }
}

/// The lines of one section.
pub(super) struct Lines(String);

impl Lines {
    /// A section without lines.
    pub(super) fn new(section: &str) -> Self {
        Self(format!("# {section}\r\n"))
    }

    /// Its text.
    pub(super) fn into_text(self) -> String {
        self.0
    }

    pub(super) fn add(&mut self, name: &str, value: impl Display) {
        self.0 += &format!("{name}:{value}\r\n");
    }

    pub(super) fn add_known(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

/// A number of bytes as people read it, in the form of Redis: `1.50M`.
#[must_use]
pub(super) fn human(bytes: u64) -> String {
    let units = [(1u64 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, letter)) => format!("{:.2}{letter}", bytes as f64 / unit as f64),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn human_sizes() {
        for (bytes, text) in [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1_572_864, "1.50M"), (5 << 40, "5.00T")] {
            assert_eq!(human(bytes), text);
        }
    }
}

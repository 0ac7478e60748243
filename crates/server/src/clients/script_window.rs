//! How many scripts that may write one connection has under way.
//!
//! Entries are applied in their order, so a client that had hundreds of scripts under way would hold up the writes of all others for as
//! long. It begins with one, and has twice as many with each that is answered, as long as its shard applies its entries quickly.

use node::ShardHandle;
use vocab::ShardId;
use vocab::limits::{CONNECTION_SCRIPTS_MAX, OUTPUT_BUFFER_BYTES_SOFT};

pub(super) struct ScriptWindow {
    scripts: usize,
    /// The shard of the last one, and how many entries had taken it long by then.
    seen: (ShardId, u64),
}

impl Default for ScriptWindow {
    fn default() -> Self {
        Self { scripts: 1, seen: (ShardId(0), 0) }
    }
}

impl ScriptWindow {
    /// What one counts for among the answers that are under way for its connection, in bytes.
    pub(super) fn bytes_of_one(&self) -> usize {
        OUTPUT_BUFFER_BYTES_SOFT / self.scripts
    }

    /// One was answered that ran on that shard.
    pub(super) fn answered(&mut self, handle: &ShardHandle) {
        self.note(handle.id(), handle.slow_entries());
    }

    fn note(&mut self, shard: ShardId, slow_entries: u64) {
        let is_slow = self.seen.0 == shard && self.seen.1 != slow_entries;
        self.seen = (shard, slow_entries);
        self.scripts = if is_slow { 1 } else { (2 * self.scripts).min(CONNECTION_SCRIPTS_MAX) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_while_entries_are_quick() {
        let mut window = ScriptWindow::default();
        let mut after = |shard, slow_entries| {
            window.note(ShardId(shard), slow_entries);
            OUTPUT_BUFFER_BYTES_SOFT / window.bytes_of_one()
        };
        assert_eq!([1; 6].map(|shard| after(shard, 7)), [2, 4, 8, 16, 16, 16]);
        assert_eq!([after(1, 8), after(1, 9), after(1, 9), after(1, 9)], [1, 1, 2, 4]);
        assert_eq!([after(2, 50), after(1, 9)], [8, 16], "another shard's are not compared");
    }
}

//! How many scripts that may write one connection has under way.
//!
//! Entries are applied in their order, so a client that had hundreds of scripts under way would hold up the writes of all others for as
//! long. It begins with one, and has twice as many with each that is answered, as long as its shard applies its entries quickly.

use node::ShardHandle;
use vocab::ShardId;
use vocab::limits::{CONNECTION_SCRIPTS_MAX, OUTPUT_BUFFER_BYTES_SOFT};

pub(super) struct ScriptWindow {
    scripts: usize,
    /// The shard of the last one, and how long slow entries had taken it by then.
    seen: (ShardId, u64),
}

impl Default for ScriptWindow {
    fn default() -> Self {
        Self { scripts: 1, seen: (ShardId(0), 0) }
    }
}

impl ScriptWindow {
    /// What so many count for among the answers that are under way for their connection, in bytes.
    pub(super) fn bytes_of(&self, scripts: usize) -> usize {
        scripts.saturating_mul(OUTPUT_BUFFER_BYTES_SOFT / self.scripts)
    }

    /// One was answered that ran on that shard.
    pub(super) fn answered(&mut self, handle: &ShardHandle) {
        self.note(handle.id(), handle.slow_us());
    }

    fn note(&mut self, shard: ShardId, slow_us: u64) {
        let is_slow = self.seen.0 == shard && self.seen.1 != slow_us;
        self.seen = (shard, slow_us);
        self.scripts = if is_slow { 1 } else { (2 * self.scripts).min(CONNECTION_SCRIPTS_MAX) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_while_entries_are_quick() {
        let mut window = ScriptWindow::default();
        let mut after = |shard, slow_us| {
            window.note(ShardId(shard), slow_us);
            OUTPUT_BUFFER_BYTES_SOFT / window.bytes_of(1)
        };
        assert_eq!([1; 6].map(|shard| after(shard, 7)), [2, 4, 8, 16, 16, 16]);
        assert_eq!([after(1, 8), after(1, 9), after(1, 9), after(1, 9)], [1, 1, 2, 4]);
        assert_eq!([after(2, 50), after(1, 9)], [8, 16], "another shard's are not compared");
    }
}

//! What applying will look at in memory, so that it is fetched for all shards side by side (docs/adr/0018).

use super::Shard;
use crate::entry::first_arguments;
use crate::keys;
use replica::has_commands;
use storage::{Lines, Step};

impl Shard {
    /// Notes what applying will look at, for one step and at most so many keys; answers how many there were. `tree_key` is
    /// used again.
    pub fn note(&self, keys_max: usize, tree_key: &mut Vec<u8>, step: Step, lines: &mut Lines) -> usize {
        if self.warming.is_awaited() {
            return 0;
        }
        let (view, shard) = (&self.view, self.view.id().0);
        let entries = self.collected.iter().flat_map(|turn| &turn.committed).filter(|entry| has_commands(entry));
        let keys = entries.flat_map(|entry| first_arguments(&entry.data)).take(keys_max);
        let note = |key: &[u8]| {
            view.cache().note(shard, key, step, lines);
            keys::record_into(tree_key, key);
            view.engine().note(tree_key, step, lines);
        };
        keys.map(note).count()
    }
}

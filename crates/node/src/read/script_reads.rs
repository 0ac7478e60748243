//! What scripts read that write nothing, for a client that is to be told of changes: one by itself, or those of a transaction.
//!
//! Where a script reads at all, its client is told of the keys that it declares too: Redis 7.0 tells of these alone, and later ones of what
//! it reads.

use crate::shard_handle::ShardHandle;
use crate::space::read::SnapshotSpace;
use crate::tracking::{KeysRead, Tracker};
use crate::{EncodedCommand, ReadSpace};

/// How often scripts run, at most, until all that they read was registered before.
const RUNS_MAX: usize = 4;

/// The keys that a request with scripts reads, for which its client is registered.
///
/// Which they are is known when it has run. Then its client is registered for them, and the answer counts if nothing was applied
/// meanwhile; otherwise it runs again, and the answer counts if it has read no other keys.
pub struct ScriptReads {
    /// None: its client is not told of changes.
    tracker: Option<Tracker>,
    registered: KeysRead,
    runs: usize,
    /// Some of the keys are not registered.
    are_lost: bool,
}

impl ScriptReads {
    /// Those of a request that begins.
    #[must_use]
    pub fn of(tracker: Option<Tracker>, handle: &ShardHandle) -> Self {
        let tracker = tracker.filter(|_| handle.tracked().is_some());
        Self { tracker, registered: KeysRead::default(), runs: 0, are_lost: false }
    }

    /// The space on which it runs next.
    #[must_use]
    pub fn noted_by<'a>(&self, space: SnapshotSpace<'a>) -> SnapshotSpace<'a> {
        if self.tracker.is_some() { space.noting_reads() } else { space }
    }

    /// Registers what the request has read on a space; whether its answer counts. Otherwise it is to run again. A `script` by itself declares
    /// keys: those of a transaction are registered before it runs.
    pub fn count(
        &mut self,
        handle: &ShardHandle,
        space: &mut SnapshotSpace<'_>,
        script: Option<&EncodedCommand>,
    ) -> bool {
        let (Some(tracker), Some(keys)) = (self.tracker, handle.tracked()) else { return true };
        let Some(reads) = space.take_reads() else { return true };
        self.runs += 1;
        if reads.are_among(&self.registered) {
            return true;
        }
        if let (1, Some(script)) = (self.runs, script) {
            let args = script.args();
            let declared = script.spec().and_then(|spec| spec.keys(&args).ok());
            keys.add(declared.into_iter().flatten().map(|at| args[at]), tracker);
        }
        keys.add(reads.iter(), tracker);
        let is_current = !reads.are_too_many() && handle.engine().applied_index() == space.version();
        self.are_lost = reads.are_too_many() || (!is_current && self.runs == RUNS_MAX);
        self.registered = reads;
        is_current || self.are_lost
    }

    /// The answer is on its way: if it is made of keys that may have changed unseen, its client is to forget all.
    pub fn end(self, handle: &ShardHandle) {
        if let (Some(tracker), Some(keys), true) = (self.tracker, handle.tracked(), self.are_lost) {
            keys.lose_clients([tracker.client]);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::subscriber::Subscriber;
    use crate::test_shard::{empty_shard, entry};
    use crate::tracking::Tracking;
    use std::sync::Arc;
    use tempfile::TempDir;
    use vocab::ShardId;

    /// A tracked client's script on a shard of its own.
    struct Fixture {
        handle: Arc<ShardHandle>,
        tracking: Arc<Tracking>,
        reads: ScriptReads,
        _folder: TempDir,
    }

    const CLIENT: Subscriber = Subscriber { worker: 0, connection: 7, generation: 1 };

    impl Fixture {
        fn new() -> Self {
            let (handle, folder) = empty_shard(ShardId(3));
            let tracking = Arc::new(Tracking::default());
            handle.set_tracking(tracking.clone());
            let reads = ScriptReads::of(Some(Tracker { client: CLIENT, no_loop: false }), &handle);
            Self { handle, tracking, reads, _folder: folder }
        }

        /// Whether the answer of a run counts that reads these keys; an entry may be applied meanwhile.
        fn run(&mut self, keys: &[&str], is_applied: bool) -> bool {
            let mut space = self.reads.noted_by(SnapshotSpace::new(&self.handle, 1, 1));
            assert!(space.notes_reads());
            keys.iter().for_each(|key| space.note_read(key.as_bytes()));
            if is_applied {
                entry(&self.handle, 1, |_| ());
            }
            let script = EncodedCommand::new(&[b"EVAL", b"return 1", b"1", b"declared", b""]);
            self.reads.count(&self.handle, &mut space, Some(&script))
        }

        /// How many keys are registered, and whether the client is to forget all.
        fn end(self) -> (usize, bool) {
            self.reads.end(&self.handle);
            let lost = self.tracking.take_lost(9);
            (self.tracking.keys(), lost.is_some_and(|lost| lost.clients == [CLIENT]))
        }
    }

    #[test]
    fn a_client_is_registered_for_what_its_script_has_read_before_the_answer_counts() {
        // What each run reads, and what is applied meanwhile (with !); then the keys that are registered, with the one that is declared.
        for (runs, keys) in [
            (&["a b"][..], 3),
            (&["a b !", "a"], 3),
            (&["a !", "a !"], 2),
            (&["a !", "b"], 3),
            (&["a !", "b !", "b !"], 3),
            (&[""], 0),
        ] {
            let mut fixture = Fixture::new();
            for (at, run) in runs.iter().enumerate() {
                let words: Vec<&str> = run.split_whitespace().filter(|word| *word != "!").collect();
                assert_eq!(fixture.run(&words, run.ends_with('!')), at + 1 == runs.len(), "{runs:?}");
            }
            assert_eq!(fixture.end(), (keys, false), "{runs:?}");
        }
    }

    #[test]
    fn who_reads_other_keys_each_time_is_to_forget_all() {
        let mut fixture = Fixture::new();
        let counts: Vec<bool> = ["a", "b", "c", "d"].iter().map(|key| fixture.run(&[key], true)).collect();
        assert_eq!(counts, [false, false, false, true]);
        assert_eq!(fixture.end(), (5, true));
    }
}

//! What a replica keeps of its log for others.

use crate::progress::needed_by;
use crate::raft_storage::RaftStorage;
use crate::ready::FollowerState;
use raft::Raft;
use std::collections::{BTreeMap, VecDeque};
use vocab::{ReplicaId, limits};

/// Of the bytes that are kept, the part that lies between two marks.
const MARK_PART: u64 = 16;

/// How many bytes of entries there are since which index, coarsely; counted from when the replica was opened.
#[derive(Default)]
struct LogMarks {
    marks: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl LogMarks {
    /// Entries up to `index` take so many bytes more.
    pub(crate) fn note(&mut self, index: u64, bytes: u64, keep_bytes: u64) {
        self.bytes += bytes;
        if self.marks.back().is_none_or(|(_, at)| self.bytes - at >= keep_bytes / MARK_PART) {
            self.marks.push_back((index, self.bytes));
        }
    }

    /// The first entry such that no more than `bytes_max` follow it.
    pub(crate) fn newest(&self, bytes_max: u64) -> u64 {
        let beyond = |(_, at): &&(u64, u64)| self.bytes - at > bytes_max;
        self.marks.iter().take_while(beyond).last().map_or(0, |(index, _)| *index)
    }

    /// Entries up to `index` are gone from the log.
    pub(crate) fn forget(&mut self, index: u64) {
        // The last mark below stays: the bytes after it are counted from there.
        while self.marks.get(1).is_some_and(|(next, _)| *next <= index) {
            self.marks.pop_front();
        }
    }
}

/// Bytes of log that are kept at most for a follower that was sent the rows.
const FED_LOG_BYTES_MAX: u64 = 1 << 30;
/// Of such a log an entry takes so many bytes at least, for what is kept of each in memory.
const FED_ENTRY_BYTES_MIN: u64 = 2048;

/// The followers that were sent the rows of the shard, as of which entry. While these are on their way the log grows; if what comes after
/// them were dropped then, they would be sent again, and again.
#[derive(Default)]
pub(crate) struct Fed(BTreeMap<u64, u64>);

impl Fed {
    /// A follower is sent the rows as of an entry. Those that were sent before, and not taken back, may arrive as well.
    pub(crate) fn begin(&mut self, follower: ReplicaId, index: u64) {
        self.0.entry(follower.0).or_insert(index);
    }

    /// They do not arrive, or the follower is not heard of.
    pub(crate) fn end(&mut self, follower: ReplicaId) {
        self.0.remove(&follower.0);
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first entry that one of them lacks. `kept_from`: since where the log is kept for any follower; who lacks nothing before is none of
    /// them any more.
    pub(crate) fn needed_from(&mut self, followers: &[FollowerState], kept_from: u64) -> Option<u64> {
        let matched = |id: u64| followers.iter().find(|follower| follower.id.0 == id).map(|follower| follower.matched);
        self.0.retain(|id, index| matched(*id).is_some_and(|matched| matched < *index || matched + 1 < kept_from));
        self.0.iter().filter_map(|(id, index)| Some(matched(*id)?.max(*index) + 1)).min()
    }
}

/// How much of a log is kept for those: as much as it would cost to send the rows once more, in bytes and entries.
fn kept_for_fed(rows_bytes: u64, keep_bytes: u64) -> (u64, u64) {
    let bytes = rows_bytes.min(FED_LOG_BYTES_MAX).max(keep_bytes);
    (bytes, (bytes / FED_ENTRY_BYTES_MIN).max(limits::LOG_KEEP_ENTRIES))
}

/// How much of the log is kept.
pub(crate) struct KeptLog {
    marks: LogMarks,
    /// Bytes of it for any follower that lacks them.
    bytes: u64,
    /// The followers that were sent the rows.
    pub(crate) fed: Fed,
}

impl Default for KeptLog {
    fn default() -> Self {
        Self { marks: LogMarks::default(), bytes: limits::LOG_KEEP_BYTES, fed: Fed::default() }
    }
}

impl KeptLog {
    /// So many bytes for any follower that lacks them.
    pub(crate) fn keep(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Entries up to `index` take so many bytes more.
    pub(crate) fn note(&mut self, index: u64, bytes: u64) {
        self.marks.note(index, bytes, self.bytes);
    }

    /// Entries up to `index` are gone.
    pub(crate) fn forget(&mut self, index: u64) {
        self.marks.forget(index);
    }

    /// The log begins again behind a snapshot.
    pub(crate) fn restart(&mut self) {
        self.marks = LogMarks::default();
    }

    /// The first entry that one of the followers may lack and is to get from the log. `rows_bytes`: what the tree takes, if it was sent.
    pub(crate) fn needed_from(
        &mut self,
        raft: &Raft<RaftStorage>,
        followers: &[FollowerState],
        rows_bytes: u64,
    ) -> u64 {
        // The next leader needs the entries that others lack: everyone keeps a little.
        let lacking = followers.iter().map(|of| needed_by(raft, of)).min().unwrap_or(u64::MAX);
        let slack = self.marks.newest(self.bytes / 8) + 1;
        let last = raft.raft_log.last_index();
        let floor = |bytes, entries| self.marks.newest(bytes).max(last.saturating_sub(entries)) + 1;
        let needed = lacking.min(slack).max(floor(self.bytes, limits::LOG_KEEP_ENTRIES));
        let (bytes, entries) = kept_for_fed(rows_bytes, self.bytes);
        let far = floor(bytes, entries);
        if raft.state != raft::StateRole::Leader {
            self.fed = Fed::default();
        }
        let fed = self.fed.needed_from(followers, needed);
        fed.map_or(needed, |fed| needed.min(fed.max(far)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_rows_that_were_sent_is_kept_until_it_is_caught_up_with() {
        let follower =
            |matched| FollowerState { id: ReplicaId(2), learner: true, matched, active: true, snapshot: false };
        let mut fed = Fed::default();
        fed.begin(ReplicaId(2), 100);
        // How far it is, since where the log is kept for any follower, and what is kept for this one.
        for (matched, kept_from, expected) in [
            (0, 101, Some(101)),
            (0, 5_000, Some(101)),
            (100, 5_000, Some(101)),
            (4_000, 9_000, Some(4_001)),
            (8_999, 9_000, None),
            (8_999, 20_000, None),
        ] {
            assert_eq!(fed.needed_from(&[follower(matched)], kept_from), expected, "{matched} {kept_from}");
        }
        fed.begin(ReplicaId(2), 100);
        assert_eq!(fed.needed_from(&[], 5_000), None, "it is no member any more");
        fed.begin(ReplicaId(2), 100);
        fed.end(ReplicaId(2));
        assert!(fed.is_empty());
        assert_eq!(kept_for_fed(1 << 40, 64 << 20), (FED_LOG_BYTES_MAX, FED_LOG_BYTES_MAX / FED_ENTRY_BYTES_MIN));
        assert_eq!(kept_for_fed(0, 64 << 20), (64 << 20, limits::LOG_KEEP_ENTRIES));
    }
}

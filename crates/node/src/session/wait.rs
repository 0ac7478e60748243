//! WAIT and WAITAOF: how many replicas hold what a connection has written.

use crate::entry_id::EntryId;
use resp::table::CommandSpec;
use resp::{Reply, parse_integer};
use vocab::ShardId;
use vocab::limits::WAIT_SHARDS_MAX;

/// Instead of an index: it is not known here in which entry the last write is. No follower holds that many.
const NOT_KNOWN: u64 = u64::MAX;

/// How far a connection has written: by shard, the highest index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// In order of the shards' ids. `NOT_KNOWN` stays until `look_up`, for no later write here says where an earlier one elsewhere is.
    shards: Vec<(ShardId, u64)>,
    /// Of a shard of which a write was answered before it was committed: the entry of the last one. In order of the shards' ids.
    early: Vec<EntryId>,
    /// There is more than is remembered.
    beyond: bool,
    /// The shards are not those that were written to, but all that this node led at a moment.
    is_of_led: bool,
}

impl Written {
    /// A write has been answered that is, at the latest, in the entry `index` of `shard`.
    pub(super) fn note(&mut self, shard: ShardId, index: u64) {
        match self.shards.binary_search_by_key(&shard, |(shard, _)| *shard) {
            Ok(at) => self.shards[at].1 = self.shards[at].1.max(index),
            Err(at) if self.shards.len() < WAIT_SHARDS_MAX => self.shards.insert(at, (shard, index)),
            Err(_) => self.beyond = true,
        }
    }

    /// A write to that shard has been answered by another node, or by this one, which leads it no longer: this node does not know in which
    /// entry it is.
    pub(super) fn note_elsewhere(&mut self, shard: ShardId) {
        self.note(shard, NOT_KNOWN);
    }

    /// A write has been answered that may be in any shard, of which this node does not lead all.
    pub(super) fn note_anywhere(&mut self) {
        self.beyond = true;
    }

    /// Whether something may have been written to that shard, for all that is remembered.
    pub(super) fn may_be_in(&self, shard: ShardId) -> bool {
        self.beyond || self.counted_shards().any(|counted| counted == shard)
    }

    /// What counts is what was written to that shard, which has all of the client's keys by now.
    pub fn narrow(&mut self, shard: ShardId) {
        let is_any = self.beyond || !self.shards.is_empty() || !self.early.is_empty();
        self.shards.retain(|(of, _)| *of == shard);
        // The keys may have been another shard's when they were written.
        if self.beyond || (is_any && self.shards.is_empty()) {
            self.beyond = false;
            self.note(shard, NOT_KNOWN);
        }
    }

    /// Where it is not known in which entry something was written: `last` tells of a shard that this node leads an entry behind all that
    /// was answered before.
    pub fn look_up(&mut self, last: impl Fn(ShardId) -> Option<u64>) {
        for (shard, index) in self.shards.iter_mut().filter(|(_, index)| *index == NOT_KNOWN) {
            *index = last(*shard).unwrap_or(NOT_KNOWN);
        }
    }

    /// A write has been answered that is in that entry, which was not committed then. `is_applied` says of an earlier one whether
    /// it was applied: one that was not is lost, no follower will hold it, and so it counts until the connection ends.
    pub(super) fn note_early(&mut self, entry: EntryId, is_applied: impl FnOnce(EntryId) -> bool) {
        match self.early.binary_search_by_key(&entry.shard, |known| known.shard) {
            Ok(at) => {
                let known = &mut self.early[at];
                if known.term == entry.term {
                    known.index = known.index.max(entry.index);
                } else if is_applied(*known) {
                    *known = entry;
                }
            }
            Err(at) if self.early.len() < WAIT_SHARDS_MAX => self.early.insert(at, entry),
            Err(_) => self.beyond = true,
        }
    }

    /// Entries that were answered early and are known to be applied are not replaced any more: the shard's index covers them from
    /// then on.
    pub fn settle(&mut self, mut is_applied: impl FnMut(EntryId) -> bool) {
        let mut at = 0;
        while let Some(entry) = self.early.get(at).copied() {
            if is_applied(entry) {
                self.early.remove(at);
                self.note(entry.shard, entry.index);
            } else {
                at += 1;
            }
        }
    }

    /// Waits for an entry that may not be committed, too.
    pub fn raise_early(&mut self, entry: EntryId) {
        self.note_early(entry, |_| true);
    }

    /// Waits for entry `index` of a shard, if that is later. It is behind all that was written there before.
    pub fn raise(&mut self, shard: ShardId, index: u64) {
        self.look_up(|of| (of == shard).then_some(index));
        self.note(shard, index);
    }

    /// Waits for all that was written to a shard that this node leads.
    pub fn wait_while_led(&mut self, shard: ShardId) {
        self.is_of_led = true;
        self.note(shard, NOT_KNOWN);
    }

    /// Whether they are all that this node led. Which of them counts it does not know: the wait is another node's once it leads one no more.
    #[must_use]
    pub fn is_of_led(&self) -> bool {
        self.is_of_led
    }

    /// The shards, and the index that counts in each: one that no follower holds, where it is not known.
    #[must_use]
    pub fn shards(&self) -> &[(ShardId, u64)] {
        &self.shards
    }

    /// The entries that count besides, which may be replaced by others: of each shard one at most.
    #[must_use]
    pub fn early(&self) -> &[EntryId] {
        &self.early
    }

    /// The shards of all that counts, each once.
    pub fn counted_shards(&self) -> impl Iterator<Item = ShardId> {
        let is_other = move |entry: &&EntryId| !self.shards.iter().any(|(shard, _)| *shard == entry.shard);
        let early = self.early.iter().filter(is_other).map(|entry| entry.shard);
        self.shards.iter().map(|(shard, _)| *shard).chain(early)
    }

    /// Whether there were more shards than are remembered: then the last entry of every shard that this node leads
    /// counts too.
    #[must_use]
    pub fn beyond(&self) -> bool {
        self.beyond
    }
}

/// What a client waits for.
///
/// The answer is the lowest number over all shards of `written`. If that is empty, it is the lowest over all shards that
/// this node leads of the followers that are alive. A shard that this node no longer leads counts 0: this node does not
/// know. So does one in which another node has answered a write, until `look_up`, and one in which a write was answered before it
/// was committed, and then lost with its leader.
#[derive(Clone, Debug)]
pub struct WaitFor {
    /// The command, for counting it.
    pub spec: &'static CommandSpec,
    /// What this connection has written.
    pub written: Written,
    /// How many followers are to hold it: WAIT in memory or on disk, WAITAOF on disk.
    pub replicas: u64,
    /// WAITAOF. Whether this node is to have it on disk too.
    pub fsynced: Option<bool>,
    /// For how long to wait; `None`: until then, or the connection's end.
    pub timeout_ms: Option<u64>,
}

impl WaitFor {
    /// Reads the request; the error is the text of the reply.
    pub(super) fn parse(spec: &'static CommandSpec, args: &[&[u8]], written: Written) -> Result<Self, &'static str> {
        const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
        const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
        let (fsynced, replicas, timeout) = match args {
            [_, replicas, timeout] => {
                // A negative number is one that is always met, as in Redis.
                let replicas = parse_integer(replicas).ok_or(NOT_INTEGER)?;
                (None, replicas.max(0), timeout)
            }
            [_, local, replicas, timeout] => {
                let local = match parse_integer(local).ok_or(NOT_INTEGER)? {
                    0 => false,
                    1 => true,
                    _ => return Err("ERR value is out of range, value must between 0 and 1"),
                };
                let replicas = parse_integer(replicas).filter(|n| *n >= 0).ok_or(NOT_POSITIVE)?;
                (Some(local), replicas, timeout)
            }
            _ => return Err("ERR syntax error"),
        };
        let timeout_ms = match parse_integer(timeout) {
            None => return Err("ERR timeout is not an integer or out of range"),
            Some(timeout) if timeout < 0 => return Err("ERR timeout is negative"),
            Some(timeout) => (timeout > 0).then_some(timeout.unsigned_abs()),
        };
        Ok(Self { spec, written, replicas: replicas.unsigned_abs(), fsynced, timeout_ms })
    }

    /// Whether the wait is over: `local` says whether this node has it on disk, `replicas` how many followers hold it.
    #[must_use]
    pub fn is_met(&self, local: bool, replicas: u64) -> bool {
        replicas >= self.replicas && (local || self.fsynced != Some(true))
    }

    /// Writes the answer, whether or not it is met.
    pub fn answer(&self, local: bool, replicas: u64, reply: &mut Reply) {
        if self.fsynced.is_some() {
            reply.array(2);
            reply.int(i64::from(local));
        }
        reply.int(replicas as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_remembered_within_bounds() {
        let mut written = Written::default();
        for (shard, index) in [(7, 5), (3, 9), (7, 4), (3, 12)] {
            written.note(ShardId(shard), index);
        }
        assert_eq!(written.shards(), [(ShardId(3), 12), (ShardId(7), 5)]);
        (10..10 + WAIT_SHARDS_MAX as u32 - 2).for_each(|shard| written.note(ShardId(shard), 1));
        assert!(!written.beyond());
        written.note(ShardId(1), 1);
        written.note(ShardId(7), 6);
        assert!(written.beyond() && written.shards().len() == WAIT_SHARDS_MAX);
        assert_eq!(written.shards()[1], (ShardId(7), 6));
    }

    #[test]
    fn of_what_another_node_has_answered_the_entry_is_not_known() {
        let mut written = Written::default();
        written.note(ShardId(7), 3);
        written.note_elsewhere(ShardId(7));
        // This node leads it now: that says nothing of what was answered elsewhere.
        written.note(ShardId(7), 5);
        assert_eq!(written.shards(), [(ShardId(7), NOT_KNOWN)]);
        written.look_up(|_| None);
        assert_eq!(written.shards(), [(ShardId(7), NOT_KNOWN)]);
        let mut synced = written.clone();
        synced.raise(ShardId(7), 8);
        assert_eq!(synced.shards(), [(ShardId(7), 8)]);
        written.look_up(|shard| (shard == ShardId(7)).then_some(9));
        written.look_up(|_| Some(12));
        assert_eq!(written.shards(), [(ShardId(7), 9)]);
    }

    #[test]
    fn of_a_database_the_shard_of_its_keys_counts() {
        let index = |written: &Written| {
            let mut own = written.clone();
            own.narrow(ShardId(7));
            assert!(!own.beyond() && own.shards().iter().all(|(shard, _)| *shard == ShardId(7)));
            own.shards().first().map(|(_, index)| *index)
        };
        let mut written = Written::default();
        assert_eq!((index(&written), written.may_be_in(ShardId(7))), (None, false));
        written.note(ShardId(3), 9);
        // It may have had the keys.
        assert_eq!((index(&written), written.may_be_in(ShardId(7))), (Some(NOT_KNOWN), false));
        written.note(ShardId(7), 5);
        assert_eq!((index(&written), written.may_be_in(ShardId(7))), (Some(5), true));
        written.note_anywhere();
        assert_eq!((index(&written), written.may_be_in(ShardId(8))), (Some(NOT_KNOWN), true));
    }

    #[test]
    fn of_what_was_answered_early_nothing_is_forgotten_that_may_be_lost() {
        let entry = |shard: u32, index: u64, term: u64| EntryId { shard: ShardId(shard), index, term };
        let mut written = Written::default();
        let mut note = |noted: EntryId, is_applied: bool| {
            written.note_early(noted, |_| is_applied);
            written.early().to_vec()
        };
        assert_eq!(note(entry(2, 5, 1), false), [entry(2, 5, 1)]);
        assert_eq!(note(entry(2, 4, 1), false), [entry(2, 5, 1)], "an answer of another thread came late");
        assert_eq!(note(entry(2, 7, 1), false), [entry(2, 7, 1)]);
        assert_eq!(note(entry(1, 9, 8), false), [entry(1, 9, 8), entry(2, 7, 1)]);
        assert_eq!(note(entry(2, 6, 3), false), [entry(1, 9, 8), entry(2, 7, 1)], "it is lost");
        assert_eq!(note(entry(2, 6, 3), true), [entry(1, 9, 8), entry(2, 6, 3)], "it is on a majority");
        (10..10 + WAIT_SHARDS_MAX as u32).for_each(|shard| written.note_early(entry(shard, 1, 1), |_| false));
        assert!(written.beyond() && written.early().len() == WAIT_SHARDS_MAX);
    }

    #[test]
    fn of_what_was_answered_early_the_index_counts_once_it_is_applied() {
        let entry = |shard: u32, index: u64| EntryId { shard: ShardId(shard), index, term: 1 };
        let mut written = Written::default();
        written.note(ShardId(2), 9);
        [entry(1, 5), entry(2, 7), entry(3, 4)].into_iter().for_each(|early| written.raise_early(early));
        assert!(written.counted_shards().eq([2, 1, 3].map(ShardId)));
        written.settle(|early| early.shard != ShardId(3));
        assert_eq!(written.early(), [entry(3, 4)]);
        assert_eq!(written.shards(), [(ShardId(1), 5), (ShardId(2), 9)]);
        assert!(written.counted_shards().eq([1, 2, 3].map(ShardId)));
    }

    #[test]
    fn waiting_ends_when_enough_is_held() {
        let wait = |line: &str| {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let spec = resp::table::resolve(&args).expect("a command");
            WaitFor::parse(spec, &args, Written::default()).expect("it can be read")
        };
        for (line, local, replicas, met, answer) in [
            ("WAIT 2 0", false, 1, false, ":1\r\n"),
            ("WAIT 2 0", false, 2, true, ":2\r\n"),
            ("WAIT -1 0", false, 0, true, ":0\r\n"),
            ("WAITAOF 1 0 0", false, 2, false, "*2\r\n:0\r\n:2\r\n"),
            ("WAITAOF 1 1 0", true, 1, true, "*2\r\n:1\r\n:1\r\n"),
            ("WAITAOF 0 1 0", false, 1, true, "*2\r\n:0\r\n:1\r\n"),
        ] {
            let mut reply = Reply::default();
            assert_eq!(wait(line).is_met(local, replicas), met, "{line}");
            wait(line).answer(local, replicas, &mut reply);
            assert_eq!(reply.buf, answer.as_bytes(), "{line}");
        }
        assert_eq!((wait("WAIT 1 0").timeout_ms, wait("WAIT 1 5").timeout_ms), (None, Some(5)));
    }
}

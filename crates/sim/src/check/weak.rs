//! Answers of replicas that do not lead: only what was written and committed, and nothing older than the replica has shown before,
//! than the token, or than the lag allows.
//!
//! Only versions are compared: this does not check that a removed key stays removed.

use crate::history::{Key, Seen};
use crate::schedule::Micros;
use node::session::Consistency;
use std::collections::{BTreeMap, BTreeSet};
use vocab::ShardId;

/// A key of a group.
type KeyPlace = (usize, Key);

/// A replica on a node since one of the node's starts: the node's place, the start's number, the shard.
pub type Opened = (usize, u64, ShardId);

/// One read by a replica that does not lead.
#[derive(Clone, Copy, Debug)]
pub struct WeakRead {
    /// Which replica answers.
    pub replica: Opened,
    /// The group of keys.
    pub group: usize,
    /// The key.
    pub key: Key,
    /// The value that was read.
    pub seen: Seen,
    /// The consistency that was promised.
    pub consistency: Consistency,
    /// When it began.
    pub began: Micros,
    /// When it was answered.
    pub ended: Micros,
}

/// What is known of keys, and what each replica has shown.
#[derive(Default)]
pub struct Weak {
    /// By key: when a client was told of a version, and of which, both rising.
    told: BTreeMap<KeyPlace, Vec<(Micros, u64)>>,
    /// Keys that may have been removed.
    removed: BTreeSet<KeyPlace>,
    /// By replica and key: when a version was answered, and which, both rising.
    shown: BTreeMap<(Opened, KeyPlace), Vec<(Micros, u64)>>,
    /// By replica: the entry up to which it knew all to be committed when it was opened.
    opened: BTreeMap<Opened, u64>,
}

impl Weak {
    /// A replica has just been opened, and knew before that entries up to `committed` were. It takes the place of one
    /// that the node had of the shard since the same start: it has shown nothing yet.
    pub fn opened(&mut self, replica: Opened, committed: u64) {
        self.opened.insert(replica, committed);
        self.shown.retain(|(of, _), _| *of != replica);
    }

    /// A client was told of a version.
    pub fn told(&mut self, group: usize, key: Key, version: u64, at: Micros) {
        let told = self.told.entry((group, key)).or_default();
        if told.last().is_none_or(|(_, last)| *last < version) {
            told.push((at, version));
        }
    }

    /// What was written to a group after entry `cut` of its shard is lost.
    pub fn forget(&mut self, group: usize, shard: ShardId, cut: u64) {
        self.told.iter_mut().filter(|((of, _), _)| *of == group).for_each(|(_, told)| told.retain(|(_, v)| *v <= cut));
        self.shown.retain(|((_, _, of), _), _| *of != shard);
    }

    /// A client wants a key removed, or it may expire.
    pub fn may_go(&mut self, group: usize, key: Key) {
        self.removed.insert((group, key));
    }

    /// The version of a key that was known at a moment; 0: none.
    #[must_use]
    pub fn known_at(&self, group: usize, key: Key, at: Micros) -> u64 {
        self.newest(&(group, key), |told, _| told <= at)
    }

    fn newest(&self, place: &KeyPlace, counts: impl Fn(Micros, u64) -> bool) -> u64 {
        let told = self.told.get(place).into_iter().flatten();
        told.rev().find(|(at, version)| counts(*at, *version)).map_or(0, |(_, version)| *version)
    }

    /// Checks a read. `logged`: the version of the value that was seen, by the log; `slack`: how much later than the
    /// leader a replica may learn of a write, beside the lag; none if the lag cannot be checked.
    pub fn check(&mut self, read: &WeakRead, logged: Option<u64>, slack: Option<Micros>) -> Result<(), String> {
        let place = (read.group, read.key);
        let Some(&committed) = self.opened.get(&read.replica) else {
            return Err(format!("a replica answers that was never opened: {read:?}"));
        };
        let floor = match (read.consistency, slack) {
            (Consistency::Version { token }, _) => self.newest(&place, |_, version| version <= token),
            (Consistency::Any, _) => self.newest(&place, |_, version| version <= committed),
            (Consistency::Lag { ms }, Some(slack)) => {
                let until = read.began.saturating_sub(ms * 1000 + slack);
                self.newest(&place, |at, _| at <= until)
            }
            _ => 0,
        };
        let Some((value, version)) = read.seen else {
            return match floor > 0 && !self.removed.contains(&place) {
                true => Err(format!("version {floor} was to be seen, and nothing was: {read:?}")),
                false => Ok(()),
            };
        };
        if logged != Some(version) {
            return Err(format!("value {value} is committed as of {logged:?}, and was seen: {read:?}"));
        }
        if version < floor {
            return Err(format!("version {floor} at least was to be seen: {read:?}"));
        }
        let shown = self.shown.entry((read.replica, place)).or_default();
        // Reads at the same time may be answered in any order.
        let before = shown.iter().rev().find(|(ended, _)| *ended <= read.began);
        if let Some((_, before)) = before.filter(|(_, before)| version < *before) {
            return Err(format!("the replica had shown version {before} before: {read:?}"));
        }
        if shown.last().is_none_or(|(_, last)| *last < version) {
            shown.push((read.ended, version));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(seen: Seen, consistency: Consistency, at: Micros) -> WeakRead {
        WeakRead { replica: (0, 1, ShardId(1)), group: 3, key: 1, seen, consistency, began: at, ended: at }
    }

    /// The replica that reads is open, and knew of nothing.
    fn opened() -> Weak {
        let mut weak = Weak::default();
        weak.opened((0, 1, ShardId(1)), 0);
        weak
    }

    #[test]
    fn each_promise_is_kept_or_not() {
        let (any, token, lag) = (Consistency::Any, Consistency::Version { token: 9 }, Consistency::Lag { ms: 1 });
        let cases: &[(Seen, Consistency, Micros, Option<u64>, bool)] = &[
            (Some((7, 5)), any, 9_000, Some(5), true),
            (Some((7, 5)), any, 9_000, None, false),
            (Some((7, 5)), any, 9_000, Some(6), false),
            (None, any, 9_000, None, true),
            (Some((7, 5)), token, 9_000, Some(5), false),
            (None, token, 9_000, None, false),
            (Some((8, 9)), token, 9_000, Some(9), true),
            (Some((7, 5)), lag, 6_400, Some(5), true),
            (Some((7, 5)), lag, 6_500, Some(5), false),
            (Some((8, 9)), lag, 6_500, Some(9), true),
        ];
        for (i, (seen, consistency, at, logged, sound)) in cases.iter().enumerate() {
            let mut weak = opened();
            weak.told(3, 1, 5, 1_000);
            weak.told(3, 1, 9, 5_000);
            weak.told(3, 1, 12, 8_000);
            assert_eq!(weak.check(&read(*seen, *consistency, *at), *logged, Some(500)).is_ok(), *sound, "case {i}");
        }
        let mut weak = opened();
        assert_eq!(weak.check(&read(Some((8, 9)), any, 1), Some(9), None), Ok(()));
        assert!(weak.check(&read(Some((7, 5)), any, 2), Some(5), None).is_err(), "it goes back");
        weak.may_go(3, 1);
        weak.told(3, 1, 9, 3);
        assert_eq!(weak.check(&read(None, token, 9), None, None), Ok(()), "it may have been removed");
        let mut weak = opened();
        weak.told(3, 1, 5, 1_000);
        weak.opened((0, 1, ShardId(1)), 4);
        assert_eq!(weak.check(&read(None, any, 9), None, None), Ok(()), "it was opened before that was committed");
        let mut weak = opened();
        weak.told(3, 1, 5, 1_000);
        weak.opened((0, 1, ShardId(1)), 5);
        assert!(weak.check(&read(None, any, 9), None, None).is_err(), "it had that when it was opened");
        let mut weak = opened();
        weak.told(3, 1, 5, 1_000);
        weak.told(3, 1, 9, 5_000);
        weak.opened((0, 1, ShardId(1)), 9);
        assert_eq!(weak.check(&read(Some((8, 9)), any, 1), Some(9), None), Ok(()));
        weak.opened((0, 1, ShardId(1)), 6);
        assert_eq!(weak.check(&read(Some((7, 5)), any, 2), Some(5), None), Ok(()), "it is another replica by now");
        assert!(weak.check(&read(None, any, 3), None, None).is_err(), "that knew of this when it was opened");
        let mut weak = opened();
        let (late, early) = (WeakRead { began: 1, ended: 7, ..read(Some((7, 5)), any, 0) }, read(Some((8, 9)), any, 4));
        assert_eq!(weak.check(&early, Some(9), None), Ok(()));
        assert_eq!(weak.check(&late, Some(5), None), Ok(()), "it began before the other was answered");
        assert!(Weak::default().check(&early, Some(9), None).is_err(), "it was never opened");
    }
}

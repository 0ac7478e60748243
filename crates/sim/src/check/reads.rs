//! No stale read: once a client has seen a version of a key, later reads show no older one.
//!
//! Cheap enough to be asked at every answer. That a removed key is not shown again is left to the whole history's check.

use crate::history::{Action, Answer, Key, Operation, Outcome};
use std::collections::BTreeMap;

/// The newest version of each key that anybody was told of.
#[derive(Default)]
pub struct Reads {
    newest: BTreeMap<(usize, Key), u64>,
    /// By operation: the newest of its keys when it was asked.
    floors: BTreeMap<usize, Vec<u64>>,
}

impl Reads {
    /// What was written to a group after entry `cut` is lost.
    pub fn forget(&mut self, group: usize, cut: u64) {
        self.newest.retain(|(of, _), version| *of != group || *version <= cut);
        // Those under way in other groups are asked a little less by that.
        self.floors.values_mut().flatten().filter(|floor| **floor > cut).for_each(|floor| *floor = 0);
    }

    /// A request is sent.
    pub fn begun(&mut self, number: usize, operation: &Operation) {
        if operation.weak {
            return;
        }
        let newest = |(key, _): &(Key, Action)| self.newest.get(&(operation.group, *key)).copied().unwrap_or(0);
        self.floors.insert(number, operation.actions.iter().map(newest).collect());
    }

    /// It is answered.
    pub fn ended(&mut self, number: usize, operation: &Operation) -> Result<(), String> {
        let floors = self.floors.remove(&number).unwrap_or_default();
        let told: Vec<(usize, u64, bool)> = match &operation.answer {
            Answer::Done(outcomes) => {
                let each = outcomes.iter().enumerate();
                each.filter_map(|(at, outcome)| match outcome {
                    Outcome::Read(seen) => seen.map(|(_, version)| (at, version, true)),
                    Outcome::Written(version) => Some((at, *version, false)),
                    _ => None,
                })
                .collect()
            }
            Answer::Unmet(Some((at, Some((_, version))))) => vec![(*at, *version, true)],
            _ => Vec::new(),
        };
        for (at, version, read) in told {
            let (key, _) = operation.actions[at];
            let floor = floors.get(at).copied().unwrap_or(0);
            if version < floor || (!read && version == floor) {
                return Err(format!("version {floor} was known before, version {version} is told: {operation}"));
            }
            let newest = self.newest.entry((operation.group, key)).or_default();
            *newest = version.max(*newest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;

    #[test]
    fn an_older_version_than_one_that_was_told_is_stale() {
        let get = || vec![(1, Action::Get)];
        let read = |version| Answer::Done(vec![Outcome::Read(Some((9, version)))]);
        let (mut history, mut reads) = (History::default(), Reads::default());
        let begin = |history: &mut History, reads: &mut Reads, actions| {
            let number = history.begin(0, 7, actions, false, 0);
            reads.begun(number, &history.operations()[number]);
            number
        };
        let end = |history: &mut History, reads: &mut Reads, number, answer| {
            history.end(number, answer, 0);
            reads.ended(number, &history.operations()[number])
        };
        let early = begin(&mut history, &mut reads, get());
        let put = begin(&mut history, &mut reads, vec![(1, Action::Put(9))]);
        assert_eq!(end(&mut history, &mut reads, put, Answer::Done(vec![Outcome::Written(5)])), Ok(()));
        assert_eq!(end(&mut history, &mut reads, early, read(4)), Ok(()), "asked before");
        let late = begin(&mut history, &mut reads, get());
        assert!(end(&mut history, &mut reads, late, read(4)).is_err());
        let other = begin(&mut history, &mut reads, vec![(2, Action::Get)]);
        assert_eq!(end(&mut history, &mut reads, other, read(1)), Ok(()), "another key");
    }
}

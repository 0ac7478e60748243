//! No acknowledged write is lost, and none is acknowledged before it is committed: the answer's version is the index of
//! a committed entry that holds the write. Nothing that was refused is in the log.

use crate::history::{Answer, Operation};
use std::collections::BTreeMap;

/// The values of a log's committed entries, and their indexes.
pub type Values = BTreeMap<u64, u64>;

/// Checks an answer at the moment at which it is given.
pub fn check(operation: &Operation, committed: &Values) -> Result<(), String> {
    let values = || operation.actions.iter().filter_map(|(_, action)| action.value());
    let logged = values().find_map(|value| Some((value, *committed.get(&value)?)));
    match (&operation.answer, operation.version(), logged) {
        (Answer::Done(_), Some(version), None) => {
            Err(format!("acknowledged as of {version}, and in no committed entry: {operation}"))
        }
        (Answer::Done(_), Some(version), Some((value, index))) if version != index => {
            Err(format!("acknowledged as of {version}, and value {value} is in entry {index}: {operation}"))
        }
        (Answer::Refused, _, Some((value, index))) => {
            Err(format!("refused, and value {value} is in entry {index}: {operation}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Action, Outcome};

    #[test]
    fn what_is_told_of_a_write_agrees_with_the_log() {
        let log = Values::from([(7, 5)]);
        let done = |version| Answer::Done(vec![Outcome::Written(version)]);
        let cases = [
            (7, done(5), true),
            (7, done(6), false),
            (8, done(6), false),
            (7, Answer::Refused, false),
            (8, Answer::Refused, true),
            (7, Answer::Unmet(None), true),
            (8, Answer::Unknown, true),
        ];
        for (value, answer, sound) in cases {
            let actions = vec![(0, Action::Put(value))];
            let operation =
                Operation { client: 0, group: 0, actions, begun: 1, ended: 2, answer, weak: false, between_ms: (0, 0) };
            assert_eq!(check(&operation, &log).is_ok(), sound, "{operation}");
        }
    }
}

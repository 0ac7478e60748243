//! What a command that is proposed will leave for clients that wait, as far as its words tell.
//!
//! Who waits for that is tried right behind it, as a rule in the same entry: an element that is pushed reaches its client after one round of
//! the log, not two. An attempt that finds nothing waits on.

use crate::EncodedCommand;
use crate::awaited_keys::Awaited;
use resp::table::{Group, key_flag};

/// A command of more arguments tells nothing: to look at them would keep an event loop.
const ARGUMENTS_MAX: usize = 256;

/// Elements that a command is likely to leave.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) key: Vec<u8>,
    pub(super) what: Awaited,
    pub(super) elements: u64,
}

impl Expected {
    /// Those of a command; `None`: it is not known to leave any. Streams are left out: a client whose attempt finds nothing there is tried again
    /// when the entry is applied, as all are that wait for the stream.
    pub(super) fn of(command: &EncodedCommand) -> Option<Self> {
        let spec = command.spec().filter(|_| command.arguments() <= ARGUMENTS_MAX)?;
        // An element is one word in a list, and two in a sorted set.
        let (what, adds, words) = match spec.group {
            Group::List => (Awaited::List, key_flag::INSERT, 1),
            Group::SortedSet => (Awaited::SortedSet, key_flag::UPDATE, 2),
            _ => return None,
        };
        let args = command.args();
        let keys = spec.keys_and_flags(&args).ok()?;
        let (at, _) = keys.iter().find(|(_, flags)| flags & adds != 0)?;
        // Of several keys one is moved from, and as a rule one element.
        let elements = if keys.len() > 1 { 1 } else { (args.len() - 1 - at) / words };
        Some(Self { key: args[*at].to_vec(), what, elements: elements.max(1) as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_are_likely_to_leave() {
        use Awaited::{List, SortedSet};
        for (line, expected) in [
            ("LPUSH k a", Some(("k", List, 1))),
            ("RPUSH k a b c", Some(("k", List, 3))),
            ("LMOVE from to LEFT RIGHT", Some(("to", List, 1))),
            ("RPOPLPUSH from to", Some(("to", List, 1))),
            ("ZADD z 1 a", Some(("z", SortedSet, 1))),
            ("ZADD z 1 a 2 b", Some(("z", SortedSet, 2))),
            ("ZINCRBY z 1 a", Some(("z", SortedSet, 1))),
            ("XADD s * a b", None),
            ("LPOP k", None),
            ("SET k v", None),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let found = Expected::of(&EncodedCommand::new(&words));
            let expected = expected.map(|(key, what, elements)| Expected { key: key.into(), what, elements });
            assert_eq!(found, expected, "{line}");
        }
    }
}

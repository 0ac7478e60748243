//! How long the answer of a command will be, and how much it will store, as far as that is known before it runs.

use crate::{ShardHandle, command};
use resp::table::{CommandSpec, Group};
use vocab::limits::{EDIT_IN_PLACE_BYTES_MIN, ENTRY_REPLIES_BYTES_SOFT};

/// Of so many keys of a request it is looked up how long their values are. The others are one of unknown length.
const EXPECTED_KEYS_MAX: usize = 256;

/// About how many bytes a write stores that it does not bring, as far as that is known of what is in memory; 0 where they are
/// few.
#[must_use]
pub fn expected_rewrite(handle: &ShardHandle, spec: &CommandSpec, args: &[&[u8]]) -> usize {
    let Some(growth) = command::growth(spec, args) else { return 0 };
    let rows = sum_over_keys(spec, args, |key| handle.likely_bytes(key).unwrap_or(0));
    let bytes = rows.saturating_add(growth);
    if bytes < EDIT_IN_PLACE_BYTES_MIN { 0 } else { bytes }
}

/// About how many bytes of a command's keys are read and answered, as far as that is known of rows in memory and of the last long ones:
/// of strings in pieces all of them, if it may answer a long part.
#[must_use]
pub fn likely_bytes(handle: &ShardHandle, spec: &CommandSpec, args: &[&[u8]]) -> usize {
    let answers = spec.group == Group::String || spec.answers_values(args);
    let in_pieces = |key: &[u8]| if answers { handle.cached_bytes(key).unwrap_or(0) } else { 0 };
    sum_over_keys(spec, args, |key| handle.likely_bytes(key).unwrap_or(0).max(in_pieces(key)))
}

fn sum_over_keys(spec: &CommandSpec, args: &[&[u8]], bytes: impl Fn(&[u8]) -> usize) -> usize {
    let keys = spec.keys(args).into_iter().flatten();
    keys.take(EXPECTED_KEYS_MAX).map(|at| bytes(args[at])).sum()
}

/// What is known of the length of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpectedReply {
    /// Bytes of the rows that it holds and that are in memory.
    pub known_bytes: usize,
    /// Rows that it holds and that are not in memory, of unknown length.
    pub unknown_rows: usize,
}

impl ExpectedReply {
    /// What the answer of a command holds of what the shard stores. Does not wait for the disk.
    #[must_use]
    pub fn of(handle: &ShardHandle, spec: &CommandSpec, args: &[&[u8]]) -> Self {
        let mut expected = Self::default();
        if spec.answers_values(args) {
            let mut keys = spec.keys(args).into_iter().flatten();
            for at in keys.by_ref().take(EXPECTED_KEYS_MAX) {
                match handle.cached_bytes(args[at]) {
                    Some(bytes) => expected.known_bytes += bytes,
                    None => expected.unknown_rows += 1,
                }
            }
            expected.unknown_rows += usize::from(keys.next().is_some());
        }
        expected
    }

    /// Both answers together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { known_bytes: self.known_bytes + other.known_bytes, unknown_rows: self.unknown_rows + other.unknown_rows }
    }

    /// About how many bytes it takes: an answer of unknown length has an entry to itself.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.known_bytes.saturating_add(self.unknown_rows.saturating_mul(ENTRY_REPLIES_BYTES_SOFT))
    }
}

//! How long the answer of a command will be, as far as that is known before it runs.

use crate::ShardHandle;
use resp::table::CommandSpec;
use vocab::limits::ENTRY_REPLIES_BYTES_SOFT;

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
    pub fn of(view: &ShardHandle, spec: &CommandSpec, args: &[&[u8]]) -> Self {
        let mut expected = Self::default();
        if spec.answers_values(args) {
            for at in spec.keys(args).into_iter().flatten() {
                match view.cached_bytes(args[at]) {
                    Some(bytes) => expected.known_bytes += bytes,
                    None => expected.unknown_rows += 1,
                }
            }
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

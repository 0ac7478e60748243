//! What an entry writes, and which rows a caller names: the words between a tree and its callers.

use crate::Slice;
use std::sync::Arc;

/// How much of a value `Cursor::value_head` answers at least, if the value has it.
pub const VALUE_HEAD_BYTES: usize = 64;

/// Longest tree key, in bytes: lsm-tree's keys have a 16-bit length, and there is a key above all that are stored.
pub(crate) const TREE_KEY_BYTES_MAX: usize = u16::MAX as usize - 1;

/// The writes of one Raft entry, applied as one: every key at most once, in any order.
/// `None` removes the key.
#[derive(Debug, Default)]
pub struct WriteBatch {
    /// Tree key → value, or `None` for a removal.
    pub writes: Vec<(Slice, Option<Slice>)>,
    /// Prefixes of tree keys: every row below them is removed, those that this batch writes among them. The cost is that
    /// of one small write each, whatever the number of rows; `purge` frees the room later. Meant for rows below an id
    /// that is never used again.
    ///
    /// Invariant, kept by the caller: no later entry writes a key below a dropped prefix.
    pub drops: Vec<Slice>,
}

impl WriteBatch {
    /// What no engine can hold of this batch, if anything. Callers bound keys and values before they propose an entry.
    #[must_use]
    pub fn refusal(&self) -> Option<&'static str> {
        let rows = self.writes.iter().map(|(key, value)| refusal(key, value.as_deref().unwrap_or_default()));
        rows.chain(self.drops.iter().map(|prefix| refusal(prefix, &[]))).flatten().next()
    }
}

/// The batch of entry `index`, or an empty one in place of one that no engine can hold.
pub(crate) fn accepted(index: u64, batch: WriteBatch) -> WriteBatch {
    match batch.refusal() {
        None => batch,
        Some(detail) => {
            log::error!("entry {index} writes nothing: it has {detail}");
            WriteBatch::default()
        }
    }
}

/// Why no engine can hold a row, if so.
pub(crate) fn refusal(key: &[u8], value: &[u8]) -> Option<&'static str> {
    match key.first() {
        None | Some(0) => Some("an empty or a reserved tree key"),
        Some(_) if key.len() > TREE_KEY_BYTES_MAX => Some("too long a tree key"),
        Some(_) if value.len() > vocab::limits::STORED_BYTES_MAX => Some("too long a value"),
        Some(_) => None,
    }
}

/// A range of tree keys: `start` inclusive, `end` exclusive; an empty `end` means "to the end of the tree".
#[derive(Clone, Debug)]
pub struct Span {
    /// First key that may be returned.
    pub start: Vec<u8>,
    /// First key after the range.
    pub end: Vec<u8>,
}

/// Whether the row of a tree key belongs in a tree. One that was forked holds rows that it is no longer asked for.
pub type Keep = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

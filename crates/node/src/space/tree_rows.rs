//! The rows of a tree as they are, and nothing else of it.

use crate::format::keys;
use crate::space::spans::element_span;
use crate::{Fault, ReadSpace, Record, Rows};
use storage::{Slice, Snapshot};

/// Reads the rows of large values; it has no keys.
pub(crate) struct TreeRows<'a>(pub(crate) &'a dyn Snapshot);

impl ReadSpace for TreeRows<'_> {
    fn now_ms(&self) -> u64 {
        0
    }

    fn version(&self) -> u64 {
        self.0.index()
    }

    fn stored(&mut self, _key: &[u8]) -> Result<Option<Record>, Fault> {
        Err(Fault::WouldBlock)
    }

    fn element_get(&mut self, rows: &Rows, element: &[u8]) -> Result<Option<Slice>, Fault> {
        Ok(self.0.get(&keys::element(&rows.prefix, element))?)
    }

    fn elements(&mut self, rows: &Rows, after: Option<&[u8]>, limit: usize) -> Result<Vec<(Slice, Slice)>, Fault> {
        let found = self.0.iter_passing(u64::MAX, element_span(rows, after), false).take(limit);
        found.map(|row| row.map(|(k, v)| (storage::tail_of(k, rows.prefix.len()), v)).map_err(Fault::from)).collect()
    }
}

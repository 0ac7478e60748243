//! Branches that were trimmed off a large list, and whose rows are still there.
//!
//! To trim a list is to forget what is above the rows that go. Each later write that touches the tree removes some of them;
//! with the list all go at once.

use super::edges::RowNumber;
use vocab::limits::LIST_BRANCH_CHILDREN;
use vocab::{Malformed, Reader, put_varint};

/// The rows of branches, by level: each is to be removed with all below it.
#[derive(Clone, Debug, Default)]
pub(super) struct Trimmed {
    /// The first is level 1: leaves are removed at once.
    levels: Vec<Vec<RowNumber>>,
}

impl Trimmed {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.count(1)?;
        let mut levels = Vec::with_capacity(count);
        for _ in 0..count {
            let count = reader.count(1)?;
            let rows = (0..count).map(|_| reader.varint().map(RowNumber)).collect::<Result<_, _>>()?;
            levels.push(rows);
        }
        Ok(Self { levels })
    }

    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.levels.len() as u64);
        for rows in &self.levels {
            put_varint(bytes, rows.len() as u64);
            rows.iter().for_each(|row| put_varint(bytes, row.0));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels.iter().all(Vec::is_empty)
    }

    /// Notes a branch of that level, from 1 on. Answers rows that have become too many for the record: they are to be a
    /// branch one level above, and noted so.
    pub(super) fn push(&mut self, level: usize, row: RowNumber) -> Option<Vec<RowNumber>> {
        if self.levels.len() < level {
            self.levels.resize_with(level, Vec::new);
        }
        let rows = &mut self.levels[level - 1];
        rows.push(row);
        (rows.len() > LIST_BRANCH_CHILDREN).then(|| std::mem::take(rows))
    }

    /// Takes one of the lowest level.
    pub(super) fn pop(&mut self) -> Option<(usize, RowNumber)> {
        let found = self.levels.iter_mut().enumerate().find_map(|(i, rows)| Some((i + 1, rows.pop()?)));
        while self.levels.last().is_some_and(Vec::is_empty) {
            self.levels.pop();
        }
        found
    }

    /// All rows, with their levels.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<(usize, RowNumber)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(i, rows)| rows.iter().map(move |row| (i + 1, *row))).collect()
    }
}

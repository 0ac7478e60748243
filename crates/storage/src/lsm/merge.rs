//! The newest visible version of each key of a view, in rising order of the keys.
//!
//! Why not lsm-tree's own range: it seeks the end of the range in every table as well as its beginning, and it reads
//! ahead. Most scans take few rows of many trees, so that seeks are what they cost. Here each source is sought once,
//! and moves on only when a further row is asked for.
//!
//! Invariant: no head is of the key given last, but for that of the source that it was taken from.

use crate::Slice;
use lsm_tree::InternalValue;
use std::cmp::Reverse;

/// The entries of one memtable or run, in order of key and falling seqno.
pub(super) type Entries<'a> = Box<dyn Iterator<Item = lsm_tree::Result<InternalValue>> + 'a>;

struct Source<'a> {
    entries: Entries<'a>,
    head: Option<InternalValue>,
}

/// See the module's words. Removals are among the entries.
pub(super) struct Merge<'a> {
    sources: Vec<Source<'a>>,
    /// Entries from this seqno on are not visible.
    seqno: u64,
    /// First key after the range; empty: to the end.
    end: Slice,
    /// The key given last, and the source that it came from.
    last: Option<(Slice, usize)>,
    begun: bool,
}

impl<'a> Merge<'a> {
    /// Of sources that begin at the first key of the range.
    pub(super) fn new(sources: impl Iterator<Item = Entries<'a>>, end: Slice, seqno: u64) -> Self {
        let sources = sources.map(|entries| Source { entries, head: None }).collect();
        Self { sources, seqno, end, last: None, begun: false }
    }

    /// Fills the heads that the last entry has used up.
    fn refill(&mut self) -> lsm_tree::Result<()> {
        let Some((last, taken)) = &self.last else {
            if !self.begun {
                self.begun = true;
                let mut sources = self.sources.iter_mut();
                return sources.try_for_each(|source| source.advance(self.seqno, &self.end, None));
            }
            return Ok(());
        };
        for (i, source) in self.sources.iter_mut().enumerate() {
            if i == *taken || source.head.as_ref().is_some_and(|head| head.key.user_key == *last) {
                source.advance(self.seqno, &self.end, Some(last))?;
            }
        }
        Ok(())
    }
}

impl Source<'_> {
    /// Moves to the next visible entry before `end` that is not of the key `last`.
    fn advance(&mut self, seqno: u64, end: &Slice, last: Option<&Slice>) -> lsm_tree::Result<()> {
        self.head = None;
        for entry in self.entries.by_ref() {
            let entry = entry?;
            if entry.key.seqno < seqno && Some(&entry.key.user_key) != last {
                self.head = (end.is_empty() || entry.key.user_key < *end).then_some(entry);
                break;
            }
        }
        Ok(())
    }
}

impl Iterator for Merge<'_> {
    type Item = lsm_tree::Result<InternalValue>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.refill() {
            return Some(Err(error));
        }
        let heads = self.sources.iter().enumerate().filter_map(|(i, source)| Some((source.head.as_ref()?, i)));
        let (_, first) = heads.min_by_key(|(head, _)| (&head.key.user_key, Reverse(head.key.seqno)))?;
        let entry = self.sources[first].head.take()?;
        self.last = Some((entry.key.user_key.clone(), first));
        Some(Ok(entry))
    }
}

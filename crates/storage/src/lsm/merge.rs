//! The newest visible version of each key of several sources, in rising or in falling order of the keys.
//!
//! Why not lsm-tree's own range: it seeks the end of the range in every table as well as its beginning, and it reads
//! ahead. Most scans take few rows of many trees, so that seeks are what they cost. Here each source is sought once,
//! and moves on only when a further row is asked for.
//!
//! Invariant: no head is of the key given last, but for that of the source that it was taken from.

use crate::Slice;
use lsm_tree::InternalValue;
use std::cmp::Ordering;

/// The entries of one source, in order of key and falling seqno.
pub(super) type Entries<'a> = Box<dyn Iterator<Item = lsm_tree::Result<InternalValue>> + 'a>;

/// Which way the keys go, and up to where.
pub(super) enum Direction {
    /// To before `end`; empty: to the end.
    Rising { end: Slice },
    /// To `start`.
    Falling { start: Slice },
}

struct Source<'a> {
    entries: Entries<'a>,
    head: Option<InternalValue>,
}

/// The merged entries. Removals are among the entries.
pub(super) struct Merge<'a> {
    sources: Vec<Source<'a>>,
    /// Entries from this seqno on are not visible.
    seqno: u64,
    direction: Direction,
    /// The key given last, and the source that it came from.
    last: Option<(Slice, usize)>,
    begun: bool,
}

impl Direction {
    fn includes(&self, key: &Slice) -> bool {
        match self {
            Self::Rising { end } => end.is_empty() || key < end,
            Self::Falling { start } => key >= start,
        }
    }

    /// Which of two keys comes first.
    fn compare(&self, a: &Slice, b: &Slice) -> Ordering {
        match self {
            Self::Rising { .. } => a.cmp(b),
            Self::Falling { .. } => b.cmp(a),
        }
    }
}

impl<'a> Merge<'a> {
    /// Of sources that begin with the first key of the range in this direction.
    pub(super) fn new(sources: impl Iterator<Item = Entries<'a>>, direction: Direction, seqno: u64) -> Self {
        let sources = sources.map(|entries| Source { entries, head: None }).collect();
        Self { sources, seqno, direction, last: None, begun: false }
    }

    /// Fills the heads that the last entry has used up.
    fn refill(&mut self) -> lsm_tree::Result<()> {
        let Some((last, taken)) = &self.last else {
            if !self.begun {
                self.begun = true;
                let mut sources = self.sources.iter_mut();
                return sources.try_for_each(|source| source.advance(self.seqno, &self.direction, None));
            }
            return Ok(());
        };
        for (i, source) in self.sources.iter_mut().enumerate() {
            if i == *taken || source.head.as_ref().is_some_and(|head| head.key.user_key == *last) {
                source.advance(self.seqno, &self.direction, Some(last))?;
            }
        }
        Ok(())
    }
}

impl Source<'_> {
    /// Moves to the next visible entry within the range that is not of the key `last`.
    fn advance(&mut self, seqno: u64, direction: &Direction, last: Option<&Slice>) -> lsm_tree::Result<()> {
        self.head = None;
        for entry in self.entries.by_ref() {
            let entry = entry?;
            if entry.key.seqno < seqno && Some(&entry.key.user_key) != last {
                self.head = direction.includes(&entry.key.user_key).then_some(entry);
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
        let heads = self.sources.iter().enumerate().filter_map(|(i, source)| Some((&source.head.as_ref()?.key, i)));
        let (_, first) = heads
            .min_by(|(a, _), (b, _)| self.direction.compare(&a.user_key, &b.user_key).then(b.seqno.cmp(&a.seqno)))?;
        let entry = self.sources[first].head.take()?;
        self.last = Some((entry.key.user_key.clone(), first));
        Some(Ok(entry))
    }
}

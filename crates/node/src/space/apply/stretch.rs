//! Members that SPOP draws from a large set, some together: a draw walks over the tree, so the pops of one entry share it. By item
//! 13 of an entry; by item 15 entries share it, too (`drawn_stretch`).
//!
//! Positions are divided into stretches that hold `STRETCH_MEAN` members on average, and each stretch has `STRETCH_MAX` places, of
//! which its members take the first ones. A place is drawn until one is taken; its member is the first that is popped, and `TOGETHER`
//! members of that stretch are popped, in a random order, before the next stretch is drawn. Denser stretches are drawn more often by
//! as much as each of their members is popped more seldom, so all members are equally likely at each pop.
//!
//! What is drawn here is what replicas pop: the constants are a format, and the entry says that these rules hold
//! (`format::entry`).

use super::work::Work;
use super::writes::EntryWrites;
use crate::drawn_stretch::{DrawnStretch, Source};
use crate::format::{element, keys};
use crate::space::spans::elements_between;
use crate::{Fault, Rows};
use storage::Slice;
use vocab::Prng;

/// How many members a stretch of positions holds on average when it is drawn.
const STRETCH_MEAN: u64 = 32;
/// How many a stretch may hold. With evenly spread positions more than these come once in 10^11 stretches.
const STRETCH_MAX: u64 = 80;
/// How many members of a stretch are popped: fewer than nearly all stretches hold.
const TOGETHER: usize = 16;
/// How many draws are tried. A try succeeds in two of five cases.
const TRIES_MAX: usize = 128;

/// The entry that pops.
pub(super) struct EntrySource<'s, 'a> {
    pub(super) writes: &'s mut EntryWrites<'a>,
    pub(super) work: &'s mut Work,
    pub(super) prng: &'s mut Prng,
}

impl EntrySource<'_, '_> {
    /// What the entries before have left of theirs, for pops of that set. It counts as read row by row, wherever it is read from.
    pub(super) fn drawn_stretch(&mut self, rows: &Rows) -> Result<Box<DrawnStretch>, Fault> {
        if let Some(kept) = self.writes.handle().kept_stretch().take() {
            if kept.is_of(rows) {
                // An event loop has read nothing. Whether an item is refused is never decided there.
                let (names, bytes) = if self.work.is_slice() { (0, 0) } else { kept.touched() };
                self.work.add(1 + names, bytes)?;
            }
            return Ok(kept);
        }
        match self.writes.row(keys::DRAWN)? {
            Some(row) => DrawnStretch::load(&row, rows, self).map(Box::new),
            None => Ok(Box::default()),
        }
    }
}

impl Source for EntrySource<'_, '_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.prng.below(bound)
    }

    fn names(&mut self, rows: &Rows, from: &[u8], until: &[u8], limit: usize) -> Result<Vec<Slice>, Fault> {
        self.writes.prepare_scan()?;
        let found = self.writes.merged_keys(&elements_between(rows, from, until), limit)?;
        self.work.add(1 + found.len(), found.iter().map(|tree_key| tree_key.len()).sum())?;
        Ok(found.into_iter().map(|tree_key| storage::tail_of(tree_key, rows.prefix.len())).collect())
    }
}

/// The members of one stretch of a set that are not popped yet. Empty when it begins.
#[derive(Default)]
pub(super) struct Stretch {
    /// With what the tree keys of the set's rows begin.
    prefix: Vec<u8>,
    /// Its elements are at this name and behind.
    from: Vec<u8>,
    /// Its elements are before this name; empty: no bound.
    until: Vec<u8>,
    /// The names of its elements, as far as they are still there.
    names: Vec<Slice>,
    /// How many more are popped before another stretch is drawn.
    wanted: usize,
}

impl Stretch {
    /// The name of an element of a set that has some, which the caller removes; `None` if no elements are found.
    pub(super) fn draw(&mut self, rows: &Rows, source: &mut dyn Source) -> Result<Option<Slice>, Fault> {
        if self.wanted == 0 || self.names.is_empty() || self.prefix != rows.prefix {
            self.wanted = 0;
            self.fill(rows, source)?;
        }
        if self.names.is_empty() {
            return Ok(None);
        }
        self.wanted -= 1;
        let at = source.below(self.names.len() as u64) as usize;
        Ok(Some(self.names.swap_remove(at)))
    }

    /// Draws a stretch that has members.
    fn fill(&mut self, rows: &Rows, source: &mut dyn Source) -> Result<(), Fault> {
        self.prefix.clone_from(&rows.prefix);
        if rows.count > STRETCH_MAX {
            let width = (element::POSITIONS / rows.count * STRETCH_MEAN).clamp(1, element::POSITIONS);
            for _ in 0..TRIES_MAX {
                let start = source.below(element::POSITIONS.div_ceil(width)) * width;
                self.take(rows, source, start, start + width)?;
                if source.below(STRETCH_MAX) < self.names.len() as u64 {
                    return Ok(());
                }
            }
            // Only a set whose members were chosen for their positions comes to this: the next members must do.
            let start = source.below(element::POSITIONS);
            self.take(rows, source, start, element::POSITIONS)?;
            if !self.names.is_empty() {
                return Ok(());
            }
        }
        self.take(rows, source, 0, element::POSITIONS)
    }

    /// Takes the first members at those positions, from the first on and before the second.
    fn take(&mut self, rows: &Rows, source: &mut dyn Source, first: u64, end: u64) -> Result<(), Fault> {
        let bound = |position: u64| (position < element::POSITIONS).then(|| element::before(position).to_vec());
        // The empty member is at position 0, and its name is no longer than what stands before the others.
        self.from = if first == 0 { Vec::new() } else { bound(first).unwrap_or_default() };
        self.until = bound(end).unwrap_or_default();
        self.names = source.names(rows, &self.from, &self.until, STRETCH_MAX as usize)?;
        self.wanted = TOGETHER;
        Ok(())
    }

    /// An element was written: one that is new in the stretch could not be drawn.
    pub(super) fn written(&mut self, prefix: &[u8], name: &[u8]) {
        let is_within = || *name >= *self.from && (self.until.is_empty() || *name < *self.until);
        if self.wanted > 0 && self.prefix == prefix && is_within() {
            self.forget();
        }
    }

    /// An element was removed.
    pub(super) fn removed(&mut self, prefix: &[u8], name: &[u8]) {
        if self.wanted > 0 && self.prefix == prefix {
            self.names.retain(|other| other[..] != *name);
        }
    }

    /// What it holds may be wrong.
    pub(super) fn forget(&mut self) {
        self.wanted = 0;
        self.names.clear();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::{BTreeSet, HashMap};
    use vocab::Prng;

    struct Set {
        names: BTreeSet<Vec<u8>>,
        prng: Prng,
        walks: usize,
    }

    impl Set {
        fn of(members: usize, seed: u64) -> Self {
            let names = (0..members).map(|n| element::name_of(n.to_string().as_bytes())).collect();
            Self { names, prng: Prng::new(seed), walks: 0 }
        }

        fn rows(&self) -> Rows {
            Rows { prefix: b"set".to_vec(), count: self.names.len() as u64 }
        }
    }

    impl Source for Set {
        fn below(&mut self, bound: u64) -> u64 {
            self.prng.below(bound)
        }

        fn names(&mut self, _: &Rows, from: &[u8], until: &[u8], limit: usize) -> Result<Vec<Slice>, Fault> {
            self.walks += 1;
            let names = self.names.range(from.to_vec()..).take_while(|name| until.is_empty() || name[..] < *until);
            Ok(names.take(limit).map(|name| Slice::from(&name[..])).collect())
        }
    }

    #[test]
    fn a_set_is_popped_to_its_end_by_few_walks() {
        for members in [1, 2, 79, 80, 81, 1000, 20_000] {
            let (mut set, mut stretch) = (Set::of(members, 7), Stretch::default());
            for _ in 0..members {
                let name = stretch.draw(&set.rows(), &mut set).unwrap().unwrap();
                assert!(set.names.remove(&name[..]), "each is popped once");
                stretch.removed(b"set", &name);
            }
            assert!(stretch.draw(&set.rows(), &mut set).unwrap().is_none());
            assert!(set.walks <= 8 + members / 3, "{} walks for {members}", set.walks);
        }
    }

    #[test]
    fn all_members_are_equally_likely_first_and_later() {
        let members = 500;
        for at in [1, 9, 20] {
            let mut set = Set::of(members, 11);
            let mut popped: HashMap<Vec<u8>, usize> = HashMap::new();
            let rounds = 6000;
            for _ in 0..rounds {
                let mut stretch = Stretch::default();
                let mut last = Slice::empty();
                for _ in 0..at {
                    // The set stays as it is: only what the stretch does is looked at.
                    last = stretch.draw(&set.rows(), &mut set).unwrap().unwrap();
                }
                *popped.entry(last.to_vec()).or_default() += 1;
            }
            let expected = rounds as f64 / members as f64;
            let of = |name: &Vec<u8>| popped.get(name).copied().unwrap_or_default() as f64;
            let chi: f64 = set.names.iter().map(|name| (of(name) - expected).powi(2) / expected).sum();
            // Of 499 degrees of freedom: 499 ± 32.
            assert!(chi < 499.0 + 5.0 * 32.0, "pop {at}: {chi}");
        }
    }

    #[test]
    fn what_is_written_or_removed_meanwhile_is_seen() {
        let (mut set, mut stretch) = (Set::of(50, 3), Stretch::default());
        stretch.draw(&set.rows(), &mut set).unwrap().unwrap();
        let walks = set.walks;
        let gone: Vec<Vec<u8>> = set.names.iter().take(40).cloned().collect();
        for name in gone {
            set.names.remove(&name);
            stretch.removed(b"set", &name);
            stretch.removed(b"other", set.names.first().unwrap());
        }
        let drawn = stretch.draw(&set.rows(), &mut set).unwrap().unwrap();
        assert!(set.names.contains(&drawn[..]) && set.walks == walks);
        stretch.written(b"other", b"name");
        stretch.draw(&set.rows(), &mut set).unwrap().unwrap();
        assert_eq!(set.walks, walks, "of another set");
        stretch.written(b"set", &element::name_of(b"new"));
        stretch.draw(&set.rows(), &mut set).unwrap().unwrap();
        assert_eq!(set.walks, walks + 1);
    }

    #[test]
    fn what_is_drawn_is_a_format() {
        let (mut set, mut stretch) = (Set::of(1000, 1), Stretch::default());
        let drawn: Vec<String> = (0..20)
            .map(|_| {
                let name = stretch.draw(&set.rows(), &mut set).unwrap().unwrap();
                set.names.remove(&name[..]);
                String::from_utf8(element::field_of(&name).unwrap().to_vec()).unwrap()
            })
            .collect();
        assert_eq!(drawn.join(" "), "594 145 310 717 113 112 533 73 886 140 423 147 894 838 955 699 165 161 121 387");
    }
}

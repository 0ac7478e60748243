//! The members of a large set that SPOP draws from, entry after entry: a draw of them walks over the tree, so many pops share it.
//!
//! Positions are divided into *stretches*. One is drawn so that all members of the set are equally likely (`fill`); a part of its
//! members are popped, in a random order, before the next one is drawn. While nothing else changes what is in it, each stretch is
//! wider than the one before (`WIDTHS`): a set that is popped again and again costs fewer rows a pop, and one that is popped now
//! and then no more than before.
//!
//! What replicas pop depends on it, so it is a row of the tree, one a shard, written by each entry that pops so (`encode`). The names
//! are not in the row, but how many there are: the entry that goes on finds as many, or else draws another stretch. Names that a
//! replica has kept in memory (`KeptStretch`) save it the walk, and no more.
//!
//! Invariant: `names` are those of all elements of the set from `from` to before `until`, in order, unless `is_cut`. The
//! constants and what is drawn with them are a format (docs/FORMATS.md, item 15 of an entry).

use crate::format::element;
use crate::{Fault, Rows};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::Slice;
use vocab::limits::KEPT_STRETCH_BYTES_MAX;
use vocab::{Reader, put_bytes, put_varint};

/// How wide a stretch is.
struct Width {
    /// How many members it holds on average when it is drawn.
    mean: u64,
    /// How many it may hold. With evenly spread positions more than these come once in 10^11 stretches.
    max: u64,
    /// How many of them are popped: fewer than nearly all stretches hold.
    popped: u64,
}

/// Of one stretch after the other. What is drawn with them is a format.
const WIDTHS: [Width; 4] = [
    Width { mean: 32, max: 80, popped: 16 },
    Width { mean: 64, max: 120, popped: 40 },
    Width { mean: 128, max: 208, popped: 94 },
    Width { mean: 256, max: 368, popped: 208 },
];
const WIDEST: usize = WIDTHS.len() - 1;
/// How many draws are tried. A try succeeds in two of five cases, in two of three where stretches are widest.
const TRIES_MAX: usize = 128;
const FORMAT: u8 = 1;

/// What a stretch is drawn from.
pub(crate) trait Source {
    /// A random number of the entry, below `bound`.
    fn below(&mut self, bound: u64) -> u64;

    /// The names of up to `limit` elements between those two; an empty one: no bound.
    fn names(&mut self, rows: &Rows, from: &[u8], until: &[u8], limit: usize) -> Result<Vec<Slice>, Fault>;
}

/// See the module's documentation. Empty when it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DrawnStretch {
    /// With what the tree keys of the set's rows begin.
    prefix: Vec<u8>,
    /// Its elements are at this name and behind.
    from: Vec<u8>,
    /// Its elements are before this name; empty: no bound.
    until: Vec<u8>,
    /// The names of its elements.
    names: Vec<Slice>,
    /// There may be more elements: it ends with the entry.
    is_cut: bool,
    /// How many more are popped before another stretch is drawn.
    wanted: u64,
    /// How wide the next one is, a place in `WIDTHS`.
    next_width: usize,
}

impl DrawnStretch {
    /// The one that the row says, for pops of that set; another one where it is over.
    pub(crate) fn load(row: &[u8], rows: &Rows, source: &mut dyn Source) -> Result<Self, Fault> {
        let Some((mut stretch, left)) = Self::decode(row).filter(|(stretch, _)| stretch.prefix == rows.prefix) else {
            return Ok(Self::default());
        };
        if stretch.wanted > 0 {
            stretch.names = source.names(rows, &stretch.from, &stretch.until, left.saturating_add(1))?;
            if stretch.names.len() != left {
                stretch.forget();
            }
        }
        Ok(stretch)
    }

    /// The name of an element of a set that has some, which the caller removes; `None` if no elements are found.
    pub(crate) fn draw(&mut self, rows: &Rows, source: &mut dyn Source) -> Result<Option<Slice>, Fault> {
        if self.wanted == 0 || self.names.is_empty() || self.prefix != rows.prefix {
            if self.prefix != rows.prefix {
                self.next_width = 0;
            }
            self.fill(rows, source)?;
        }
        if self.names.is_empty() {
            return Ok(None);
        }
        self.wanted -= 1;
        let at = source.below(self.names.len() as u64) as usize;
        Ok(Some(self.names.remove(at)))
    }

    /// Draws a stretch that has members. It has `max` places, of which its members take the first ones; a place is drawn until one
    /// is taken. Denser stretches are drawn more often by as much as each of their members is popped more seldom.
    fn fill(&mut self, rows: &Rows, source: &mut dyn Source) -> Result<(), Fault> {
        self.prefix.clone_from(&rows.prefix);
        self.wanted = 0;
        let at = self.next_width.min(WIDEST);
        self.next_width = at + 1;
        let Width { mean, max, popped } = WIDTHS[at];
        if rows.count > max {
            let width = (element::POSITIONS / rows.count * mean).clamp(1, element::POSITIONS);
            for _ in 0..TRIES_MAX {
                let start = source.below(element::POSITIONS.div_ceil(width)) * width;
                self.take(rows, source, (start, start + width), max)?;
                if source.below(max) < self.names.len() as u64 {
                    self.wanted = popped;
                    return Ok(());
                }
            }
            // Only a set whose members were chosen for their positions comes to this: the next members must do.
            let start = source.below(element::POSITIONS);
            self.take(rows, source, (start, element::POSITIONS), max)?;
        }
        if rows.count <= max || self.names.is_empty() {
            self.take(rows, source, (0, element::POSITIONS), max)?;
        }
        self.wanted = self.names.len() as u64;
        Ok(())
    }

    /// Takes the first members at those positions, from the first on and before the second.
    fn take(&mut self, rows: &Rows, source: &mut dyn Source, (first, end): (u64, u64), max: u64) -> Result<(), Fault> {
        let bound = |position: u64| (position < element::POSITIONS).then(|| element::before(position).to_vec());
        // The empty member is at position 0, and its name is no longer than what stands before the others.
        self.from = if first == 0 { Vec::new() } else { bound(first).unwrap_or_default() };
        self.until = bound(end).unwrap_or_default();
        self.names = source.names(rows, &self.from, &self.until, max as usize + 1)?;
        self.is_cut = self.names.len() > max as usize;
        self.names.truncate(max as usize);
        Ok(())
    }

    fn includes(&self, prefix: &[u8], name: &[u8]) -> bool {
        let is_within = || *name >= *self.from && (self.until.is_empty() || *name < *self.until);
        self.prefix == prefix && is_within()
    }

    /// An element was written: one that is new in the stretch could not be drawn.
    pub(crate) fn written(&mut self, prefix: &[u8], name: &[u8]) {
        if self.wanted > 0 && self.includes(prefix, name) {
            self.forget();
        }
    }

    /// An element was removed.
    pub(crate) fn removed(&mut self, prefix: &[u8], name: &[u8]) {
        if self.prefix == prefix
            && let Ok(at) = self.names.binary_search_by(|other| other[..].cmp(name))
        {
            self.names.remove(at);
        }
    }

    /// It is over, and the next one is narrow: what it holds may be wrong.
    pub(crate) fn forget(&mut self) {
        (self.wanted, self.next_width) = (0, 0);
        self.names.clear();
    }

    /// The entry ends: what its row says from here on.
    pub(crate) fn encode(&mut self) -> Vec<u8> {
        if self.is_cut || self.names.is_empty() {
            self.wanted = 0;
        }
        let mut row = vec![FORMAT];
        put_bytes(&mut row, &self.prefix);
        put_varint(&mut row, self.next_width as u64);
        put_varint(&mut row, self.wanted);
        if self.wanted > 0 {
            put_varint(&mut row, self.names.len() as u64);
            put_bytes(&mut row, &self.from);
            put_bytes(&mut row, &self.until);
        }
        row
    }

    /// What `encode` wrote, without the names, and how many these are; `None`: it is of a format that this release does not know.
    fn decode(row: &[u8]) -> Option<(Self, usize)> {
        let mut reader = Reader::new(row);
        if reader.u8().ok()? != FORMAT {
            return None;
        }
        let mut stretch = Self { prefix: reader.bytes().ok()?.to_vec(), ..Self::default() };
        stretch.next_width = reader.number().ok()?;
        stretch.wanted = reader.varint().ok()?;
        let mut left = 0;
        if stretch.wanted > 0 {
            left = reader.number().ok()?;
            stretch.from = reader.bytes().ok()?.to_vec();
            stretch.until = reader.bytes().ok()?.to_vec();
        }
        Some((stretch, left))
    }

    /// Whether it goes on with pops of that set.
    pub(crate) fn is_of(&self, rows: &Rows) -> bool {
        self.wanted > 0 && self.prefix == rows.prefix
    }

    /// How many names it holds, and the bytes of the tree keys that these are in.
    pub(crate) fn touched(&self) -> (usize, usize) {
        let bytes: usize = self.names.iter().map(|name| self.prefix.len() + name.len()).sum();
        (self.names.len(), bytes)
    }
}

/// The stretch of the last entry that popped so, with its names. It is only ever about time.
///
/// Invariant: if there is one, its row says the same, and its names are those of the tree as of the applied index.
#[derive(Default)]
pub(crate) struct KeptStretch {
    /// Of which set (`mark`); `NONE`: there is none. It is asked for every element that is written.
    of: AtomicU64,
    stretch: Mutex<Option<Box<DrawnStretch>>>,
}

/// The mark of no set.
const NONE: u64 = 0;

/// Tells nearly all sets apart by what their rows begin with: the end of it is a number of the set's own.
fn mark(prefix: &[u8]) -> u64 {
    prefix.last_chunk().map_or(1, |number| u64::from_be_bytes(*number).max(1))
}

impl KeptStretch {
    /// An entry has been applied that leaves this one.
    pub(crate) fn keep(&self, stretch: Box<DrawnStretch>) {
        let (_, bytes) = stretch.touched();
        let is_worth_it = stretch.wanted > 0 && bytes <= KEPT_STRETCH_BYTES_MAX;
        let of = if is_worth_it { mark(&stretch.prefix) } else { NONE };
        *self.stretch.lock() = is_worth_it.then_some(stretch);
        self.of.store(of, Ordering::Release);
    }

    /// Takes it out: the entry that goes on with it keeps it again when it is applied.
    pub(crate) fn take(&self) -> Option<Box<DrawnStretch>> {
        if self.of.swap(NONE, Ordering::Acquire) == NONE {
            return None;
        }
        self.stretch.lock().take()
    }

    /// An element is written or removed by an entry that has not taken it.
    #[inline]
    pub(crate) fn touched(&self, prefix: &[u8], name: &[u8]) {
        let of = self.of.load(Ordering::Relaxed);
        if of != NONE && of == mark(prefix) {
            let is_in_it = |stretch: &DrawnStretch| stretch.includes(prefix, name);
            if self.stretch.lock().as_deref().is_none_or(is_in_it) {
                self.forget();
            }
        }
    }

    /// The rows are others from here on.
    pub(crate) fn forget(&self) {
        self.take();
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
        passed: usize,
    }

    impl Set {
        fn of(members: usize, seed: u64) -> Self {
            let names = (0..members).map(|n| element::name_of(n.to_string().as_bytes())).collect();
            Self { names, prng: Prng::new(seed), walks: 0, passed: 0 }
        }

        fn rows(&self) -> Rows {
            Rows { prefix: b"set".to_vec(), count: self.names.len() as u64 }
        }

        fn pop(&mut self, stretch: &mut DrawnStretch) -> Option<Slice> {
            let name = stretch.draw(&self.rows(), self).unwrap()?;
            assert!(self.names.remove(&name[..]), "each is popped once");
            stretch.removed(b"set", &name);
            Some(name)
        }
    }

    impl Source for Set {
        fn below(&mut self, bound: u64) -> u64 {
            self.prng.below(bound)
        }

        fn names(&mut self, _: &Rows, from: &[u8], until: &[u8], limit: usize) -> Result<Vec<Slice>, Fault> {
            self.walks += 1;
            let names = self.names.range(from.to_vec()..).take_while(|name| until.is_empty() || name[..] < *until);
            let names: Vec<Slice> = names.take(limit).map(|name| Slice::from(&name[..])).collect();
            self.passed += names.len();
            Ok(names)
        }
    }

    fn text(name: &[u8]) -> String {
        String::from_utf8(element::field_of(name).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn a_set_is_popped_to_its_end_by_few_walks() {
        for members in [1, 2, 79, 80, 81, 1000, 20_000] {
            let (mut set, mut stretch) = (Set::of(members, 7), DrawnStretch::default());
            (0..members).for_each(|_| assert!(set.pop(&mut stretch).is_some()));
            assert!(set.pop(&mut stretch).is_none());
            assert!(set.walks <= 12 + members / 60, "{} walks for {members}", set.walks);
            assert!(set.passed <= 300 + 2 * members + members / 2, "{} rows for {members}", set.passed);
        }
    }

    #[test]
    fn all_members_are_equally_likely_first_and_later() {
        let members = 1000;
        for at in [1, 9, 30, 90] {
            let mut set = Set::of(members, 11);
            let mut popped: HashMap<Vec<u8>, usize> = HashMap::new();
            let (rounds, rows) = (12_000, set.rows());
            for _ in 0..rounds {
                let mut stretch = DrawnStretch::default();
                let mut last = Slice::empty();
                for _ in 0..at {
                    // The set stays as it is: only what the stretch does is looked at.
                    last = stretch.draw(&rows, &mut set).unwrap().unwrap();
                }
                *popped.entry(last.to_vec()).or_default() += 1;
            }
            let expected = rounds as f64 / members as f64;
            let of = |name: &Vec<u8>| popped.get(name).copied().unwrap_or_default() as f64;
            let chi: f64 = set.names.iter().map(|name| (of(name) - expected).powi(2) / expected).sum();
            // Of 999 degrees of freedom: 999 ± 45.
            assert!(chi < 999.0 + 5.0 * 45.0, "pop {at}: {chi}");
        }
    }

    #[test]
    fn what_is_written_or_removed_meanwhile_is_seen() {
        let (mut set, mut stretch) = (Set::of(50, 3), DrawnStretch::default());
        set.pop(&mut stretch).unwrap();
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
    fn its_row_says_where_the_next_entry_goes_on() {
        let (mut set, mut stretch) = (Set::of(1000, 5), DrawnStretch::default());
        for pops in [1, 10, 16, 3, 90, 200, 7] {
            (0..pops).for_each(|_| _ = set.pop(&mut stretch).unwrap());
            let row = stretch.encode();
            let loaded = DrawnStretch::load(&row, &set.rows(), &mut set).unwrap();
            let is_over = stretch.wanted == 0;
            assert!(loaded == stretch || is_over && loaded.next_width == stretch.next_width && loaded.wanted == 0);
            stretch = loaded;
        }
        set.pop(&mut stretch).unwrap();
        assert!(stretch.wanted > 0 && stretch.next_width > 1);
        let row = stretch.encode();
        // Another set, a row that no release has written, and a set in which one member was added or removed.
        let other = Rows { prefix: b"other".to_vec(), count: 1000 };
        assert_eq!(DrawnStretch::load(&row, &other, &mut set).unwrap(), DrawnStretch::default());
        for unknown in [&b""[..], &[9], &row[..row.len() - 1]] {
            assert_eq!(DrawnStretch::load(unknown, &set.rows(), &mut set).unwrap(), DrawnStretch::default());
        }
        let name = stretch.names[0].to_vec();
        for is_removed in [true, false] {
            let changed = if is_removed { name.clone() } else { [&name[..], b"more"].concat() };
            if is_removed {
                set.names.remove(&changed)
            } else {
                set.names.insert(changed)
            };
            let over = DrawnStretch::load(&row, &set.rows(), &mut set).unwrap();
            assert_eq!((over.wanted, over.next_width, over.names.len()), (0, 0, 0));
            set.names.insert(name.clone());
        }
    }

    #[test]
    fn members_of_one_position_end_with_the_entry() {
        // All lie at a few neighbouring positions, so that no try finds them.
        let names = (0..3000u32).map(|n| [&element::before(7 + u64::from(n % 2))[..], &n.to_be_bytes()].concat());
        let mut set = Set { names: names.collect(), prng: Prng::new(3), walks: 0, passed: 0 };
        let mut stretch = DrawnStretch::default();
        for _ in 0..600 {
            set.pop(&mut stretch).unwrap();
            assert!(stretch.is_cut);
        }
        stretch.encode();
        assert_eq!(stretch.wanted, 0);
    }

    #[test]
    fn what_is_kept_is_forgotten_once_its_members_change() {
        let (mut set, mut stretch) = (Set::of(1000, 5), Box::<DrawnStretch>::default());
        let kept = KeptStretch::default();
        set.pop(&mut stretch).unwrap();
        kept.keep(stretch.clone());
        kept.touched(b"other", &stretch.names[0]);
        let outside = set.names.iter().find(|name| !stretch.includes(b"set", name)).unwrap();
        kept.touched(b"set", outside);
        assert_eq!(kept.take().as_ref(), Some(&stretch));
        assert_eq!(kept.take(), None);
        kept.keep(stretch.clone());
        kept.touched(b"set", &stretch.names[0]);
        assert_eq!(kept.take(), None);
        stretch.forget();
        kept.keep(stretch);
        assert_eq!(kept.take(), None, "it is over");
    }

    #[test]
    fn what_is_drawn_is_a_format() {
        let (mut set, mut stretch) = (Set::of(3000, 1), DrawnStretch::default());
        let drawn: Vec<String> = (0..180).map(|_| text(&set.pop(&mut stretch).unwrap())).collect();
        let some: Vec<&str> = drawn.iter().step_by(9).map(String::as_str).collect();
        let row: String = stretch.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            some.join(" "),
            "210 950 1985 2042 891 2115 1080 1774 914 2870 8 1440 1875 2105 2536 1378 387 2125 79 242"
        );
        assert_eq!(row, "010373657404b201ec0106a0f7327b3d0006b7f5f08cd800");
    }
}

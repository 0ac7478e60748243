//! What the commands of an entry read and write, counted.
//!
//! The bounds of an item decide what is refused, so the count is the same on every replica, whatever is in its memory. The
//! bounds of an event loop decide only where the entry is evaluated.

use crate::space::loop_time::{LoopTime, ROWS_OF_SCAN};
use crate::{Evaluation, Fault};
use vocab::SteadyClock;
use vocab::limits::{
    APPLY_INLINE_ROWS_MAX, APPLY_INLINE_TOUCHED_BYTES_MAX, APPLY_INLINE_US_MAX, ENTRY_TOUCHED_ITEMS, ITEM_BYTES_SURE,
    ITEM_ROWS_MAX, ITEM_ROWS_SURE, ITEM_TOUCHED_BYTES_MAX, LIST_LEAF_ELEMENTS_MAX,
};

/// What an event loop spends on one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopBudget {
    /// Tells how long it takes; none: it may take as long as it does.
    pub(crate) clock: Option<SteadyClock>,
    /// Records and elements that are read and written.
    pub(crate) rows_max: usize,
}

impl Default for LoopBudget {
    fn default() -> Self {
        Self { clock: None, rows_max: APPLY_INLINE_ROWS_MAX }
    }
}

/// Where an entry is evaluated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// On an event loop. What takes more than that is given up, and evaluated again aside.
    EventLoop(LoopBudget),
    /// By a thread that may take its time.
    Aside,
}

impl Place {
    /// Whether an event loop waits for it.
    pub(crate) fn is_event_loop(self) -> bool {
        matches!(self, Self::EventLoop(_))
    }
}

/// For the looks at the clock an item counts as so many rows: it may be a script.
const ROWS_OF_ITEM: u32 = 8;

/// Records and elements that were read or written, and their bytes.
#[derive(Clone, Copy, Debug)]
struct Touched {
    rows: usize,
    bytes: usize,
}

impl Touched {
    const NONE: Self = Self { rows: 0, bytes: 0 };
    const ANY: Self = Self { rows: usize::MAX, bytes: usize::MAX };
    const ENTRY_MAX: Self =
        Self { rows: ENTRY_TOUCHED_ITEMS * ITEM_ROWS_MAX, bytes: ENTRY_TOUCHED_ITEMS * ITEM_TOUCHED_BYTES_MAX };

    fn add(&mut self, rows: usize, bytes: usize) {
        self.rows = self.rows.saturating_add(rows);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn exceeds(&self, max: Self) -> bool {
        self.rows > max.rows || self.bytes > max.bytes
    }
}

/// What an entry has read and written so far, and what it may.
pub(super) struct Work {
    touched: Touched,
    max: Touched,
    place: Place,
    evaluation: Evaluation,
    /// The item under way cannot be, for another reason than what it has touched.
    refused: bool,
    /// Elements that were visited, of many at a time. An event loop alone goes by it: replicas need not agree about it.
    visited: u64,
    /// The time of an event loop.
    time: LoopTime,
}

impl Work {
    /// An entry that is evaluated by those rules. Entries of format 1 had no bounds.
    pub(super) fn new(evaluation: Evaluation, place: Place) -> Self {
        let clock = match place {
            Place::EventLoop(budget) => budget.clock,
            Place::Aside => None,
        };
        let mut work = Self {
            touched: Touched::NONE,
            max: Touched::ANY,
            place,
            evaluation,
            refused: false,
            visited: 0,
            time: LoopTime::new(clock, APPLY_INLINE_US_MAX),
        };
        work.begin_item();
        work
    }

    /// The next item of the entry begins.
    pub(super) fn begin_item(&mut self) {
        self.refused = false;
        self.time.note(ROWS_OF_ITEM);
        self.max = match (self.place, self.evaluation) {
            (Place::EventLoop(budget), _) => Touched { rows: budget.rows_max, bytes: APPLY_INLINE_TOUCHED_BYTES_MAX },
            (Place::Aside, Evaluation::First) => Touched::ANY,
            (Place::Aside, Evaluation::Second) => {
                let with = |rows, bytes| {
                    let mut touched = self.touched;
                    touched.add(rows, bytes);
                    touched
                };
                let (most, sure) = (with(ITEM_ROWS_MAX, ITEM_TOUCHED_BYTES_MAX), with(ITEM_ROWS_SURE, ITEM_BYTES_SURE));
                Touched {
                    rows: most.rows.min(Touched::ENTRY_MAX.rows).max(sure.rows),
                    bytes: most.bytes.min(Touched::ENTRY_MAX.bytes).max(sure.bytes),
                }
            }
        };
    }

    /// So many rows of so many bytes together are read or written. The error: that is too much.
    pub(super) fn add(&mut self, rows: usize, bytes: usize) -> Result<(), Fault> {
        self.touched.add(rows, bytes);
        if self.time.passes(rows, bytes) {
            return Err(Fault::WouldBlock);
        }
        if self.touched.exceeds(self.max) { Err(Fault::WouldBlock) } else { Ok(()) }
    }

    /// A scan begins: it takes as long as some rows that are asked for by name, and passes over some removals.
    pub(super) fn note_scan(&mut self) {
        self.time.note(ROWS_OF_SCAN);
    }

    /// So many elements are visited, of which some lie together in each row. The error: they are too many for an event loop.
    pub(super) fn visit(&mut self, elements: u64) -> Result<(), Fault> {
        // As many as one row has cost no more than that row.
        let many = if elements > LIST_LEAF_ELEMENTS_MAX as u64 { elements } else { 0 };
        self.visited = self.visited.saturating_add(many);
        if self.is_slice() && self.visited > APPLY_INLINE_ROWS_MAX as u64 { Err(Fault::WouldBlock) } else { Ok(()) }
    }

    /// So many bytes the item under way may still read and write.
    pub(super) fn bytes_left(&self) -> usize {
        self.max.bytes.saturating_sub(self.touched.bytes)
    }

    /// Whether the item under way has passed its own bounds: no place is right for it.
    pub(super) fn is_refused(&self) -> bool {
        !self.is_slice() && (self.refused || self.touched.exceeds(self.max))
    }

    /// Whether an event loop waits for it.
    pub(super) fn is_slice(&self) -> bool {
        self.place.is_event_loop()
    }

    /// The item under way cannot be.
    pub(super) fn refuse(&mut self) -> Result<(), Fault> {
        self.refused = true;
        Err(Fault::WouldBlock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_lie_together_count_on_an_event_loop_alone() {
        let most = APPLY_INLINE_ROWS_MAX as u64;
        let mut inline = Work::new(Evaluation::Second, Place::EventLoop(LoopBudget::default()));
        assert!((0..most).all(|_| inline.visit(1).is_ok()), "few at a time are counted by their rows");
        assert!(inline.visit(most).is_ok() && inline.visit(most).is_err() && !inline.is_refused());
        let mut aside = Work::new(Evaluation::Second, Place::Aside);
        assert!(aside.visit(u64::MAX).is_ok() && aside.visit(u64::MAX).is_ok() && !aside.is_refused());
        assert!(aside.add(ITEM_ROWS_MAX, 0).is_ok(), "no bound of an item is about them");
    }

    #[test]
    fn an_event_loop_gives_up_what_takes_long() {
        // Each look is half of the time later.
        fn clock() -> u64 {
            use std::sync::atomic::{AtomicU64, Ordering};
            static NOW_US: AtomicU64 = AtomicU64::new(0);
            NOW_US.fetch_add(APPLY_INLINE_US_MAX / 2, Ordering::Relaxed)
        }
        let added = |place| {
            let mut work = Work::new(Evaluation::Second, place);
            (0..1000).take_while(|_| work.add(1, 1).is_ok()).count()
        };
        assert!(
            (1..1000 - ROWS_OF_ITEM as usize)
                .contains(&added(Place::EventLoop(LoopBudget { clock: Some(clock), ..LoopBudget::default() })))
        );
        assert_eq!(added(Place::EventLoop(LoopBudget::default())), 1000, "no one looks at a clock");
        assert_eq!(added(Place::Aside), 1000);
    }

    #[test]
    fn an_event_loop_gives_up_early_and_an_item_is_refused_late() {
        let rows = |work: &mut Work, rows| work.add(rows, 0).is_ok();
        let mut inline = Work::new(Evaluation::Second, Place::EventLoop(LoopBudget::default()));
        assert!(rows(&mut inline, APPLY_INLINE_ROWS_MAX) && !rows(&mut inline, 1) && !inline.is_refused());
        inline.begin_item();
        assert!(!rows(&mut inline, 1), "an entry is given up as a whole");
        let mut aside = Work::new(Evaluation::Second, Place::Aside);
        assert!(rows(&mut aside, ITEM_ROWS_MAX) && !aside.is_refused());
        assert!(!rows(&mut aside, 1) && aside.is_refused());
        aside.begin_item();
        assert!(rows(&mut aside, ITEM_ROWS_MAX - 1) && !rows(&mut aside, 1), "the entry has a bound, too");
        aside.begin_item();
        assert!(rows(&mut aside, ITEM_ROWS_SURE) && !rows(&mut aside, 1), "a small item is not refused for others");
        let mut first = Work::new(Evaluation::First, Place::Aside);
        assert!(first.add(usize::MAX, usize::MAX).is_ok() && !first.is_refused());
        let mut bytes = Work::new(Evaluation::Second, Place::Aside);
        assert!(bytes.add(1, ITEM_TOUCHED_BYTES_MAX).is_ok() && bytes.add(1, 1).is_err());
    }
}

//! For how long an event loop may be at one thing: rows cost it more or less, by where they are, so their number says little.

use vocab::SteadyClock;

/// After so many rows the clock is looked at.
const ROWS_PER_LOOK: u32 = 32;

/// A scan takes as long as so many rows that are asked for by name.
pub(crate) const ROWS_OF_SCAN: u32 = 8;

/// So many bytes of a row count as another row.
const BYTES_PER_ROW: usize = 8 << 10;

/// The time that an event loop has for one thing, from the first look at the clock on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopTime {
    /// None: no one looks at a clock.
    clock: Option<SteadyClock>,
    span_us: u64,
    /// Rows since the last look.
    unlooked: u32,
    /// When it was looked at first, in µs.
    since_us: Option<u64>,
}

impl LoopTime {
    /// So many µs by that clock.
    pub(crate) const fn new(clock: Option<SteadyClock>, span_us: u64) -> Self {
        Self { clock, span_us, unlooked: 0, since_us: None }
    }

    /// So many rows more: the clock is looked at with one of the next.
    pub(crate) fn note(&mut self, rows: u32) {
        self.unlooked = self.unlooked.saturating_add(rows);
    }

    /// So many rows more, of so many bytes. Whether the time is over.
    #[inline]
    pub(crate) fn passes(&mut self, rows: usize, bytes: usize) -> bool {
        self.note(u32::try_from(rows.saturating_add(bytes / BYTES_PER_ROW)).unwrap_or(u32::MAX));
        self.unlooked >= ROWS_PER_LOOK && self.is_late()
    }

    #[cold]
    fn is_late(&mut self) -> bool {
        self.unlooked = 0;
        let Some(clock) = self.clock else { return false };
        let now_us = clock();
        now_us.saturating_sub(*self.since_us.get_or_insert(now_us)) > self.span_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const SPAN_US: u64 = 1000;

    /// Each look is half of the span later.
    fn clock() -> u64 {
        static NOW_US: AtomicU64 = AtomicU64::new(0);
        NOW_US.fetch_add(SPAN_US / 2, Ordering::Relaxed)
    }

    #[test]
    fn the_span_begins_with_the_first_look_and_looks_are_seldom() {
        let rows = |clock, first| {
            let mut time = LoopTime::new(clock, SPAN_US);
            time.note(first);
            (0..10 * ROWS_PER_LOOK).take_while(|_| !time.passes(1, BYTES_PER_ROW - 1)).count() as u32
        };
        // The fourth look is the first that is more than a span after the first.
        assert_eq!(rows(Some(clock), 0), 4 * ROWS_PER_LOOK - 1);
        assert_eq!(rows(Some(clock), 8), 4 * ROWS_PER_LOOK - 1 - 8);
        assert_eq!(rows(None, 0), 10 * ROWS_PER_LOOK);
        let mut time = LoopTime::new(Some(clock), SPAN_US);
        let long = ROWS_PER_LOOK as usize * BYTES_PER_ROW;
        assert_eq!([(); 4].map(|()| time.passes(1, long)), [false, false, false, true], "long ones are looked at each");
    }
}

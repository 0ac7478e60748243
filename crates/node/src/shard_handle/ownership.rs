//! The slots that a shard answers for: asked before and after each read, and before each write.

use crate::format::slots::Slots;
use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use vocab::{Slot, SlotSpan};

/// What a shard owns as of its applied index, and what of it its leader has proposed to give away.
pub(super) struct Ownership {
    slots: ArcSwap<Slots>,
    fenced: ArcSwapOption<Slots>,
    /// Its first slot and its last one, if it owns all between and none is fenced: most questions need no more than this
    /// one load. `UNSURE`: they have to be asked of the lists.
    range: AtomicU32,
    /// Held while `range` is worked out: it is that of the lists' last change, whichever thread has made it.
    changing: Mutex<()>,
}

/// A range with no slot in it.
const UNSURE: u32 = packed(1, 0);

const fn packed(first: u16, last: u16) -> u32 {
    (first as u32) << 16 | last as u32
}

impl Ownership {
    /// Nothing of `slots` is fenced.
    pub(super) fn of(slots: Slots) -> Self {
        let owned = Self {
            slots: ArcSwap::from_pointee(slots),
            fenced: ArcSwapOption::empty(),
            range: AtomicU32::new(UNSURE),
            changing: Mutex::default(),
        };
        owned.note_range();
        owned
    }

    /// It owns `slots` from here on.
    pub(super) fn set(&self, slots: Arc<Slots>) {
        self.slots.store(slots);
        self.note_range();
    }

    /// What its leader has proposed to give away; `None`: nothing.
    pub(super) fn fence(&self, slots: Option<Slots>) {
        self.fenced.store(slots.map(Arc::new));
        self.note_range();
    }

    fn note_range(&self) {
        let _changing = self.changing.lock();
        let range = match (self.slots.load().ranges(), &*self.fenced.load()) {
            (&[(first, last)], None) => packed(first, last),
            _ => UNSURE,
        };
        self.range.store(range, Ordering::SeqCst);
    }

    /// Whether all slots of a span are surely its own, and none is fenced.
    fn is_sure_of(&self, span: SlotSpan) -> bool {
        let range = self.range.load(Ordering::SeqCst);
        span.is_within(((range >> 16) as u16, range as u16))
    }

    /// Whether it answers for `slot`.
    pub(super) fn owns(&self, slot: Slot) -> bool {
        self.is_sure_of(slot.into())
            || self.has(slot) && self.fenced.load().as_ref().is_none_or(|fenced| !fenced.owns(slot))
    }

    /// The same of all slots of a span.
    pub(super) fn owns_all(&self, span: SlotSpan) -> bool {
        let meets = |fenced: &Arc<Slots>| fenced.ranges().iter().any(|range| span.meets(*range));
        self.is_sure_of(span) || self.has_all(span) && !self.fenced.load().as_ref().is_some_and(meets)
    }

    /// Whether `slot` is its own as of the applied index, fenced or not.
    pub(super) fn has(&self, slot: Slot) -> bool {
        self.is_sure_of(slot.into()) || self.slots.load().owns(slot)
    }

    /// The same of all slots of a span.
    pub(super) fn has_all(&self, span: SlotSpan) -> bool {
        self.is_sure_of(span) || self.slots.load().ranges().iter().any(|range| span.is_within(*range))
    }

    /// The slots as of the applied index.
    pub(super) fn slots(&self) -> Arc<Slots> {
        self.slots.load_full()
    }

    /// Whether something is fenced.
    pub(super) fn is_fenced(&self) -> bool {
        self.fenced.load().is_some()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_way_to_ask_agrees_with_the_lists() {
        let whole = || Slots::from((10, 20));
        let cases = [
            // Slots, what is fenced, what it answers for, what it has.
            (whole(), None, (10..=20).collect::<Vec<u16>>(), (10..=20).collect::<Vec<u16>>()),
            (whole(), Some(Slots::from((15, 20))), (10..=14).collect(), (10..=20).collect()),
            (whole().without(&Slots::from((12, 13))), None, [10, 11].into_iter().chain(14..=20).collect(), {
                [10, 11].into_iter().chain(14..=20).collect()
            }),
        ];
        for (slots, fenced, owned, has) in cases {
            let ownership = Ownership::of(Slots::from((0, 5)));
            ownership.set(Arc::new(slots));
            ownership.fence(fenced);
            for first in 0..30 {
                assert_eq!(ownership.owns(Slot(first)), owned.contains(&first), "{first}");
                assert_eq!(ownership.has(Slot(first)), has.contains(&first), "{first}");
                for last in first..30 {
                    let span = SlotSpan::between(first, last);
                    let all_of = |slots: &[u16]| (first..=last).all(|slot| slots.contains(&slot));
                    assert_eq!(ownership.owns_all(span), all_of(&owned), "{first}..={last}");
                    assert_eq!(ownership.has_all(span), all_of(&has), "{first}..={last}");
                }
            }
            ownership.fence(None);
            assert!(has.iter().all(|slot| ownership.owns(Slot(*slot))), "the fence is gone");
        }
    }
}

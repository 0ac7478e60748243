//! Buffers for reads of a disk, all in one huge page where the system gives one.
//!
//! A device is told of memory by the page. A read of more than one page is one piece to it only if the pages lie side by
//! side in the machine's memory, as those of a huge page do, and small pieces are what a virtual disk is slow at: with 4,608
//! bytes a read it serves a tenth more if they are one (docs/adr/0005). And the kernel keeps such a buffer ready, rather
//! than look it up and hold it for each read.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::ffi::c_void;
use std::io;
use std::ops::Deref;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

/// Of each, in bytes.
pub(crate) const SLOT_BYTES: usize = 16 * 1024;
const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4096;
const SLOTS: usize = HUGE_PAGE_BYTES / SLOT_BYTES;

/// The memory of some buffers, and which of them are free.
pub(crate) struct Slots(Arc<Area>);

struct Area {
    mapped: *mut c_void,
    /// The first byte of a page that is as large as all slots.
    start: *mut u8,
    free: Mutex<Vec<usize>>,
}

/// One buffer. When it goes, another one may have its place: one that the kernel may still write into is to be forgotten.
pub(crate) struct Slot {
    area: Arc<Area>,
    at: usize,
}

impl Slots {
    /// Takes its memory from the system.
    pub(crate) fn new() -> io::Result<Self> {
        Area::new().map(|area| Self(Arc::new(area)))
    }

    pub(crate) fn take(&self) -> Option<Slot> {
        let at = self.0.free().pop()?;
        Some(Slot { area: self.0.clone(), at })
    }

    /// All of them.
    pub(crate) fn memory(&self) -> (*mut u8, usize) {
        (self.0.start, HUGE_PAGE_BYTES)
    }
}

impl Area {
    #[expect(unsafe_code, reason = "memory of the system's")]
    fn new() -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new memory, of no one else's.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), 2 * HUGE_PAGE_BYTES, protection, flags) }?;
        let start = mapped.cast::<u8>();
        let start = start.wrapping_add(start.align_offset(HUGE_PAGE_BYTES));
        with_huge_pages(|| {
            // SAFETY: it is within what was mapped, which is twice as long. Small pages serve as well.
            let _ = unsafe { madvise(start.cast(), HUGE_PAGE_BYTES, Advice::LinuxHugepage) };
            for page in 0..HUGE_PAGE_BYTES / PAGE_BYTES {
                // SAFETY: as before. So it is there, all of it, as zeros.
                unsafe { start.wrapping_add(page * PAGE_BYTES).write(0) };
            }
        });
        Ok(Self { mapped, start, free: Mutex::new((0..SLOTS).rev().collect()) })
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A node has no huge pages for its heap (docs/adr/0016); `touch` may have some.
fn with_huge_pages(touch: impl FnOnce()) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let disabled = transparent_huge_pages_are_disabled().unwrap_or(false);
    if disabled {
        let _ = disable_transparent_huge_pages(false);
    }
    touch();
    if disabled {
        let _ = disable_transparent_huge_pages(true);
    }
}

impl Drop for Area {
    #[expect(unsafe_code, reason = "memory of the system's")]
    fn drop(&mut self) {
        // SAFETY: as it was mapped; each slot keeps the area, so there is none.
        let _ = unsafe { munmap(self.mapped, 2 * HUGE_PAGE_BYTES) };
    }
}

// SAFETY: the memory is of whoever has a slot; which are free is behind a lock.
#[expect(unsafe_code, reason = "a slot is its owner's alone")]
unsafe impl Send for Area {}
// SAFETY: as before.
#[expect(unsafe_code, reason = "a slot is its owner's alone")]
unsafe impl Sync for Area {}

impl Slot {
    /// Where the kernel is to write. Not while anybody looks at it.
    pub(crate) fn target(&mut self) -> *mut u8 {
        self.area.start.wrapping_add(self.at * SLOT_BYTES)
    }
}

impl Deref for Slot {
    type Target = [u8];

    #[expect(unsafe_code, reason = "memory of the system's")]
    fn deref(&self) -> &[u8] {
        let start = self.area.start.wrapping_add(self.at * SLOT_BYTES);
        // SAFETY: within the area, which the slot keeps; initialised when that was made; no other slot has this place.
        unsafe { std::slice::from_raw_parts(start, SLOT_BYTES) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.area.free().push(self.at);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_has_a_place_of_its_own_until_it_goes() {
        let slots = Slots::new().unwrap();
        let (start, length) = slots.memory();
        let mut taken: Vec<Slot> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken.len(), SLOTS);
        let mut places: Vec<usize> = taken.iter_mut().map(|slot| slot.target().addr() - start.addr()).collect();
        places.sort_unstable();
        assert!(places.iter().enumerate().all(|(i, place)| *place == i * SLOT_BYTES), "{places:?}");
        assert_eq!(length, SLOTS * SLOT_BYTES);
        assert!(taken.iter().all(|slot| slot.len() == SLOT_BYTES && slot.iter().all(|byte| *byte == 0)));
        let again = taken.swap_remove(5).target().addr();
        assert_eq!(slots.take().unwrap().target().addr(), again);
        drop(slots);
        assert_eq!(taken[0][0], 0, "a slot keeps the memory");
    }
}

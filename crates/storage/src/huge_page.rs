//! Buffers for a disk, all in one huge page where the system gives one.
//!
//! A device is told of memory by the page. A read or a write of more than one page is one piece to it only if the pages lie side by
//! side in the machine's memory, as those of a huge page do, and small pieces are what a virtual disk is slow at: with 4,608
//! bytes a read it serves a tenth more if they are one (docs/adr/0005). And the kernel keeps such a buffer ready, rather
//! than look it up and hold it for each read.

use memmap2::{Advice, MmapMut, MmapRaw};
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4096;

/// The memory of some buffers, and which of them are free.
pub struct HugePage(Arc<Area>);

/// Invariant: each number below the count of pieces is in `free` or belongs to exactly one `Piece`.
struct Area {
    /// The length of each piece.
    piece_bytes: usize,
    /// Twice a huge page, so that a whole one lies in it. No reference to all of it is made any more: its bytes are reached
    /// through pieces alone.
    mapped: MmapRaw,
    /// Where the huge page begins in it.
    start: usize,
    /// The numbers of the pieces that are not taken.
    free: Mutex<Vec<usize>>,
}

/// One buffer. When it goes, another one may have its place: one that the kernel may still use is to be forgotten.
pub struct Piece {
    area: Arc<Area>,
    at: usize,
}

impl HugePage {
    /// Takes its memory from the system, for buffers of so many bytes: a divisor of 2 MB, at least a page of 4 KB.
    ///
    /// # Errors
    /// The system's: it has no memory.
    ///
    /// # Panics
    /// If they do not fill it.
    pub fn new(piece_bytes: usize) -> io::Result<Self> {
        assert!(HUGE_PAGE_BYTES.is_multiple_of(piece_bytes) && piece_bytes.is_multiple_of(PAGE_BYTES));
        Area::new(piece_bytes).map(|area| Self(Arc::new(area)))
    }

    /// A free buffer.
    #[must_use]
    pub fn take(&self) -> Option<Piece> {
        let at = self.0.free().pop()?;
        Some(Piece { area: self.0.clone(), at })
    }

    /// All of them.
    pub(crate) fn memory(&self) -> (*mut u8, usize) {
        (self.0.first_byte(), HUGE_PAGE_BYTES)
    }
}

impl Area {
    fn new(piece_bytes: usize) -> io::Result<Self> {
        let mut mapped = MmapMut::map_anon(2 * HUGE_PAGE_BYTES)?;
        let start = mapped.as_ptr().align_offset(HUGE_PAGE_BYTES);
        with_huge_pages(|| {
            // Small pages serve as well, and are all that miri has.
            if !cfg!(miri) {
                let _ = mapped.advise_range(Advice::HugePage, start, HUGE_PAGE_BYTES);
            }
            // A write to each page makes the system provide it now.
            mapped[start..start + HUGE_PAGE_BYTES].iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 0);
        });
        let free = Mutex::new((0..HUGE_PAGE_BYTES / piece_bytes).rev().collect());
        Ok(Self { piece_bytes, mapped: mapped.into(), start, free })
    }

    fn first_byte(&self) -> *mut u8 {
        self.mapped.as_mut_ptr().wrapping_add(self.start)
    }

    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        self.free.lock().expect("nothing panics while it is held")
    }
}

/// A node has no huge pages for its heap (docs/adr/0016); `touch` may have some.
fn with_huge_pages(touch: impl FnOnce()) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().expect("nothing panics while it is held");
    let disabled = !cfg!(miri) && transparent_huge_pages_are_disabled().unwrap_or(false);
    if disabled {
        let _ = disable_transparent_huge_pages(false);
    }
    touch();
    if disabled && let Err(e) = disable_transparent_huge_pages(true) {
        log::warn!("the system may give huge pages to all of this process from now on: {e}");
    }
}

impl Piece {
    /// Where the kernel is to write, while no reference to the bytes exists.
    pub(crate) fn target(&mut self) -> *mut u8 {
        self.area.first_byte().wrapping_add(self.at * self.area.piece_bytes)
    }
}

impl Deref for Piece {
    type Target = [u8];

    #[expect(unsafe_code, reason = "a part of shared memory that this piece alone has")]
    fn deref(&self) -> &[u8] {
        let bytes = self.area.piece_bytes;
        let start = self.area.first_byte().wrapping_add(self.at * bytes);
        // SAFETY: `Area::new` mapped and wrote a huge page from `first_byte` on, and `at` is below the count of pieces in it,
        // so the range is mapped and initialised; `area` keeps it mapped. No other piece has this number (see `Area`), so
        // no one writes the range while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }
}

impl DerefMut for Piece {
    #[expect(unsafe_code, reason = "a part of shared memory that this piece alone has")]
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = self.area.piece_bytes;
        // SAFETY: the range is mapped and initialised, as in `deref`. `&mut self` and the free list guarantee that no other
        // reference to it exists.
        unsafe { std::slice::from_raw_parts_mut(self.target(), bytes) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut free = self.area.free();
        debug_assert!(!free.contains(&self.at), "a piece is free and taken");
        free.push(self.at);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_has_a_place_of_its_own_until_it_goes() {
        const PIECE_BYTES: usize = 16 << 10;
        let page = HugePage::new(PIECE_BYTES).unwrap();
        let (start, length) = page.memory();
        let mut taken: Vec<Piece> = std::iter::from_fn(|| page.take()).collect();
        let mut places: Vec<usize> = taken.iter_mut().map(|piece| piece.target().addr() - start.addr()).collect();
        places.sort_unstable();
        assert!(places.iter().enumerate().all(|(i, place)| *place == i * PIECE_BYTES), "{places:?}");
        assert_eq!(length, taken.len() * PIECE_BYTES);
        assert!(taken.iter().all(|piece| piece[..] == [0; PIECE_BYTES]));
        for (n, piece) in (1..).zip(&mut taken) {
            piece.fill(n);
        }
        assert!((1..).zip(&taken).all(|(n, piece)| piece[..] == [n; PIECE_BYTES]));
        let again = taken.swap_remove(5).target().addr();
        assert_eq!(page.take().unwrap().target().addr(), again);
        drop(page);
        assert_eq!(taken[0][0], 1, "a piece keeps the memory");
    }
}

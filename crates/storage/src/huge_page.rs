//! Buffers for a disk, all in one huge page where the system gives one.
//!
//! A device is told of memory by the page. A read or a write of more than one page is one piece to it only if the pages lie side by
//! side in the machine's memory, as those of a huge page do, and small pieces are what a virtual disk is slow at: with 4,608
//! bytes a read it serves a tenth more if they are one (docs/adr/0005). And the kernel keeps such a buffer ready, rather
//! than look it up and hold it for each read.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::ffi::c_void;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4096;

/// The memory of some buffers, and which of them are free.
pub struct HugePage(Arc<Area>);

struct Area {
    /// Of each buffer.
    piece_bytes: usize,
    mapped: *mut c_void,
    /// The first byte of a page that is as large as all pieces.
    start: *mut u8,
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

    /// A buffer that nobody has.
    #[must_use]
    pub fn take(&self) -> Option<Piece> {
        let at = self.0.free().pop()?;
        Some(Piece { area: self.0.clone(), at })
    }

    /// All of them.
    pub(crate) fn memory(&self) -> (*mut u8, usize) {
        (self.0.start, HUGE_PAGE_BYTES)
    }
}

impl Area {
    #[expect(unsafe_code, reason = "memory of the system's")]
    fn new(piece_bytes: usize) -> io::Result<Self> {
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
        let free = Mutex::new((0..HUGE_PAGE_BYTES / piece_bytes).rev().collect());
        Ok(Self { piece_bytes, mapped, start, free })
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
    if disabled && let Err(e) = disable_transparent_huge_pages(true) {
        log::warn!("the system may give huge pages to all of this process from now on: {e}");
    }
}

impl Drop for Area {
    #[expect(unsafe_code, reason = "memory of the system's")]
    fn drop(&mut self) {
        // SAFETY: as it was mapped; each piece keeps the area, so there is none.
        let _ = unsafe { munmap(self.mapped, 2 * HUGE_PAGE_BYTES) };
    }
}

// SAFETY: the memory is of whoever has a piece; which are free is behind a lock.
#[expect(unsafe_code, reason = "a piece is its owner's alone")]
unsafe impl Send for Area {}
// SAFETY: as before.
#[expect(unsafe_code, reason = "a piece is its owner's alone")]
unsafe impl Sync for Area {}

impl Piece {
    /// Where the kernel is to write. Not while anybody looks at it.
    pub(crate) fn target(&mut self) -> *mut u8 {
        self.area.start.wrapping_add(self.at * self.area.piece_bytes)
    }
}

impl Deref for Piece {
    type Target = [u8];

    #[expect(unsafe_code, reason = "memory of the system's")]
    fn deref(&self) -> &[u8] {
        let bytes = self.area.piece_bytes;
        let start = self.area.start.wrapping_add(self.at * bytes);
        // SAFETY: within the area, which the piece keeps; initialised when that was made; no other piece has this place.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }
}

impl DerefMut for Piece {
    #[expect(unsafe_code, reason = "memory of the system's")]
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = self.area.piece_bytes;
        // SAFETY: as above; whoever has the piece to themselves has its place to themselves.
        unsafe { std::slice::from_raw_parts_mut(self.target(), bytes) }
    }
}

impl Drop for Piece {
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
        const PIECE_BYTES: usize = 16 << 10;
        let page = HugePage::new(PIECE_BYTES).unwrap();
        let (start, length) = page.memory();
        let mut taken: Vec<Piece> = std::iter::from_fn(|| page.take()).collect();
        let mut places: Vec<usize> = taken.iter_mut().map(|piece| piece.target().addr() - start.addr()).collect();
        places.sort_unstable();
        assert!(places.iter().enumerate().all(|(i, place)| *place == i * PIECE_BYTES), "{places:?}");
        assert_eq!(length, taken.len() * PIECE_BYTES);
        assert!(taken.iter().all(|piece| piece.len() == PIECE_BYTES && piece.iter().all(|byte| *byte == 0)));
        for (n, piece) in (1..).zip(&mut taken) {
            piece.fill(n);
        }
        assert!((1..).zip(&taken).all(|(n, piece)| piece.iter().all(|byte| *byte == n)));
        let again = taken.swap_remove(5).target().addr();
        assert_eq!(page.take().unwrap().target().addr(), again);
        drop(page);
        assert_eq!(taken[0][0], 1, "a piece keeps the memory");
    }
}

//! Small blocks of memory for a Lua state that is used again.
//!
//! A run makes some dozens of texts and tables, which are gone soon after it. They come from one region of memory, block by block,
//! and a block that is given back is the next of its size to be taken: that is shorter than a way through a binding and an allocator for all
//! threads, and the blocks stay in the processor's caches.
//!
//! Invariant: a block of the region is of a size that is a multiple of `UNIT_BYTES`; it is taken, or in the list of its size, or
//! behind `taken`.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// Sizes are multiples of it.
const UNIT_BYTES: usize = 16;
/// Larger blocks are not its.
const SMALL_BYTES_MAX: usize = 256;
/// Bytes of the region: more than the prelude and the garbage of a few hundred runs.
const REGION_BYTES: usize = 1 << 20;
const SIZES: usize = SMALL_BYTES_MAX / UNIT_BYTES;

/// The alignment of a block.
#[repr(align(16))]
#[derive(Clone, Copy)]
struct Unit(#[expect(dead_code, reason = "it is as large as that")] [u8; UNIT_BYTES]);

/// A block that is free: where the next one of its size is.
#[derive(Debug)]
struct Free {
    next: Option<NonNull<Free>>,
}

/// A region of memory, and which of its blocks are free.
#[derive(Debug)]
pub struct SmallBlocks {
    region: NonNull<[MaybeUninit<Unit>]>,
    /// So many units were taken at some time.
    taken: Cell<usize>,
    /// The free blocks, by their size.
    free: [Cell<Option<NonNull<Free>>>; SIZES],
}

impl Default for SmallBlocks {
    fn default() -> Self {
        Self::new()
    }
}

impl SmallBlocks {
    /// A region of which nothing is taken.
    #[must_use]
    pub fn new() -> Self {
        // Its pages become memory where they are used.
        let region = NonNull::from(Box::leak(Box::new_uninit_slice(REGION_BYTES / UNIT_BYTES)));
        Self { region, taken: Cell::new(0), free: [const { Cell::new(None) }; SIZES] }
    }

    /// Whether a block lies in the region.
    #[must_use]
    pub fn has(&self, block: *const u8) -> bool {
        block.addr().wrapping_sub(self.region.as_ptr().cast::<u8>().addr()) < REGION_BYTES
    }

    /// Whether a block of one size may be used as one of the other.
    #[must_use]
    pub fn are_alike(one: usize, other: usize) -> bool {
        units_of(one) == units_of(other)
    }

    /// A block of so many bytes; none if it is too large, or the region is full.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let units = units_of(bytes);
        let free = self.free.get(units.checked_sub(1)?)?;
        if let Some(block) = free.get() {
            // SAFETY: what is in the list is a free block of the region, into which `give` has written where the next one is.
            free.set(unsafe { block.as_ref() }.next);
            return Some(block.cast());
        }
        let from = self.taken.get();
        let to = from + units;
        if to > REGION_BYTES / UNIT_BYTES {
            return None;
        }
        self.taken.set(to);
        // SAFETY: it lies within the region.
        Some(unsafe { NonNull::new_unchecked(self.region.as_ptr().cast::<Unit>().add(from)) }.cast())
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// `take` has given it for as many bytes, or for a size that is alike, and nothing refers to it.
    pub unsafe fn give(&self, block: NonNull<u8>, bytes: usize) {
        let free = &self.free[units_of(bytes) - 1];
        let block = block.cast::<Free>();
        // SAFETY: the block is at least as large as `Free` and aligned as it, and nothing else refers to it.
        unsafe { block.write(Free { next: free.get() }) };
        free.set(Some(block));
    }
}

fn units_of(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES)
}

impl Drop for SmallBlocks {
    fn drop(&mut self) {
        // SAFETY: `new` has made it of a box; who has taken a block does not use it any more.
        drop(unsafe { Box::from_raw(ptr::from_mut(self.region.as_mut())) });
    }
}

const _: () = assert!(size_of::<Free>() <= UNIT_BYTES && align_of::<Free>() <= align_of::<Unit>());

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::HashMap;
    use vocab::Prng;

    #[test]
    fn blocks_do_not_overlap_and_are_taken_again() {
        let blocks = SmallBlocks::new();
        let mut prng = Prng::new(7);
        let mut taken: HashMap<usize, (NonNull<u8>, usize, u8)> = HashMap::new();
        // Miri looks at each step.
        let steps = if cfg!(miri) { 1_000 } else { 20_000_u32 };
        for n in 0..steps {
            if prng.next_u64().is_multiple_of(2) || taken.len() < 10 {
                let bytes = 1 + (prng.next_u64() as usize) % SMALL_BYTES_MAX;
                let Some(block) = blocks.take(bytes) else { continue };
                assert!(blocks.has(block.as_ptr()) && block.addr().get().is_multiple_of(UNIT_BYTES));
                let mark = n as u8;
                // SAFETY: the block is of so many bytes.
                unsafe { block.write_bytes(mark, bytes) };
                assert!(taken.insert(block.addr().get(), (block, bytes, mark)).is_none(), "taken twice");
            } else {
                let at = *taken.keys().nth((prng.next_u64() as usize) % taken.len()).unwrap();
                let (block, bytes, mark) = taken.remove(&at).unwrap();
                // SAFETY: it was taken for so many bytes, and is not used behind this.
                unsafe {
                    assert!((0..bytes).all(|at| block.add(at).read() == mark), "two blocks overlap");
                    blocks.give(block, bytes);
                }
            }
        }
        assert!(blocks.take(SMALL_BYTES_MAX + 1).is_none() && blocks.take(0).is_none());
        assert!(SmallBlocks::are_alike(17, 32) && !SmallBlocks::are_alike(16, 17));
        assert!(!blocks.has(ptr::null()));
        let count = std::iter::from_fn(|| blocks.take(SMALL_BYTES_MAX)).count();
        assert!(count > 0 && count <= REGION_BYTES / SMALL_BYTES_MAX, "a full region gives no more");
    }
}

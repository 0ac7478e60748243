//! Has the processor bring memory near before it is read.
//!
//! Where a store takes gigabytes, each read of a row that was not read recently waits for memory, and longer for the
//! tables of pages that say where that is. A processor has ten such waits and more at a time if none needs what another
//! brings, and if nothing between them has to be in order, as the taking of a lock has. So a caller with many look-ups to make
//! notes the lines of all of them first, has them fetched, and goes on to what is found there.

/// Steps of bringing near what a look-up by hash reads: what each brings is read by the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Where the table says where the row is.
    Place,
    /// The row.
    Row,
    /// Its value, if that lies elsewhere.
    Value,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Place, Self::Row, Self::Value];
}

/// Bytes that a processor's caches take at a time.
const LINE_BYTES: usize = 64;

/// Addresses of lines that will be read soon. What they are of may be gone by then: they are not read here.
#[derive(Debug, Default)]
pub struct Lines(Vec<usize>);

impl Lines {
    /// The lines of `what`, which is at most two lines long.
    pub(crate) fn add<T>(&mut self, what: &T) {
        const { assert!(size_of::<T>() <= 2 * LINE_BYTES) };
        let first = (&raw const *what).addr();
        self.0.push(first);
        let last = first + size_of::<T>() - 1;
        if first / LINE_BYTES != last / LINE_BYTES {
            self.0.push(last);
        }
    }

    /// The first line of `bytes`.
    pub(crate) fn add_first(&mut self, bytes: &[u8]) {
        self.0.push(bytes.as_ptr().addr());
    }

    /// Has them all fetched, and forgets them.
    pub fn fetch(&mut self) {
        self.0.drain(..).for_each(fetch);
    }
}

#[inline]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "an instruction that has no effect on the program"))]
fn fetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it never faults, whatever the address is, and changes nothing but what is cached. Every x86-64 has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

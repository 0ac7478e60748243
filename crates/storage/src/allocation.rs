//! What bytes take on the heap: budgets count that, not what was asked for.

/// Up to this length, a slice is held inline.
const INLINE_BYTES: usize = 16;
/// Before the bytes of a slice.
const HEAD_BYTES: usize = 8;
/// The allocator's step between small sizes.
const SMALL_STEP: usize = 16;

/// What a slice of so many bytes takes on the heap. The allocator has four sizes between one power of two and the next,
/// and gives the next larger: a row of 1,030 bytes takes 1,280.
pub(crate) fn heap_bytes(length: usize) -> usize {
    if length <= INLINE_BYTES {
        return 0;
    }
    let bytes = length + HEAD_BYTES;
    bytes.next_multiple_of((bytes.next_power_of_two() / 8).max(SMALL_STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_allocator() {
        for (length, bytes) in
            [(0, 0), (16, 0), (17, 32), (100, 112), (120, 128), (121, 160), (1016, 1024), (1017, 1280), (4100, 5120)]
        {
            assert_eq!(heap_bytes(length), bytes, "{length}");
        }
    }
}

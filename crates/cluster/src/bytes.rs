//! Ranges of slots in the map's layouts. One value has one encoding, so that equal maps are equal bytes.

use vocab::{Reader, SLOT_COUNT, put_varint};

pub(crate) type Result<T> = std::result::Result<T, &'static str>;

/// Ranges of slots, first and last, that rise with gaps between them.
pub(crate) fn put_slots(bytes: &mut Vec<u8>, slots: &[(u16, u16)]) {
    put_varint(bytes, slots.len() as u64);
    let mut next = 0;
    for &(first, last) in slots {
        put_varint(bytes, u64::from(first - next));
        put_varint(bytes, u64::from(last - first));
        next = last + 1;
    }
}

/// What [`put_slots`] wrote.
pub(crate) fn read_slots(reader: &mut Reader<'_>) -> Result<Vec<(u16, u16)>> {
    let count = reader.count_at_most(usize::from(SLOT_COUNT), 2)?;
    let mut slots = Vec::with_capacity(count);
    let mut next = 0;
    for _ in 0..count {
        let first = next + reader.at_most(u64::from(SLOT_COUNT))?;
        let last = first + reader.at_most(u64::from(SLOT_COUNT))?;
        if last >= u64::from(SLOT_COUNT) {
            return Err("a range of slots is too large");
        }
        slots.push((first as u16, last as u16));
        next = last + 1;
    }
    Ok(slots)
}

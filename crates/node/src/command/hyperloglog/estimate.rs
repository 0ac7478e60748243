//! Where an element counts, and how many elements registers tell of: Otmar Ertl, "New cardinality estimation algorithms for
//! HyperLogLog sketches", arXiv:1702.01284.

/// Bits of an element's hash that choose its register.
const INDEX_BITS: u32 = 14;
/// Bits of it in which the first one that is set is looked for.
const PATTERN_BITS: u32 = 64 - INDEX_BITS;
/// Registers of a sketch.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
/// Values of a register, those that no element leads to included: a register has six bits.
pub(super) const REGISTER_VALUES: usize = 64;
/// 0.5 / ln 2.
const ALPHA: f64 = 0.721_347_520_444_481_7;
const SEED: u64 = 0xadc8_3b19;

/// How many registers have each value.
pub(super) type Histogram = [u32; REGISTER_VALUES];

/// The register of an element, and the value that it raises it to.
pub(super) fn place_of(element: &[u8]) -> (usize, u8) {
    let hash = murmur_64a(element);
    let index = hash as usize & (REGISTERS - 1);
    let pattern = hash >> INDEX_BITS | 1 << PATTERN_BITS;
    (index, pattern.trailing_zeros() as u8 + 1)
}

/// MurmurHash64A, as every Redis computes it.
fn murmur_64a(bytes: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, &byte| tail << 8 | u64::from(byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

/// About how many elements the registers tell of.
pub(super) fn estimate(histogram: &Histogram) -> u64 {
    let registers = REGISTERS as f64;
    let with = |value: u32| f64::from(histogram[value as usize]);
    let mut z = registers * tau((registers - with(PATTERN_BITS + 1)) / registers);
    for value in (1..=PATTERN_BITS).rev() {
        z = (z + with(value)) * 0.5;
    }
    z += registers * sigma(with(0) / registers);
    (ALPHA * registers * registers / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_a_format() {
        // What Redis computes for the same elements.
        assert_eq!(
            [&b""[..], b"a", b"hello world"].map(murmur_64a),
            [0xd8dfea6585bc9732, 6_039_968_161_137_406_375, 12_184_977_182_547_125_431]
        );
    }

    #[test]
    fn an_empty_sketch_has_no_element_and_a_full_one_many() {
        let mut histogram = [0; REGISTER_VALUES];
        histogram[0] = REGISTERS as u32;
        assert_eq!(estimate(&histogram), 0);
        let mut histogram = [0; REGISTER_VALUES];
        histogram[PATTERN_BITS as usize + 1] = REGISTERS as u32;
        assert!(estimate(&histogram) > 1 << 60);
    }
}

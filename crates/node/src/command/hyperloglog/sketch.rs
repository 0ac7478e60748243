//! The bytes of a HyperLogLog.
//!
//! ```text
//! bytes 0..4   "HYLL"
//! byte  4      0 dense, 1 sparse
//! bytes 5..8   0
//! bytes 8..16  the number of elements as it was last computed, little-endian; its highest bit says that it is stale
//! dense        16,384 registers of six bits, the first in the lowest bits of the first byte
//! sparse       runs of registers: 00nnnnnn: n + 1 zeros; 01nnnnnn mmmmmmmm: nm + 1 zeros;
//!              1vvvvvnn: n + 1 registers of value v + 1
//! ```
//! Invariant: what is changed here has the bytes that Redis would have come to, so that either may go on with it.

use super::estimate::{Histogram, REGISTER_VALUES, REGISTERS};

const MAGIC: &[u8; 4] = b"HYLL";
const HEAD_BYTES: usize = 16;
const ENCODING: usize = 4;
/// The last byte of the number of elements.
const STALE: usize = 15;
const STALE_BIT: u8 = 0x80;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const REGISTER_BITS: usize = 6;
const DENSE_BYTES: usize = HEAD_BYTES + REGISTERS * REGISTER_BITS / 8;
/// Longest run of zeros of one byte.
const ZEROS_MAX: usize = 64;
/// Longest run of zeros.
const LONG_ZEROS_MAX: usize = 16_384;
/// Longest run of registers of one value.
const VALUES_MAX: usize = 4;
/// Highest value of a register that a sparse sketch can hold.
const SPARSE_VALUE_MAX: u8 = 32;
/// Runs that are looked at for neighbours of one value after a change.
const MERGED_RUNS: usize = 5;

/// The string is no sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotSketch;

/// The runs of a sparse sketch do not cover its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt;

/// The highest value of each register, of several sketches.
pub(super) type Registers = [u8; REGISTERS];

/// A HyperLogLog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sketch(Vec<u8>);

/// Registers in a row of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Their value.
    pub(super) value: u8,
    /// How many they are.
    pub(super) length: usize,
    /// How many bytes say so.
    pub(super) bytes: usize,
}

impl Run {
    /// The run that begins at a place of a sparse sketch.
    fn at(bytes: &[u8], at: usize) -> Result<Self, Corrupt> {
        let first = *bytes.get(at).ok_or(Corrupt)?;
        match first >> 6 {
            0 => Ok(Self { value: 0, length: usize::from(first & 0x3f) + 1, bytes: 1 }),
            1 => {
                let low = *bytes.get(at + 1).ok_or(Corrupt)?;
                Ok(Self { value: 0, length: (usize::from(first & 0x3f) << 8 | usize::from(low)) + 1, bytes: 2 })
            }
            _ => Ok(Self { value: (first >> 2 & 0x1f) + 1, length: usize::from(first & 3) + 1, bytes: 1 }),
        }
    }

    /// Appends a run; nothing if it is empty.
    fn push(out: &mut Vec<u8>, value: u8, length: usize) {
        debug_assert!(length <= if value == 0 { LONG_ZEROS_MAX } else { VALUES_MAX });
        match (value, length) {
            (_, 0) => {}
            (0, 1..=ZEROS_MAX) => out.push(length as u8 - 1),
            (0, _) => out.extend_from_slice(&[((length - 1) >> 8) as u8 | 0x40, (length - 1) as u8]),
            _ => out.push(0x80 | (value - 1) << 2 | (length as u8 - 1)),
        }
    }
}

/// Where a run of a sparse sketch begins.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// In the bytes.
    at: usize,
    /// Its first register.
    first: usize,
}

impl Place {
    /// Of the first run.
    const FIRST: Self = Self { at: HEAD_BYTES, first: 0 };
}

impl Sketch {
    /// One without elements.
    pub(super) fn new() -> Self {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[..ENCODING].copy_from_slice(MAGIC);
        bytes[ENCODING] = SPARSE;
        Run::push(&mut bytes, 0, REGISTERS);
        Self(bytes)
    }

    /// The sketch that a string holds. Runs are checked as they are walked.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, NotSketch> {
        let is_sketch = bytes.len() >= HEAD_BYTES
            && bytes.starts_with(MAGIC)
            && match bytes[ENCODING] {
                DENSE => bytes.len() == DENSE_BYTES,
                encoding => encoding == SPARSE,
            };
        if is_sketch { Ok(Self(bytes.to_vec())) } else { Err(NotSketch) }
    }

    /// Its string.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether all registers stand in it as they are.
    pub(super) fn is_dense(&self) -> bool {
        self.0[ENCODING] == DENSE
    }

    /// The number of elements as it was last computed; `None` if it is stale.
    pub(super) fn known_count(&self) -> Option<u64> {
        let count = &self.0[HEAD_BYTES - 8..HEAD_BYTES];
        (self.0[STALE] & STALE_BIT == 0).then(|| u64::from_le_bytes(count.try_into().expect("eight bytes")))
    }

    /// From here on the number of elements is to be computed anew.
    pub(super) fn forget_count(&mut self) {
        self.0[STALE] |= STALE_BIT;
    }

    /// Calls `visit` with every run of registers; those of a dense sketch are of one register.
    fn each_run(&self, mut visit: impl FnMut(usize, Run)) -> Result<(), Corrupt> {
        if self.is_dense() {
            (0..REGISTERS).for_each(|index| visit(index, Run { value: self.register(index), length: 1, bytes: 0 }));
            return Ok(());
        }
        let (mut at, mut index) = (HEAD_BYTES, 0);
        while at < self.0.len() {
            let run = Run::at(&self.0, at)?;
            if index + run.length > REGISTERS {
                return Err(Corrupt);
            }
            visit(index, run);
            (at, index) = (at + run.bytes, index + run.length);
        }
        if index == REGISTERS { Ok(()) } else { Err(Corrupt) }
    }

    /// The runs of a sparse sketch, as they stand in it; those before a fault.
    pub(super) fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        // The runs before a fault are what PFDEBUG DECODE is asked for.
        let _ = self.each_run(|_, run| runs.push(run));
        runs
    }

    /// How many registers have each value.
    pub(super) fn histogram(&self) -> Result<Histogram, Corrupt> {
        let mut histogram = [0; REGISTER_VALUES];
        self.each_run(|_, run| histogram[usize::from(run.value)] += run.length as u32)?;
        Ok(histogram)
    }

    /// Raises each register to this sketch's.
    pub(super) fn merge_into(&self, registers: &mut Registers) -> Result<(), Corrupt> {
        self.each_run(|index, run| {
            if run.value > 0 {
                let covered = &mut registers[index..index + run.length];
                covered.iter_mut().for_each(|register| *register = run.value.max(*register));
            }
        })
    }

    /// Makes it dense.
    pub(super) fn make_dense(&mut self) -> Result<(), Corrupt> {
        if self.is_dense() {
            return Ok(());
        }
        let mut dense = Self(vec![0; DENSE_BYTES]);
        dense.0[..HEAD_BYTES].copy_from_slice(&self.0[..HEAD_BYTES]);
        dense.0[ENCODING] = DENSE;
        self.each_run(|index, run| {
            if run.value > 0 {
                (index..index + run.length).for_each(|index| dense.set_register(index, run.value));
            }
        })?;
        *self = dense;
        Ok(())
    }

    /// A register of a dense sketch.
    fn register(&self, index: usize) -> u8 {
        let (at, shift) = (HEAD_BYTES + index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
        let high = self.0.get(at + 1).copied().unwrap_or(0);
        ((u16::from(high) << 8 | u16::from(self.0[at])) >> shift) as u8 & 0x3f
    }

    fn set_register(&mut self, index: usize, value: u8) {
        let (at, shift) = (HEAD_BYTES + index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
        let (mask, bits) = (0x3f_u16 << shift, u16::from(value) << shift);
        self.0[at] = self.0[at] & !(mask as u8) | bits as u8;
        if let Some(high) = self.0.get_mut(at + 1) {
            *high = *high & !((mask >> 8) as u8) | (bits >> 8) as u8;
        }
    }

    /// Raises a register to `value`, if it is lower; tells whether it was. A sparse sketch that would be longer than
    /// `sparse_bytes_max` becomes dense.
    pub(super) fn raise(&mut self, index: usize, value: u8, sparse_bytes_max: u64) -> Result<bool, Corrupt> {
        if self.is_dense() {
            let is_lower = self.register(index) < value;
            if is_lower {
                self.set_register(index, value);
            }
            return Ok(is_lower);
        }
        let mut before = Place::FIRST;
        let found = self.run_of(index, Place::FIRST, |passed| before = passed)?;
        self.raise_within(found, before, (index, value), sparse_bytes_max)
    }

    /// Raises each register to that of `registers`, as `raise` of one after the other does, and comes to the same bytes. It walks
    /// over the runs of a sparse sketch once.
    pub(super) fn raise_all(&mut self, registers: &Registers, sparse_bytes_max: u64) -> Result<(), Corrupt> {
        // Where the runs before the next one to be looked at begin.
        let (mut passed, mut from) = (Vec::new(), Place::FIRST);
        for (index, value) in registers.iter().copied().enumerate().filter(|(_, value)| *value > 0) {
            if self.is_dense() {
                self.raise(index, value, sparse_bytes_max)?;
                continue;
            }
            let found = self.run_of(index, from, |place| passed.push(place))?;
            let before = passed.last().copied().unwrap_or(Place::FIRST);
            self.raise_within(found, before, (index, value), sparse_bytes_max)?;
            // What was changed may have been joined with the run before: that begins where it did.
            from = passed.pop().unwrap_or(Place::FIRST);
        }
        Ok(())
    }

    /// The run of a register, looked for from a run on that is not behind it; shows where each run begins that it passes.
    fn run_of(&self, index: usize, from: Place, mut pass: impl FnMut(Place)) -> Result<(Place, Run), Corrupt> {
        let mut place = from;
        loop {
            let run = Run::at(&self.0, place.at)?;
            if index < place.first + run.length {
                return Ok((place, run));
            }
            pass(place);
            place = Place { at: place.at + run.bytes, first: place.first + run.length };
        }
    }

    /// Raises a register of a sparse sketch within its run; `before` is where the run before that begins.
    fn raise_within(
        &mut self,
        (Place { at, first }, run): (Place, Run),
        before: Place,
        (index, value): (usize, u8),
        sparse_bytes_max: u64,
    ) -> Result<bool, Corrupt> {
        if value > SPARSE_VALUE_MAX {
            return self.raise_dense(index, value);
        }
        if run.value >= value {
            return Ok(false);
        }
        let mut parts = Vec::with_capacity(5);
        Run::push(&mut parts, run.value, index - first);
        Run::push(&mut parts, value, 1);
        Run::push(&mut parts, run.value, first + run.length - 1 - index);
        if parts.len() > run.bytes && (self.0.len() + parts.len() - run.bytes) as u64 > sparse_bytes_max {
            return self.raise_dense(index, value);
        }
        self.0.splice(at..at + run.bytes, parts);
        self.join_neighbours(before.at)?;
        self.forget_count();
        Ok(true)
    }

    fn raise_dense(&mut self, index: usize, value: u8) -> Result<bool, Corrupt> {
        self.make_dense()?;
        self.set_register(index, value);
        Ok(true)
    }

    /// Makes one run of neighbours of one value, from a place on.
    fn join_neighbours(&mut self, mut at: usize) -> Result<(), Corrupt> {
        for _ in 0..MERGED_RUNS {
            if at >= self.0.len() {
                break;
            }
            let run = Run::at(&self.0, at)?;
            if run.value > 0
                && at + 1 < self.0.len()
                && let Ok(next) = Run::at(&self.0, at + 1)
                && next.value == run.value
                && run.length + next.length <= VALUES_MAX
            {
                let mut joined = Vec::with_capacity(1);
                Run::push(&mut joined, run.value, run.length + next.length);
                self.0.splice(at..at + 2, joined);
            } else {
                at += run.bytes;
            }
        }
        Ok(())
    }
}

/// Any bytes are refused, or changed without a panic. Panics where dense and sparse disagree.
#[cfg(test)]
fn fuzz_sketch(data: &[u8]) {
    let Ok(mut sketch) = Sketch::parse(data) else { return };
    let Ok(histogram) = sketch.histogram() else {
        assert_eq!(sketch.make_dense(), Err(Corrupt));
        return;
    };
    let mut dense = sketch.clone();
    dense.make_dense().expect("its runs were walked");
    assert_eq!(dense.histogram(), Ok(histogram));
    for (i, byte) in data.iter().take(64).enumerate() {
        let (index, value) = (usize::from(*byte) * 64 + i, byte % SPARSE_VALUE_MAX + 1);
        let raised = dense.raise(index, value, u64::MAX);
        assert_eq!(sketch.raise(index, value, u64::MAX), raised);
    }
    assert_eq!(sketch.histogram(), dense.histogram());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::hyperloglog::estimate::{estimate, place_of};
    use vocab::Prng;

    #[test]
    fn sparse_and_dense_agree_and_are_near_the_truth() {
        let (mut sparse, mut dense) = (Sketch::new(), Sketch::new());
        dense.make_dense().unwrap();
        let mut checked = 1_u64;
        for n in 1..=100_000_u64 {
            let (index, value) = place_of(&n.to_le_bytes());
            assert_eq!(sparse.raise(index, value, 3000), dense.raise(index, value, 3000));
            if n == checked {
                checked *= 10;
                assert_eq!(sparse.is_dense(), n > 1_000, "{n}");
                let count = estimate(&sparse.histogram().unwrap());
                assert_eq!(count, estimate(&dense.histogram().unwrap()));
                assert!(count.abs_diff(n) as f64 <= (n as f64 * 6.0 * 1.04 / 128.0).ceil(), "{count} of {n}");
            }
        }
    }

    #[test]
    fn every_register_keeps_its_value() {
        let mut sketch = Sketch::new();
        sketch.make_dense().unwrap();
        let mut prng = Prng::new(1);
        let values: Vec<u8> = (0..REGISTERS).map(|_| prng.below(64) as u8).collect();
        values.iter().enumerate().for_each(|(index, value)| sketch.set_register(index, *value));
        assert!((0..REGISTERS).all(|index| sketch.register(index) == values[index]));
        assert_eq!(sketch.bytes().len(), DENSE_BYTES);
    }

    #[test]
    fn runs_are_split_and_joined() {
        let mut sketch = Sketch::new();
        let shown = |sketch: &Sketch| sketch.runs().iter().map(|run| (run.value, run.length)).collect::<Vec<_>>();
        assert_eq!(shown(&sketch), [(0, REGISTERS)]);
        for (index, value, expected) in [
            (100, 3, vec![(0, 100), (3, 1), (0, 16_283)]),
            (101, 3, vec![(0, 100), (3, 2), (0, 16_282)]),
            (103, 3, vec![(0, 100), (3, 2), (0, 1), (3, 1), (0, 16_280)]),
            (102, 3, vec![(0, 100), (3, 4), (0, 16_280)]),
            (101, 2, vec![(0, 100), (3, 4), (0, 16_280)]),
            (101, 5, vec![(0, 100), (3, 1), (5, 1), (3, 2), (0, 16_280)]),
        ] {
            sketch.raise(index, value, 3000).unwrap();
            assert_eq!(shown(&sketch), expected, "{index}");
        }
        assert_eq!(sketch.known_count(), None);
        assert_eq!(sketch.raise(9, 33, 3000), Ok(true));
        assert!(sketch.is_dense());
    }

    /// A sketch with many values next to each other, or few; its runs are not all as long as they could be.
    fn random_sketch(prng: &mut Prng) -> Sketch {
        let mut sketch = Sketch::new();
        let (values, registers) = (1 + prng.below(4), 1 + prng.below(REGISTERS as u64));
        for _ in 0..prng.below(400) {
            let (index, value) = (prng.below(registers) as usize, 1 + prng.below(values) as u8);
            sketch.raise(index, value, u64::MAX).unwrap();
        }
        if prng.below(4) == 0 {
            let cut = sketch.runs().into_iter().flat_map(|run| {
                let (one, length) = (usize::from(run.length > 1), run.length);
                [Run { length: one, ..run }, Run { length: length - one, ..run }]
            });
            let mut bytes = sketch.bytes()[..HEAD_BYTES].to_vec();
            cut.for_each(|run| Run::push(&mut bytes, run.value, run.length));
            return Sketch::parse(&bytes).unwrap();
        }
        sketch
    }

    #[test]
    fn all_registers_are_raised_to_the_bytes_that_one_after_the_other_comes_to() {
        let (mut prng, mut dense) = (Prng::new(3), 0);
        for round in 0..1000 {
            let (mut merged, mut registers) = (random_sketch(&mut prng), [0; REGISTERS]);
            merged.merge_into(&mut registers).unwrap();
            (0..prng.below(3)).for_each(|_| random_sketch(&mut prng).merge_into(&mut registers).unwrap());
            if prng.below(8) == 0 {
                registers[prng.below(REGISTERS as u64) as usize] = 33;
            }
            let bytes_max = if prng.below(2) == 0 { 3000 } else { merged.bytes().len() as u64 + prng.below(200) };
            let mut expected = merged.clone();
            for (index, value) in registers.into_iter().enumerate().filter(|(_, value)| *value > 0) {
                expected.raise(index, value, bytes_max).unwrap();
            }
            merged.raise_all(&registers, bytes_max).unwrap();
            assert_eq!(merged, expected, "round {round}");
            dense += usize::from(merged.is_dense());
        }
        assert!((100..900).contains(&dense), "{dense}");
    }

    #[test]
    fn fuzz_mutated_sketches() {
        let mut prng = Prng::new(1);
        for _ in 0..500 {
            let mut sketch = Sketch::new();
            for _ in 0..prng.below(200) {
                let (index, value) = place_of(&prng.next_u64().to_le_bytes());
                sketch.raise(index, value, 3000).unwrap();
            }
            let mut data = sketch.bytes().to_vec();
            fuzz_sketch(&data);
            for _ in 0..prng.below(4) {
                let at = prng.below(data.len() as u64) as usize;
                if prng.below(3) > 0 { data[at] = prng.next_u64() as u8 } else { data.truncate(at.max(1)) }
            }
            fuzz_sketch(&data);
        }
    }
}

//! Positions as numbers, bit by bit as Redis has them: the bits of longitude and latitude in turn, so that what is near one
//! another mostly has scores that are near one another.
//!
//! A cell of `step` n is one of 4^n parts of the map. The score of a position is its cell of step 26, 52 bits.

/// Longitudes lie within this, in degrees.
pub(super) const LONGITUDE_MAX: f64 = 180.0;
/// Latitudes lie within this, in degrees: the Mercator projection ends there.
pub(super) const LATITUDE_MAX: f64 = 85.051_128_78;
/// The step of scores.
pub(super) const STEP_MAX: u8 = 26;
/// The letters of a geohash, five bits each.
const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// Bits of longitude in a cell.
const LONGITUDE_BITS: u64 = 0xaaaa_aaaa_aaaa_aaaa;
/// Bits of latitude.
const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;

/// A position, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

impl Position {
    /// The middle of the cell that a score stands for.
    pub(super) fn of_score(score: f64) -> Self {
        let area = Cell { bits: bits_of(score), step: STEP_MAX }.area();
        Self {
            longitude: ((area.west + area.east) / 2.0).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: ((area.south + area.north) / 2.0).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The score of the position.
    pub(super) fn score(self) -> f64 {
        Cell::of(self, STEP_MAX).bits as f64
    }

    /// Eleven letters, as other programs write a geohash: of latitudes up to the poles. The last letter is always 0.
    pub(super) fn letters(self) -> [u8; 11] {
        let bits = cell_bits(self, STEP_MAX, 90.0);
        let mut letters = [LETTERS[0]; 11];
        for (i, letter) in letters.iter_mut().take(10).enumerate() {
            *letter = LETTERS[(bits >> (52 - (i + 1) * 5)) as usize & 0x1f];
        }
        letters
    }
}

/// One of the parts of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) bits: u64,
    pub(super) step: u8,
}

/// The bounds of a cell, in degrees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) west: f64,
    pub(super) east: f64,
    pub(super) south: f64,
    pub(super) north: f64,
}

impl Cell {
    /// The cell that a position lies in.
    pub(super) fn of(position: Position, step: u8) -> Self {
        Self { bits: cell_bits(position, step, LATITUDE_MAX), step }
    }

    /// Its bounds.
    pub(super) fn area(self) -> Area {
        let parts = (1u64 << self.step) as f64;
        let (latitude, longitude) = (gather(self.bits), gather(self.bits >> 1));
        let bound = |at: u64, max: f64| -max + (at as f64 / parts) * (max - -max);
        Area {
            west: bound(longitude, LONGITUDE_MAX),
            east: bound(longitude + 1, LONGITUDE_MAX),
            south: bound(latitude, LATITUDE_MAX),
            north: bound(latitude + 1, LATITUDE_MAX),
        }
    }

    /// The scores of the positions in it: the first, and the first behind.
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = 52 - self.step * 2;
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }

    /// The cell so many cells to the east and to the north, of -1, 0 and 1. The map goes round at its ends.
    pub(super) fn beside(self, east: i8, north: i8) -> Self {
        let bits = self.moved(east, LONGITUDE_BITS, LATITUDE_BITS);
        Self { bits, ..self }.moved_north(north)
    }

    fn moved_north(self, north: i8) -> Self {
        Self { bits: self.moved(north, LATITUDE_BITS, LONGITUDE_BITS), ..self }
    }

    /// Its bits with those of one direction one higher or lower.
    fn moved(self, by: i8, of: u64, others: u64) -> u64 {
        let width = 64 - u32::from(self.step) * 2;
        let (moving, staying) = (self.bits & of, self.bits & others);
        // With all other bits set a carry passes through them.
        let between = others >> width;
        let moved = match by {
            0 => return self.bits,
            1.. => moving.wrapping_add(between + 1),
            _ => (moving | between).wrapping_sub(between + 1),
        };
        moved & (of >> width) | staying
    }
}

/// The bits of a score, even of one that is no position's: as Redis takes them on x86.
fn bits_of(score: f64) -> u64 {
    const BEYOND: f64 = (1u128 << 64) as f64;
    if score < 0.0 {
        score as i64 as u64
    } else if score < BEYOND {
        score as u64
    } else {
        0
    }
}

fn cell_bits(position: Position, step: u8, latitude_max: f64) -> u64 {
    let parts = (1u64 << step) as f64;
    let part = |value: f64, max: f64| ((value - -max) / (max - -max) * parts) as u32;
    spread(part(position.latitude, latitude_max)) | spread(part(position.longitude, LONGITUDE_MAX)) << 1
}

/// The bits of a number at every other place.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, LATITUDE_BITS),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The number whose bits are at every other place.
fn gather(bits: u64) -> u64 {
    let mut number = bits & LATITUDE_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        number = (number | number >> shift) & mask;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Prng;

    #[test]
    fn bits_are_spread_and_gathered() {
        let mut prng = Prng::new(1);
        for _ in 0..1000 {
            let (a, b) = (prng.next_u64() as u32, prng.next_u64() as u32);
            let bits = spread(a) | spread(b) << 1;
            assert_eq!((gather(bits), gather(bits >> 1)), (u64::from(a), u64::from(b)));
        }
    }

    #[test]
    fn a_position_lies_in_its_cell_and_beside_its_neighbours() {
        let mut prng = Prng::new(2);
        let mut within = |max: f64| (prng.below(1 << 53) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0) * max;
        for _ in 0..1000 {
            let position = Position { longitude: within(LONGITUDE_MAX), latitude: within(LATITUDE_MAX) };
            for step in [3, 10, STEP_MAX] {
                let cell = Cell::of(position, step);
                let area = cell.area();
                assert!(area.west <= position.longitude && position.longitude <= area.east);
                assert!(area.south <= position.latitude && position.latitude <= area.north);
                assert_eq!(cell.beside(1, 0).beside(-1, 0), cell);
                assert_eq!(cell.beside(1, 1).beside(-1, 0).beside(0, -1), cell);
                let east = cell.beside(1, 0).area();
                assert!(east.west == area.east || east.west == -LONGITUDE_MAX);
                let (first, end) = cell.scores();
                assert!((first..end).contains(&position.score()));
            }
            let again = Position::of_score(position.score());
            assert_eq!(again.score(), position.score(), "the middle of a cell is in it");
        }
    }
}

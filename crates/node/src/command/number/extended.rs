//! Floats of x87's 80-bit format, in which Redis computes INCRBYFLOAT and HINCRBYFLOAT: read, added and printed to
//! the same digits, and the same on every machine.
//!
//! A value is mantissa × 2^exponent. Below the smallest normal number we keep more bits than the hardware does,
//! which 17 decimals cannot show.

use super::natural::Natural;
use resp::parse_power;

/// One past the binary exponent of the largest value: values are below 2^16384.
const EXPONENT_END: i32 = 16384;
/// Half of the smallest value there is, 2^-16445, rounds to zero.
const UNDERFLOW_EXPONENT: i32 = -16446;
/// Longest text of a float that Redis reads.
const TEXT_BYTES_MAX: usize = 5 * 1024;
const DECIMALS: usize = 17;

/// A float with 64 bits of mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) enum Extended {
    /// What is read from `inf`.
    Infinite,
    /// The mantissa's highest bit is set, or the mantissa is 0.
    Finite {
        /// Whether it is below zero.
        negative: bool,
        /// The digits.
        mantissa: u64,
        /// The power of two by which to multiply.
        exponent: i32,
    },
}

impl Extended {
    /// 0
    pub(in crate::command) const ZERO: Self = Self::Finite { negative: false, mantissa: 0, exponent: 0 };
    /// The largest finite one.
    pub(in crate::command) const HIGHEST: Self =
        Self::Finite { negative: false, mantissa: u64::MAX, exponent: EXPONENT_END - 64 };
    /// The smallest finite one, which is below zero.
    pub(in crate::command) const LOWEST: Self =
        Self::Finite { negative: true, mantissa: u64::MAX, exponent: EXPONENT_END - 64 };

    /// Reads what C's `strtold` reads: decimal, hexadecimal or infinite, without blanks; `None` if it is anything
    /// else, or out of range.
    pub(in crate::command) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite);
        }
        let (natural, exponent, exact) = match rest {
            [b'0', b'x' | b'X', digits @ ..] => {
                let digits = Digits::parse(digits, 16, b'p')?;
                let power = digits.power.saturating_sub(4 * digits.decimals);
                (digits.natural, power, true)
            }
            digits => {
                let digits = Digits::parse(digits, 10, b'e')?;
                let power = digits.power.saturating_sub(digits.decimals);
                scale_by_ten(digits.natural, power)?
            }
        };
        Self::rounded(negative, &natural, exponent, exact)
    }

    /// The nearest value to `natural` × 2^`exponent`, which is a little more if not `exact`.
    fn rounded(negative: bool, natural: &Natural, exponent: i32, exact: bool) -> Option<Self> {
        let bits = natural.bits() as i32;
        if bits == 0 {
            return Some(Self::Finite { negative, mantissa: 0, exponent: 0 });
        }
        let (top, rest) = natural.top_128();
        let value = Self::round_128(negative, top, exponent.saturating_add(bits - 128), rest || !exact)?;
        let Self::Finite { mantissa, exponent, .. } = value else { return None };
        let underflows =
            exponent + 63 < UNDERFLOW_EXPONENT || exponent + 63 == UNDERFLOW_EXPONENT && mantissa == 1 << 63;
        if underflows { None } else { Some(value) }
    }

    /// The nearest value, ties to even, to `bits` × 2^`exponent`, which is a little more if there is a `rest`.
    /// `None` if it is too large.
    fn round_128(negative: bool, bits: u128, exponent: i32, rest: bool) -> Option<Self> {
        if bits == 0 {
            return Some(Self::Finite { negative, mantissa: 0, exponent: 0 });
        }
        let shift = bits.leading_zeros();
        let bits = bits << shift;
        let mut exponent = exponent.saturating_sub(shift as i32).saturating_add(64);
        let mut mantissa = (bits >> 64) as u64;
        let half = 1 << 63;
        let below = bits as u64;
        if below > half || below == half && (rest || mantissa & 1 == 1) {
            mantissa = mantissa.checked_add(1).unwrap_or_else(|| {
                exponent += 1;
                half
            });
        }
        (exponent.saturating_add(64) <= EXPONENT_END).then_some(Self::Finite { negative, mantissa, exponent })
    }

    /// The sum, rounded; `None` if it is infinite or not a number.
    pub(in crate::command) fn checked_add(self, other: Self) -> Option<Self> {
        let Self::Finite { negative: a_negative, mantissa: a, exponent: a_exponent } = self else { return None };
        let Self::Finite { negative: b_negative, mantissa: b, exponent: b_exponent } = other else { return None };
        if a == 0 {
            return Some(other);
        }
        if b == 0 {
            return Some(self);
        }
        if a_exponent < b_exponent {
            return other.checked_add(self);
        }
        // With 62 bits of room below the larger one, what is lost of the smaller one is far below the last bit
        // that counts: that it was not zero is all that rounding needs to know.
        let apart = a_exponent.abs_diff(b_exponent);
        let room = apart.min(62);
        let lost = (apart - room).min(127);
        let larger = u128::from(a) << room;
        let mut smaller = u128::from(b) >> lost;
        if smaller << lost != u128::from(b) {
            smaller |= 1;
        }
        let exponent = a_exponent - room as i32;
        if a_negative == b_negative {
            return Self::round_128(a_negative, larger + smaller, exponent, false);
        }
        let negative = if larger == smaller { false } else { a_negative == (larger > smaller) };
        Self::round_128(negative, larger.abs_diff(smaller), exponent, false)
    }

    /// The difference, rounded; `None` if it is infinite or not a number.
    pub(in crate::command) fn checked_sub(self, other: Self) -> Option<Self> {
        let Self::Finite { negative, mantissa, exponent } = other else { return None };
        self.checked_add(Self::Finite { negative: !negative, mantissa, exponent })
    }

    /// Whether it is below zero.
    pub(in crate::command) fn is_negative(self) -> bool {
        matches!(self, Self::Finite { negative: true, mantissa: 1.., .. })
    }

    /// Whether it is less than another; both are finite.
    pub(in crate::command) fn is_below(self, other: Self) -> bool {
        // A difference that is too large for a number is one of two numbers of different signs.
        self.checked_sub(other).map_or(self.is_negative(), Self::is_negative)
    }

    /// C's `%.17Lf` without trailing zeros, and never `-0`.
    pub(in crate::command) fn to_text(self) -> String {
        let Self::Finite { negative, mantissa, exponent } = self else { return "inf".to_owned() };
        let mut text = if exponent >= 0 {
            let mut natural = Natural::from(mantissa);
            natural.shift_left(exponent.unsigned_abs());
            natural.into_decimal()
        } else {
            fraction_text(mantissa, exponent.unsigned_abs())
        };
        if negative && text != "0" {
            text.insert(0, '-');
        }
        text
    }
}

/// mantissa ÷ 2^shift, with up to 17 decimals.
fn fraction_text(mantissa: u64, shift: u32) -> String {
    let scale = 10u128.pow(DECIMALS as u32);
    let scaled = u128::from(mantissa) * scale;
    let (mut quotient, rest) = if shift < 128 { (scaled >> shift, scaled & ((1 << shift) - 1)) } else { (0, 0) };
    let half = if shift <= 128 { 1 << (shift - 1) } else { u128::MAX };
    if rest > half || rest == half && quotient & 1 == 1 {
        quotient += 1;
    }
    let mut text = format!("{}.{:0DECIMALS$}", quotient / scale, quotient % scale);
    let kept = text.trim_end_matches('0').trim_end_matches('.').len();
    text.truncate(kept);
    text
}

/// `natural` × 10^`power` as another natural number and a power of two, and whether that is exact (else a little
/// less). `None` if it is certainly out of range.
fn scale_by_ten(mut natural: Natural, power: i32) -> Option<(Natural, i32, bool)> {
    const CHUNK: u32 = 9;
    let limit = 2 * TEXT_BYTES_MAX as i32;
    if natural.bits() == 0 {
        return Some((natural, 0, true));
    }
    if !(-limit..limit).contains(&power) {
        return None;
    }
    let tens = |n: u32| 10u32.pow(n);
    let mut left = power.unsigned_abs();
    if power >= 0 {
        while left > 0 {
            let step = left.min(CHUNK);
            natural.multiply_add(tens(step), 0);
            left -= step;
        }
        return Some((natural, 0, true));
    }
    // 10^n < 2^(4n): the quotient keeps at least 128 bits. Dividing in steps gives the same floor as at once.
    let shift = 4 * left + 128;
    natural.shift_left(shift);
    let mut exact = true;
    while left > 0 {
        let step = left.min(CHUNK);
        exact &= natural.divide(tens(step)) == 0;
        left -= step;
    }
    Some((natural, -(shift as i32), exact))
}

/// Digits, a point, and an exponent.
struct Digits {
    natural: Natural,
    /// How many of the digits stand after the point.
    decimals: i32,
    /// What stands after the exponent's letter.
    power: i32,
}

impl Digits {
    fn parse(text: &[u8], radix: u32, letter: u8) -> Option<Self> {
        let mut parsed = Self { natural: Natural::from(0), decimals: 0, power: 0 };
        let (mut any, mut point) = (false, false);
        let mut rest = text;
        while let [byte, next @ ..] = rest {
            if let Some(digit) = char::from(*byte).to_digit(radix) {
                parsed.natural.multiply_add(radix, digit);
                parsed.decimals += i32::from(point);
                any = true;
            } else if *byte == b'.' && !point {
                point = true;
            } else {
                break;
            }
            rest = next;
        }
        match rest {
            [] => {}
            [e, power @ ..] if e.eq_ignore_ascii_case(&letter) => parsed.power = parse_power(power)?,
            _ => return None,
        }
        any.then_some(parsed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Extended;

    #[test]
    fn sums_print_as_on_x87() {
        for (a, b, sum) in [
            ("1", "0.25", "1.25"),
            ("3.0e3", "200", "3200"),
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1.1", "-1.1", "0"),
            ("-1.1", "1.1", "0"),
            ("0", "-0.00000000000000001", "-0.00000000000000001"),
            ("0", "-0.000000000000000001", "0"),
            ("1", "0.00000000000000001", "1.00000000000000001"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("1e17", "0.001", "100000000000000000"),
            ("3", "1.7976931348623157e0", "4.7976931348623157"),
            ("0x1p4", "0X.8", "16.5"),
            ("1e-4940", "1", "1"),
            ("1e40", "-1e22", "9999999999999999989748657316172260179968"),
        ] {
            let [x, y] = [a, b].map(|text| Extended::parse(text.as_bytes()).unwrap());
            assert_eq!(x.checked_add(y).unwrap().to_text(), sum, "{a} + {b}");
        }
    }

    #[test]
    fn what_strtold_refuses() {
        for text in
            ["", "-", ".", "e1", "1e", "1e+", " 1", "1 ", "1x", "nan", "0x", "1e5000", "-1e5000", "1e-5000", "0xp1"]
        {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        for text in ["inf", "-INF", "+Infinity"] {
            assert_eq!(Extended::parse(text.as_bytes()), Some(Extended::Infinite));
        }
        let largest = Extended::parse(b"1.18973149535723176502e4932").unwrap();
        assert_eq!(largest, Extended::HIGHEST);
        assert_eq!(Extended::ZERO.checked_sub(largest), Some(Extended::LOWEST));
        assert_eq!(largest.checked_add(largest), None);
        assert_eq!(largest.to_text().len(), 4933);
        assert_eq!(Extended::parse(b"0e99999999999"), Some(Extended::ZERO));
    }
}

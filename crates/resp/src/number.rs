//! Numbers as text, to the letter as Redis 7.0 reads and prints them.

/// A buffer that any 64-bit number fits, sign included.
pub(crate) type Digits = [u8; 20];

/// The decimal form of `n`, written into `digits`.
pub(crate) fn decimal(n: i64, digits: &mut Digits) -> &[u8] {
    let mut at = digits.len();
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}

/// A 64-bit integer in its one canonical form: no blanks, no `+`, no leading zeros, no `-0`. What Redis calls
/// "an integer" in values and arguments.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        b"0" => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) || digits.len() > 19 {
        return None;
    }
    let mut magnitude = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // 19 digits stay below 10^19 < 2^64.
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// A plain number of up to nine digits and its line end, if that is what stands at `at`: nearly every line.
#[inline(always)]
pub(crate) fn short_number(buf: &[u8], at: usize) -> Option<(usize, usize)> {
    let line = buf.get(at..)?;
    let first = line.first()?.wrapping_sub(b'0');
    if first > 9 {
        return None;
    }
    let mut number = usize::from(first);
    for i in 1..10 {
        let byte = *line.get(i)?;
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            if number == 0 {
                return None;
            }
            number = number * 10 + usize::from(digit);
        } else if byte == b'\r' && line.get(i + 1) == Some(&b'\n') {
            return Some((number, at + i + 2));
        } else {
            return None;
        }
    }
    None
}

/// A double as C's `strtod` reads one that is the whole text, without blanks: what is too large is infinite, what is too small
/// is zero, and hexadecimal is read too.
#[must_use]
pub fn read_double(text: &[u8]) -> Option<f64> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    match rest {
        [b'0', b'x' | b'X', digits @ ..] => read_hexadecimal(digits).map(|d| if negative { -d } else { d }),
        _ => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// What stands behind `0x`: digits, perhaps with a point among them, perhaps a power of two.
fn read_hexadecimal(text: &[u8]) -> Option<f64> {
    let digits_end = text.iter().position(|byte| byte.eq_ignore_ascii_case(&b'p')).unwrap_or(text.len());
    let (digits, power) = text.split_at(digits_end);
    let (mut mantissa, mut scale, mut any, mut point) = (0u64, 0i32, false, false);
    for byte in digits {
        match char::from(*byte).to_digit(16) {
            Some(digit) => {
                any = true;
                if mantissa >> 60 == 0 {
                    mantissa = mantissa << 4 | u64::from(digit);
                    scale = scale.saturating_sub(if point { 4 } else { 0 });
                } else {
                    // Beyond 61 bits a digit decides how the number is rounded, and nothing else.
                    mantissa |= u64::from(digit != 0);
                    scale = scale.saturating_add(if point { 0 } else { 4 });
                }
            }
            None if *byte == b'.' && !point => point = true,
            None => return None,
        }
    }
    let power = match power {
        [] => 0,
        [_, power @ ..] => parse_power(power)?,
    };
    if mantissa == 0 {
        return any.then_some(0.0);
    }
    let exponent = scale.saturating_add(power).clamp(-3000, 3000);
    // In two steps: a power of two below the smallest double is none.
    Some(mantissa as f64 * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2))
}

/// The power in the text of a number, behind its `e` or `p`, however large: a sign, and decimal digits.
#[must_use]
pub fn parse_power(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let power = digits.iter().fold(0i32, |n, digit| n.saturating_mul(10).saturating_add(i32::from(digit - b'0')));
    Some(if negative { -power } else { power })
}

/// A double as Redis reads one in an argument: no blanks, not NaN, out of range only if it says `inf`, and zero only if it says
/// so.
#[must_use]
pub fn parse_double(text: &[u8]) -> Option<f64> {
    let number = read_double(text)?;
    let says_infinity = || text.iter().any(|b| b.eq_ignore_ascii_case(&b'i'));
    let is_overflow = || number.is_infinite() && !says_infinity();
    let is_underflow = || number == 0.0 && !says_zero(text);
    if number.is_nan() || is_overflow() || is_underflow() { None } else { Some(number) }
}

/// Whether no digit before the power is anything but zero.
fn says_zero(number: &[u8]) -> bool {
    let is_hexadecimal = number.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x'));
    let (radix, letter) = if is_hexadecimal { (16, b'p') } else { (10, b'e') };
    let mantissa = number.iter().take_while(|byte| !byte.eq_ignore_ascii_case(&letter));
    mantissa.filter_map(|byte| char::from(*byte).to_digit(radix)).all(|digit| digit == 0)
}

/// A double as Redis 7.0 replies with one: C's `%.17g`.
#[must_use]
pub fn format_double(d: f64) -> String {
    if d.is_nan() {
        return if d.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if d.is_infinite() {
        return if d > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // Whole numbers are most of them, and cheap: all of their digits are shown.
    if d.abs() < 1e17 && d.trunc() == d && (d != 0.0 || d.is_sign_positive()) {
        return (d as i64).to_string();
    }
    let scientific = format!("{d:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small integer");
    if (-4..17).contains(&exponent) {
        return trim_zeros(format!("{d:.*}", (16 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(mantissa.to_owned()), exponent.unsigned_abs())
}

/// A double as INCRBYFLOAT and HINCRBYFLOAT store it: C's `%.17Lf` without trailing zeros, never `-0`.
#[must_use]
pub fn format_long_double(d: f64) -> String {
    if !d.is_finite() {
        return format_double(d);
    }
    let text = trim_zeros(format!("{d:.17}"));
    if text == "-0" { "0".to_owned() } else { text }
}

fn trim_zeros(mut text: String) -> String {
    if text.contains('.') {
        let kept = text.trim_end_matches('0').trim_end_matches('.').len();
        text.truncate(kept);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("1x", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), value, "{text:?}");
            if let Some(n) = value {
                assert_eq!(decimal(n, &mut Digits::default()), text.as_bytes());
            }
        }
    }

    #[test]
    fn doubles_print_as_in_c() {
        for (d, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-12.0, "-12"),
            (999_999_999_999_999.0, "999999999999999"),
            (-1e15, "-1000000000000000"),
            (1_790_000_000_123_456.0, "1790000000123456"),
            (-99_999_999_999_999_984.0, "-99999999999999984"),
            (12_345_678_901_234_568.0, "12345678901234568"),
            (0.1, "0.10000000000000001"),
            (std::f64::consts::PI, "3.1415926535897931"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (0.0001, "0.0001"),
            (0.000_01, "1.0000000000000001e-05"),
            (-2.5e-10, "-2.5000000000000002e-10"),
            (99_999_999_999_999_999.0, "1e+17"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(format_double(d), text);
        }
        for (d, text) in [(3.0, "3"), (-0.0, "0"), (0.5, "0.5"), (1e20, "100000000000000000000"), (1e-18, "0")] {
            assert_eq!(format_long_double(d), text);
        }
    }

    #[test]
    fn doubles_are_read_as_in_redis() {
        for (text, value) in [
            ("1.5", Some(1.5)),
            ("+1e3", Some(1000.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("1e400", None),
            ("nan", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("0x1p3", Some(8.0)),
            ("-0X.8", Some(-0.5)),
            ("0xfffffffffffff800p0", Some(18_446_744_073_709_549_568.0)),
            ("0x10000000000000801", Some(18_446_744_073_709_555_712.0)),
            ("0x1p-1074", Some(5e-324)),
            ("0x0p9999999999", Some(0.0)),
            ("0x1p-9999999999", None),
            ("0x1p1024", None),
            ("0x", None),
            ("0x1p", None),
            ("0x1.8.8", None),
            ("0e-400", Some(0.0)),
            ("1e-400", None),
        ] {
            assert_eq!(parse_double(text.as_bytes()), value, "{text:?}");
        }
    }
}

//! Numbers and texts of Lua, each of which stands for the other.

use super::context::EngineVersion;
use mlua::{Lua, Value};
use resp::format_double;
use smallvec::SmallVec;

/// Bytes for which a byte of a text counts that is read as a number, from the seventh engine on.
const BYTES_PER_DIGIT: usize = 8;

/// A number, or a text that is one.
pub(super) fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n as f64),
        Value::Number(n) => Some(*n),
        Value::String(text) => {
            let text = text.as_bytes();
            lua::worked(text.len() * BYTES_PER_DIGIT);
            std::str::from_utf8(&text).ok()?.trim().parse().ok()
        }
        _ => None,
    }
}

/// The same, and hexadecimal digits behind `0x`, as Lua reads them. Engines before the sixth refuse those.
pub(super) fn number_in(lua: &Lua, value: &Value) -> Option<f64> {
    number_of(value).or_else(|| {
        let knows = lua.app_data_ref::<EngineVersion>().is_some_and(|version| *version >= EngineVersion::Sixth);
        value.as_string().filter(|_| knows).and_then(|text| hexadecimal(&text.as_bytes()))
    })
}

fn hexadecimal(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii();
    let (sign, digits) = match text.split_first()? {
        (b'-', digits) => (-1.0, digits),
        (b'+', digits) => (1.0, digits),
        _ => (1.0, text),
    };
    let digits =
        digits.strip_prefix(b"0x").or_else(|| digits.strip_prefix(b"0X")).filter(|digits| !digits.is_empty())?;
    let add = |number: f64, digit: &u8| Some(number * 16.0 + f64::from(char::from(*digit).to_digit(16)?));
    digits.iter().try_fold(0.0, add).map(|number| sign * number)
}

/// A text, or what stands for a number.
pub(super) fn text_of(value: &Value) -> Option<SmallVec<[u8; 64]>> {
    match value {
        Value::String(text) => Some(SmallVec::from_slice(&text.as_bytes())),
        Value::Integer(n) => Some(SmallVec::from_slice(format_double(*n as f64).as_bytes())),
        Value::Number(n) => Some(SmallVec::from_slice(format_double(*n).as_bytes())),
        _ => None,
    }
}

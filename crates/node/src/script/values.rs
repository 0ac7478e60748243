//! Numbers and texts of Lua, each of which stands for the other.

use mlua::Value;
use resp::format_double;
use smallvec::SmallVec;

/// A number, or a text that is one.
pub(super) fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n as f64),
        Value::Number(n) => Some(*n),
        Value::String(text) => std::str::from_utf8(&text.as_bytes()).ok()?.trim().parse().ok(),
        _ => None,
    }
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

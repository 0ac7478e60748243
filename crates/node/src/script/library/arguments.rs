//! The arguments of a library's function, and the errors that Lua's own functions raise about theirs.

use crate::script::meter::{Meter, NATIVE_CALL_INSTRUCTIONS};
use crate::script::raised::Raised;
use crate::script::values::number_in;
use lua::UnorderedKey;
use mlua::{BorrowedBytes, Error, Lua, MultiValue, Table, Value};
use std::ops::Deref;
use vocab::limits::SCRIPT_VALUE_INSTRUCTIONS;

/// Bytes that a library reads or writes for the price of one instruction.
const BYTES_PER_INSTRUCTION: usize = 8;

/// For how many instructions a value counts that is written as JSON, beside its reading.
pub(super) const JSON_WRITTEN_INSTRUCTIONS: u64 = 300;
/// And one that is read from JSON or MessagePack.
pub(super) const TEXT_READ_INSTRUCTIONS: u64 = 100;

/// Charges a run for a call that does little, by how many values it is given.
pub(super) fn charge_call(meter: &Meter, values: &MultiValue) -> mlua::Result<()> {
    meter.values(NATIVE_CALL_INSTRUCTIONS + values.len() as u64 * SCRIPT_VALUE_INSTRUCTIONS)
}

/// Charges a run for bytes that a library reads or writes.
pub(super) fn charge(meter: &Meter, bytes: usize) -> mlua::Result<()> {
    meter.work((bytes / BYTES_PER_INSTRUCTION) as u64)
}

/// A text that is an argument. It may be long, and is not copied.
pub(in crate::script) enum Bytes<'a> {
    OfLua(BorrowedBytes<'a>),
    OfNumber(String),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::OfLua(bytes) => bytes,
            Self::OfNumber(text) => text.as_bytes(),
        }
    }
}

/// The arguments of one call.
pub(in crate::script) struct Arguments<'a> {
    pub(in crate::script) lua: &'a Lua,
    pub(in crate::script) name: &'static str,
    pub(in crate::script) values: &'a MultiValue,
}

impl Arguments<'_> {
    /// The length of its first argument, if that is a text.
    pub(in crate::script) fn first_bytes(&self) -> usize {
        self.value(1).and_then(Value::as_string).map_or(0, |text| text.as_bytes().len())
    }

    /// An error about the argument of that number, counted from 1.
    pub(super) fn bad(&self, number: usize, text: &str) -> Error {
        let is_method = self.lua.inspect_stack(0, |debug| debug.names().name_what == Some("method")).unwrap_or(false);
        match (is_method, number) {
            (true, 1) => Raised::here(self.lua, &format!("calling '{}' on bad self", self.name)),
            (true, 2..) => Raised::here(self.lua, &format!("bad argument #{} to '{}' ({text})", number - 1, self.name)),
            _ => Raised::here(self.lua, &format!("bad argument #{number} to '{}' ({text})", self.name)),
        }
    }

    /// Any other error.
    pub(super) fn error(&self, text: &str) -> Error {
        Raised::here(self.lua, text)
    }

    pub(in crate::script) fn value(&self, number: usize) -> Option<&Value> {
        self.values.get(number - 1)
    }

    fn expected(&self, number: usize, what: &str) -> Error {
        let found = self.value(number).map_or("no value", type_name);
        self.bad(number, &format!("{what} expected, got {found}"))
    }

    pub(in crate::script) fn number(&self, number: usize) -> mlua::Result<f64> {
        self.value(number).and_then(|value| number_in(self.lua, value)).ok_or_else(|| self.expected(number, "number"))
    }

    /// A whole number; `default` where there is none.
    pub(in crate::script) fn integer_or(&self, number: usize, default: i64) -> mlua::Result<i64> {
        match self.value(number) {
            None | Some(Value::Nil) => Ok(default),
            Some(_) => Ok(self.number(number)? as i64),
        }
    }

    pub(in crate::script) fn bytes(&self, number: usize) -> mlua::Result<Bytes<'_>> {
        match self.value(number) {
            Some(Value::String(text)) => Ok(Bytes::OfLua(text.as_bytes())),
            Some(Value::Integer(n)) => Ok(Bytes::OfNumber(format_g(*n as f64, 14))),
            Some(Value::Number(n)) => Ok(Bytes::OfNumber(format_g(*n, 14))),
            _ => Err(self.expected(number, "string")),
        }
    }
}

/// What Lua calls the type of a value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// Refuses a table with keys that have another order on each replica, before anything is done that depends on where they are. What it counts for
/// does not depend on that either. The name of such keys is what `refusal` is told.
#[allow(unsafe_code, reason = "Lua tells of a table's keys only in their order")]
pub(super) fn check_order(
    table: &Table,
    meter: &Meter,
    refusal: impl FnOnce(&'static str) -> Error,
) -> mlua::Result<()> {
    // SAFETY: it is that table's own pointer, and the table is there.
    let Some((key, count)) = (unsafe { lua::unordered_key(table.to_pointer()) }) else { return Ok(()) };
    meter.values(count as u64 * SCRIPT_VALUE_INSTRUCTIONS)?;
    Err(refusal(match key {
        UnorderedKey::Table => "table",
        UnorderedKey::Function => "function",
        UnorderedKey::Thread => "thread",
        UnorderedKey::Userdata => "userdata",
    }))
}

/// A double as C's `%.{precision}g` prints it.
pub(in crate::script) fn format_g(d: f64, precision: usize) -> String {
    if d.is_nan() {
        return if d.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if d.is_infinite() {
        return if d > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{d:.*e}", precision - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    }
    trimmed(&format!("{d:.*}", (precision as i32 - 1 - exponent) as usize)).to_owned()
}

/// Without zeros behind the point.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_printed_as_c_prints_them() {
        for (d, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (1.0 / 3.0, "0.33333333333333"),
            (1e14, "1e+14"),
            (99_999_999_999_999.0, "99999999999999"),
            (999_999_999_999_999.0, "1e+15"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.25e300, "1.25e+300"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_g(d, 14), text);
        }
        assert_eq!([format_g(2.54321, 3), format_g(1234.0, 3), format_g(0.5, 1)], ["2.54", "1.23e+03", "0.5"]);
    }
}

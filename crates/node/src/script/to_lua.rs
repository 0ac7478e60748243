//! What a command answers, as a script sees it.

use super::meter::Meter;
use mlua::{IntoLua, Lua, Table};
use resp::{Proto, Value};
use vocab::limits::SCRIPT_ANSWER_INSTRUCTIONS;

/// Charges a run for the parts of an answer: of all its arrays and maps, each key and each value.
pub(super) fn charge_parts(meter: &Meter, parts: usize) -> mlua::Result<()> {
    meter.values(parts as u64 * SCRIPT_ANSWER_INSTRUCTIONS)
}

/// The value of a reply, in the shape that Redis gives it.
pub(super) fn to_lua(lua: &Lua, meter: &Meter, value: &Value, proto: Proto) -> mlua::Result<mlua::Value> {
    let parts = match value {
        Value::Array(values) | Value::Push(values) | Value::Set(values) => values.len(),
        Value::Map(pairs) => 2 * pairs.len(),
        _ => 0,
    };
    charge_parts(meter, parts)?;
    Ok(match value {
        Value::Simple(text) => with_field(lua, "ok", text.as_bytes())?,
        Value::Error(text) => {
            let table = lua.create_table()?;
            table.raw_set("err", error_text(text))?;
            table.raw_set("ignore_error_stats_update", true)?;
            mlua::Value::Table(table)
        }
        Value::Int(n) => mlua::Value::Number(*n as f64),
        Value::Bulk(bytes) => mlua::Value::String(lua.create_string(bytes)?),
        Value::Null if proto == Proto::Resp2 => mlua::Value::Boolean(false),
        Value::Null => mlua::Value::Nil,
        Value::Array(values) | Value::Push(values) => {
            let table = lua.create_table_with_capacity(values.len(), 0)?;
            for (i, value) in values.iter().enumerate() {
                table.raw_set(i + 1, to_lua(lua, meter, value, proto)?)?;
            }
            mlua::Value::Table(table)
        }
        Value::Map(pairs) => {
            let map = lua.create_table_with_capacity(0, pairs.len())?;
            for (key, value) in pairs {
                map.raw_set(to_lua(lua, meter, key, proto)?, to_lua(lua, meter, value, proto)?)?;
            }
            nested(lua, "map", map)?
        }
        Value::Set(values) => {
            let set = lua.create_table_with_capacity(0, values.len())?;
            for value in values {
                set.raw_set(to_lua(lua, meter, value, proto)?, true)?;
            }
            nested(lua, "set", set)?
        }
        Value::Double(d) => {
            let table = lua.create_table()?;
            table.raw_set("double", *d)?;
            mlua::Value::Table(table)
        }
        Value::Boolean(b) => mlua::Value::Boolean(*b),
        Value::Big(digits) => with_field(lua, "big_number", digits.as_bytes())?,
        Value::Verbatim { format, text } => {
            let table = lua.create_table()?;
            table.raw_set("format", lua.create_string(format)?)?;
            table.raw_set("string", lua.create_string(text)?)?;
            nested(lua, "verbatim_string", table)?
        }
        Value::Attributed { value, .. } => to_lua(lua, meter, value, proto)?,
    })
}

/// The text of an error as scripts see it: its code and what it says.
pub(super) fn error_text(text: &str) -> String {
    if text.contains(' ') { text.to_owned() } else { format!("ERR {text}") }
}

fn with_field(lua: &Lua, name: &str, bytes: &[u8]) -> mlua::Result<mlua::Value> {
    let table = lua.create_table()?;
    table.raw_set(name, lua.create_string(bytes)?)?;
    Ok(mlua::Value::Table(table))
}

fn nested(lua: &Lua, name: &str, inner: Table) -> mlua::Result<mlua::Value> {
    let table = lua.create_table()?;
    table.raw_set(name, inner)?;
    table.into_lua(lua)
}

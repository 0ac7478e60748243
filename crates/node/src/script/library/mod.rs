//! The libraries that Redis gives to scripts beside Lua's own: `cjson`, `cmsgpack`, `struct` and `bit`. What they write is what
//! Redis 7.0 writes, byte for byte.

mod arguments;
mod bits;
mod json;
mod json_decode;
mod json_encode;
mod json_settings;
mod msgpack;
mod packed_struct;

pub(super) use arguments::{Arguments, format_g};
pub(super) use json_settings::JsonSettings;

use super::meter::Meter;
use mlua::{Lua, Table};
use std::rc::Rc;

/// All of them, by their names.
pub(super) fn libraries(lua: &Lua, json: &Rc<JsonSettings>, meter: &Rc<Meter>) -> mlua::Result<Table> {
    let libraries = lua.create_table()?;
    libraries.raw_set("cjson", json::library(lua, json, meter)?)?;
    libraries.raw_set("cmsgpack", msgpack::library(lua, meter)?)?;
    libraries.raw_set("struct", packed_struct::library(lua, meter)?)?;
    libraries.raw_set("bit", bits::library(lua, meter)?)?;
    Ok(libraries)
}

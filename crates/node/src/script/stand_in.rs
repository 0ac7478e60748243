//! Functions in C that stand in for those of the prelude.
#![allow(unsafe_code, reason = "Lua makes such a function of one in C")]

use mlua::{Function, Lua, Table, ffi};

/// `one < other`, which counts.
pub(super) fn less(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: it is a function for Lua.
    unsafe { lua.create_c_function(lua::less) }
}

/// A function that calls `function`. Where it is called last, its caller stays on the stack: its line is named in errors.
pub(super) fn stand_in(lua: &Lua, function: Function) -> mlua::Result<Function> {
    // SAFETY: one value is taken, and one put there.
    unsafe { lua.exec_raw(function, |state| ffi::lua_pushcclosure(state, lua::stand_in, 1)) }
}

/// `next` that walks over what a table stands for, as `content_of` says.
pub(super) fn walk(lua: &Lua, content_of: Table) -> mlua::Result<Function> {
    // SAFETY: one value is taken, and one put there.
    unsafe { lua.exec_raw(content_of, |state| ffi::lua_pushcclosure(state, lua::walk, 1)) }
}

/// The metatable of a value, whatever that says of itself.
pub(super) fn metatable_of(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: it is a function for Lua.
    unsafe { lua.create_c_function(lua::metatable_of) }
}

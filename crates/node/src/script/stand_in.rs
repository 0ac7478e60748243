//! Functions in C that stand in for those of the prelude.
#![allow(unsafe_code, reason = "Lua makes such a function of one in C")]

use mlua::{Function, Lua, ffi};

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

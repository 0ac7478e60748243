//! `redis.call` and `redis.pcall` without the binding, for a state that is used again.
//!
//! The binding makes a value of its own of each argument and of each answer. These functions hand over the texts where Lua has them,
//! and make of a plain answer what Lua sees, at once. Whatever is not plain is left to the binding's function, which goes on in their place,
//! in the same call: errors, answers with types of their own, other arguments, a stack that is nearly at its end. So a script sees no
//! difference: not in what it gets, not in the calls that it may nest, not in its instructions.
//!
//! Invariant: while Lua may raise an error, which passes over the frames of Rust, none of these holds what is to be dropped.
//!
//! A new state, whose budgets decide what is refused, has the binding's functions alone: what these allocate counts there, on all
//! replicas alike, whatever their release.
#![allow(unsafe_code, reason = "Lua calls functions in C, and they its interface")]

use super::calls::Calls;
use mlua::{Function, Lua, Table, Value, ffi};
use resp::{Proto, format_double, parse_integer};
use smallvec::SmallVec;
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::slice;
use vocab::limits::SCRIPT_VALUES_HELD_MAX;

/// Calls with more arguments are the binding's.
const ARGUMENTS_MAX: c_int = 64;
/// Calls with more arguments hand over a table of them: the binding has a place for each value that it holds, and these are bounded.
const MANY_ARGUMENTS: c_int = 4000;
/// Other functions take no more: the error says so. It leaves room for what else is held.
const BOUNDED_ARGUMENTS: c_int = SCRIPT_VALUES_HELD_MAX as c_int;
/// Bytes for which a call of a function of the binding counts from the seventh engine on, and each of its arguments: it makes a value of its own
/// of each, and an answer of what the function returns.
const BYTES_PER_BOUND_CALL: usize = 256;
const BYTES_PER_BOUND_ARGUMENT: usize = 64;
/// Answers with more arrays within arrays are the binding's.
const DEPTH_MAX: usize = 4;
/// The places of what a function has with it: the binding's own, then `Calls`, then the binding's function.
const CALLS: c_int = 2;
const BOUND: c_int = 3;
const OF_TABLE: c_int = 4;

/// A function that stands for `bound`, one of those of `calls`, and for `of_table` where the arguments are many. `is_direct`: it does without
/// them where it can.
pub(super) fn directly(
    lua: &Lua,
    calls: &Rc<Calls>,
    (bound, of_table): (Function, Function),
    is_direct: bool,
) -> mlua::Result<Function> {
    let calls: *const Calls = Rc::as_ptr(calls);
    let call = if is_direct { call } else { call_bound };
    // SAFETY: two values are taken, and one is put there. What `bound` has with it owns `calls`, and the new function has it too.
    unsafe {
        lua.exec_raw((bound, of_table), |state| {
            if ffi::lua_tocfunction(state, 1).is_none() || ffi::lua_getupvalue(state, 1, 1).is_null() {
                return;
            }
            ffi::lua_pushlightuserdata(state, calls.cast_mut().cast::<c_void>());
            ffi::lua_pushvalue(state, 1);
            ffi::lua_pushvalue(state, 2);
            ffi::lua_pushcclosure(state, call, OF_TABLE);
            ffi::lua_replace(state, 1);
            ffi::lua_settop(state, 1);
        })
    }
}

/// A function of the binding that refuses more arguments than there is room for, and counts.
pub(super) fn bounded(lua: &Lua, bound: Function) -> mlua::Result<Function> {
    // SAFETY: one value is taken, and one is put there. The new function has with it what `bound` has.
    unsafe {
        lua.exec_raw(bound, |state| {
            if ffi::lua_tocfunction(state, 1).is_none() || ffi::lua_getupvalue(state, 1, 1).is_null() {
                return;
            }
            ffi::lua_pushvalue(state, 1);
            ffi::lua_pushcclosure(state, call_bounded, 2);
            ffi::lua_replace(state, 1);
        })
    }
}

/// All functions of a table, and of tables in it, refuse more arguments than there is room for, and count.
pub(super) fn bound_all(lua: &Lua, table: &Table) -> mlua::Result<()> {
    let entries: Vec<(Value, Value)> = table.pairs().collect::<mlua::Result<_>>()?;
    for (name, value) in entries {
        match value {
            Value::Function(function) => table.raw_set(name, bounded(lua, function)?)?,
            Value::Table(inner) => bound_all(lua, &inner)?,
            _ => {}
        }
    }
    Ok(())
}

/// A table of these texts is put on the stack.
///
/// # Safety
/// The state is one, has room for two values, and what it raises passes over nothing that is to be dropped.
pub(super) unsafe fn push_texts(state: *mut ffi::lua_State, texts: &[&[u8]]) {
    // SAFETY: the caller promises it.
    unsafe {
        ffi::lua_createtable(state, c_int::try_from(texts.len()).unwrap_or(0), 0);
        for (at, text) in (1..).zip(texts) {
            push_text(state, text);
            ffi::lua_rawseti(state, -2, at);
        }
    }
}

/// # Safety
/// Lua calls it, as a function that `directly` has made.
unsafe extern "C-unwind" fn call(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: what `directly` has put there is there. An error that Lua raises passes over this frame, which has nothing to drop. Behind the
    // arguments of a function in C is room for 20 values.
    unsafe {
        let calls = &*ffi::lua_touserdata(state, ffi::lua_upvalueindex(CALLS)).cast::<Calls>();
        let count = ffi::lua_gettop(state);
        if (1..=ARGUMENTS_MAX).contains(&count) && !lua::is_deep(state) && run(calls, state, count) {
            let (answer, proto) = calls.answer();
            let mut parts = 0;
            // What cannot be afforded is refused by the binding's function, which charges for all of it again.
            if push(state, &*answer, proto, (DEPTH_MAX, &mut parts)).is_some() && calls.affords_parts(parts) {
                return 1;
            }
            ffi::lua_settop(state, count);
            calls.leave_answer();
        }
        call_bound(state)
    }
}

/// # Safety
/// Lua calls it, as a function that `directly` has made.
unsafe extern "C-unwind" fn call_bound(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: as of `call`.
    unsafe {
        let count = ffi::lua_gettop(state);
        if count > MANY_ARGUMENTS {
            ffi::lua_createtable(state, count, 0);
            ffi::lua_insert(state, 1);
            (1..=count).rev().for_each(|at| ffi::lua_rawseti(state, 1, at.into()));
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(OF_TABLE));
            ffi::lua_insert(state, 1);
            ffi::lua_pushinteger(state, count.into());
            ffi::lua_call(state, 2, ffi::LUA_MULTRET);
            return ffi::lua_gettop(state);
        }
        // It finds its own where it looks for it, and the arguments.
        match ffi::lua_tocfunction(state, ffi::lua_upvalueindex(BOUND)) {
            Some(bound) => bound(state),
            None => 0,
        }
    }
}

/// # Safety
/// Lua calls it, as a function that `bounded` has made.
unsafe extern "C-unwind" fn call_bounded(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: as of `call`. The error that is raised passes over this frame.
    unsafe {
        let count = ffi::lua_gettop(state);
        if count > BOUNDED_ARGUMENTS {
            ffi::luaL_error(state, c"too many arguments".as_ptr());
        }
        lua::worked(BYTES_PER_BOUND_CALL + usize::try_from(count).unwrap_or(0) * BYTES_PER_BOUND_ARGUMENT);
        match ffi::lua_tocfunction(state, ffi::lua_upvalueindex(2)) {
            Some(bound) => bound(state),
            None => 0,
        }
    }
}

/// Runs the command of a call; true if there is an answer. Raises no error of Lua.
///
/// # Safety
/// The state has so many arguments on its stack.
unsafe fn run(calls: &Calls, state: *mut ffi::lua_State, count: c_int) -> bool {
    let (mut numbers, mut ends) = (SmallVec::<[u8; 64]>::new(), SmallVec::<[usize; 8]>::new());
    for at in 1..=count {
        // SAFETY: the caller promises it; neither raises an error.
        match unsafe { ffi::lua_type(state, at) } {
            ffi::LUA_TSTRING => {}
            ffi::LUA_TNUMBER => {
                numbers.extend_from_slice(format_double(unsafe { ffi::lua_tonumber(state, at) }).as_bytes());
                ends.push(numbers.len());
            }
            _ => return false,
        }
    }
    let (mut from, mut ends) = (0, ends.into_iter());
    let mut word = |at: c_int| {
        // SAFETY: as above. Lua keeps a text in its place as long as it is on the stack.
        unsafe {
            if ffi::lua_type(state, at) == ffi::LUA_TSTRING {
                let mut bytes = 0;
                let text = ffi::lua_tolstring(state, at, &raw mut bytes);
                return slice::from_raw_parts(text.cast::<u8>(), bytes);
            }
        }
        let to = ends.next().unwrap_or(from);
        &numbers[std::mem::replace(&mut from, to)..to]
    };
    let words: SmallVec<[&[u8]; 8]> = (1..=count).map(&mut word).collect();
    calls.run_ahead(&words)
}

/// What Lua sees of an answer is put on the stack; how many bytes that was. None: it is not plain, and there may be a part of it. `parts`
/// counts the elements of its arrays, for which the run is charged as the binding's function charges it.
///
/// # Safety
/// The state is one, has room for two values and for two more for each level of `depth`, and what it raises passes over nothing that is to
/// be dropped.
unsafe fn push(
    state: *mut ffi::lua_State,
    answer: &[u8],
    proto: Proto,
    (depth, parts): (usize, &mut usize),
) -> Option<usize> {
    let (kind, rest) = answer.split_first()?;
    let line = &rest[..rest.iter().position(|byte| *byte == b'\r')?];
    let behind = line.len() + 3;
    // SAFETY: the caller promises it.
    unsafe {
        match kind {
            b':' => ffi::lua_pushnumber(state, parse_integer(line)? as f64),
            b'$' => {
                let Ok(bytes) = usize::try_from(parse_integer(line)?) else {
                    push_null(state, proto);
                    return Some(behind);
                };
                push_text(state, answer.get(behind..behind + bytes)?);
                return Some(behind + bytes + 2);
            }
            b'+' if line.is_ascii() => {
                ffi::lua_createtable(state, 0, 1);
                push_text(state, b"ok");
                push_text(state, line);
                ffi::lua_rawset(state, -3);
            }
            b'_' => push_null(state, proto),
            b'*' => {
                let depth = depth.checked_sub(1)?;
                let Ok(count) = c_int::try_from(parse_integer(line)?) else { return None };
                if count < 0 {
                    push_null(state, proto);
                    return Some(behind);
                }
                *parts += count as usize;
                ffi::lua_createtable(state, count, 0);
                let mut at = behind;
                for place in 1..=count {
                    at += push(state, answer.get(at..)?, proto, (depth, &mut *parts))?;
                    ffi::lua_rawseti(state, -2, place.into());
                }
                return Some(at);
            }
            _ => return None,
        }
    }
    Some(behind)
}

/// # Safety
/// As of `push`.
unsafe fn push_text(state: *mut ffi::lua_State, text: &[u8]) {
    // SAFETY: the caller promises it; Lua copies the text.
    unsafe { ffi::lua_pushlstring(state, text.as_ptr().cast(), text.len()) };
}

/// # Safety
/// As of `push`.
unsafe fn push_null(state: *mut ffi::lua_State, proto: Proto) {
    // SAFETY: the caller promises it.
    unsafe {
        match proto {
            Proto::Resp2 => ffi::lua_pushboolean(state, 0),
            Proto::Resp3 => ffi::lua_pushnil(state),
        }
    }
}

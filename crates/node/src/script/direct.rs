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
use mlua::{Function, Lua, ffi};
use resp::{Proto, format_double, parse_integer};
use smallvec::SmallVec;
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::slice;

/// Calls with more arguments are the binding's.
const ARGUMENTS_MAX: c_int = 64;
/// Answers with more arrays within arrays are the binding's.
const DEPTH_MAX: usize = 4;
/// The places of what a function has with it: the binding's own, then `Calls`, then the binding's function.
const CALLS: c_int = 2;
const BOUND: c_int = 3;

/// A function that stands for `bound`, one of those of `calls`.
pub(super) fn directly(lua: &Lua, calls: &Rc<Calls>, bound: Function) -> mlua::Result<Function> {
    let calls: *const Calls = Rc::as_ptr(calls);
    // SAFETY: one value is taken, and one is put there. What `bound` has with it owns `calls`, and the new function has it too.
    unsafe {
        lua.exec_raw(bound, |state| {
            if ffi::lua_tocfunction(state, 1).is_none() || ffi::lua_getupvalue(state, 1, 1).is_null() {
                return;
            }
            ffi::lua_pushlightuserdata(state, calls.cast_mut().cast::<c_void>());
            ffi::lua_pushvalue(state, 1);
            ffi::lua_pushcclosure(state, call, BOUND);
            ffi::lua_replace(state, 1);
        })
    }
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
            if push(state, &*answer, proto, DEPTH_MAX).is_some() {
                return 1;
            }
            ffi::lua_settop(state, count);
            calls.leave_answer();
        }
        // It finds its own where it looks for it, and the arguments.
        match ffi::lua_tocfunction(state, ffi::lua_upvalueindex(BOUND)) {
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

/// What Lua sees of an answer is put on the stack; how many bytes that was. None: it is not plain, and there may be a part of it.
///
/// # Safety
/// The state is one, has room for two values and for two more for each level of `depth`, and what it raises passes over nothing that is to
/// be dropped.
unsafe fn push(state: *mut ffi::lua_State, answer: &[u8], proto: Proto, depth: usize) -> Option<usize> {
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
                ffi::lua_createtable(state, count, 0);
                let mut at = behind;
                for place in 1..=count {
                    at += push(state, answer.get(at..)?, proto, depth)?;
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

//! Lua 5.1, with a count of what it does in C.
//!
//! `..`, `<`, `next` and others take as long as their operands are, in one instruction, which no hook of Lua sees; and where a text
//! comes out that Lua has already, no allocation shows it. So Lua's parts call each other by way of this crate in a few places, which
//! the build script chooses. What a state does counts as bytes, by rules that depend on nothing but what the state has done before: a
//! bound is passed at the same place wherever the same script runs.
//!
//! Short work is not counted by the rules before the newest: instructions are its price.
//!
//! What runs in each instruction is in C, in the folder `c`: tables, texts, calls, and what the compiler of Lua emits. So is what errors look for.
#![allow(unsafe_code, reason = "C functions call these and are called by them")]

mod counter;
mod numbers;
mod small_blocks;
mod state;

pub use counter::{Counter, Pace, count_by};
pub use numbers::Numbers;
pub use small_blocks::SmallBlocks;
pub use state::{begin_run, by_rules, end_run, instructions_run, look_soon, settle, worked};

use counter::{ask, count};
use mlua_sys::{
    LUA_MULTRET, LUA_TTABLE, lua_Debug, lua_Integer, lua_State, lua_call, lua_getinfo, lua_getmetatable, lua_gettop,
    lua_insert, lua_lessthan, lua_next, lua_pushboolean, lua_pushnil, lua_pushvalue, lua_rawget, lua_replace,
    lua_settop, lua_type, lua_upvalueindex, luaL_argerror, luaL_checkinteger, luaL_checktype,
};
use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int, c_ushort, c_void};
use std::slice;

/// The source of functions in Lua that stand for functions in C.
pub const PRELUDE: &CStr = c"=prelude";
/// Bytes that one instruction handles for nothing.
const FEW_BYTES: usize = 64;
/// Only where a text is longer an error is raised: a binding may make short ones where it could not handle it.
const LONG_BYTES: usize = 4096;
/// What a comparison counts for at least: a text with many zero bytes takes many.
const COMPARISON_BYTES: usize = 16;
/// Bytes for which a digit of a number counts that is read.
const BYTES_PER_DIGIT: usize = 8;
/// Bytes for which a number counts that is made into a text.
const BYTES_PER_NUMBER: usize = 1024;
/// No text of a number is longer.
const NUMBER_BYTES_MAX: usize = 32;
/// What x86-64 makes of `0/0`.
const NOT_A_NUMBER: &CStr = c"-nan";
/// Tables of fewer places are walked over for nothing.
const FEW_PLACES: usize = 1024;
/// Bytes for which a place of a table counts by the newest rules that is looked at for its kind of key.
const BYTES_PER_NODE: usize = 8;
/// A call with fewer arguments copies them for nothing, and one with fewer places of the stack sets them for nothing.
const FEW_ARGUMENTS: usize = 64;
/// What luaD_precall answers for a function in Lua.
const IN_LUA: c_int = 0;
/// Bytes for which a place of a table counts that is passed over.
const BYTES_PER_PLACE: usize = 16;
/// Bytes for which a step along tables counts that stand for each other, a call of the stack that is passed over, a comparison of a sort, and a
/// power.
const BYTES_PER_TABLE: usize = 32;
const BYTES_PER_CALL: usize = 1;
const BYTES_PER_ORDER: usize = 64;
const BYTES_PER_POWER: usize = 64;
/// Fewer calls are passed over for nothing.
const FEW_CALLS: usize = 16;
/// Which argument of `table.insert` is a place, and no table has so many of these before its first.
const PLACE: c_int = 2;
const FAR: c_int = 1 << 24;
/// Half of what Lua allows: calls that are nested, and those of them in C.
const CALLS_FEW: usize = 10_000;
const CALLS_IN_C_FEW: c_ushort = 100;
/// There is room for no more calls: for twice as many is more than Lua allows.
const CALLS_PLACES_MAX: c_int = 16_384;
/// The code of the error that memory is short: what raises it is handled wherever a text is made.
const ERROR_OF_MEMORY: c_int = 4;

/// The head of a Lua state.
#[repr(C)]
struct LuaState {
    _header: *mut c_void,
    _kind_mark_status: [u8; 3],
    /// Behind the last value of the stack.
    top: *mut Value,
    _base: *mut Value,
    _global: *mut c_void,
    /// The call that is under way.
    call: *mut Call,
    _next: *const c_void,
    _stack: [*mut Value; 2],
    _calls_end: *mut Call,
    /// The first call.
    calls: *mut Call,
    _stack_places: c_int,
    /// For how many calls there is room.
    calls_places: c_int,
    /// How many calls are nested in C.
    calls_in_c: c_ushort,
}

/// One call.
#[repr(C)]
struct Call {
    base: *mut Value,
    _function: *mut Value,
    /// Behind its last place of the stack.
    top: *mut Value,
    _next: *const c_void,
    _results: c_int,
    _tail_calls: c_int,
}
/// A text of Lua.
type Text = c_void;

/// A value of Lua.
#[repr(C)]
struct Value {
    bits: u64,
    kind: c_int,
}

const NIL: c_int = 0;
const NUMBER: c_int = 3;
const TABLE: c_int = 5;
const FUNCTION: c_int = 6;
const THREAD: c_int = 8;

/// One place of the hashed part of a table.
#[repr(C)]
struct Node {
    value: Value,
    key: Value,
    next: *mut Node,
}

/// The head of a table.
#[repr(C)]
struct Table {
    _header: *mut c_void,
    _kind_mark_flags: [u8; 3],
    nodes_log2: u8,
    _metatable: *mut c_void,
    _array: *mut Value,
    nodes: *mut Node,
    _last_free: *mut Node,
    _grey: *mut c_void,
    array_len: c_int,
}

const _: () = assert!(size_of::<Call>() == 40 && std::mem::offset_of!(LuaState, calls_in_c) == 96);
const _: () = assert!(size_of::<Value>() == 16 && size_of::<Node>() == 40 && size_of::<Table>() == 64);

unsafe extern "C-unwind" {
    fn bslS_newlstr(state: *mut LuaState, text: *const c_char, bytes: usize) -> *mut Text;
    fn bslH_next(state: *mut LuaState, table: *mut Table, key: *mut Value) -> c_int;
    fn bslH_get(table: *mut Table, key: *const Value) -> *const Value;
    fn bsl_getstack(state: *mut lua_State, level: c_int, call: *mut lua_Debug) -> c_int;
    fn bsl_is_newest(state: *const LuaState) -> c_int;
    fn bsl_is_unsigned_nan(state: *const LuaState, text: *const c_char, bytes: usize) -> c_int;
    fn bsl_called(state: *const LuaState, arguments: usize, is_in_c: c_int);
    fn luaD_precall(state: *mut LuaState, function: *mut Value, results: c_int) -> c_int;
    fn luaO_str2d(text: *const c_char, number: *mut f64) -> c_int;
    fn luaD_throw(state: *mut LuaState, code: c_int) -> !;
    fn luaT_gettm(events: *mut Table, event: c_int, name: *mut Text) -> *const Value;
}

// SAFETY: the C library has it.
unsafe extern "C" {
    fn memcmp(one: *const c_void, other: *const c_void, bytes: usize) -> c_int;
}

/// Makes a text. One that Lua has already counts by its comparison with it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bslt_newlstr(state: *mut LuaState, text: *const c_char, bytes: usize) -> *mut Text {
    // SAFETY: these are the caller's own arguments. An error that it raises passes over a frame that has nothing to drop.
    let made = unsafe { bslS_newlstr(state, text, bytes) };
    if bytes > LONG_BYTES && !count(0) {
        // SAFETY: the caller handles this error: the function that it means to call raises it.
        unsafe { luaD_throw(state, ERROR_OF_MEMORY) }
    }
    made
}

/// Makes a text of a number, or of texts that were joined. What reads as a number is taken for one: it took C's own formatting, which
/// is as long as many instructions.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bslt_newtext(state: *mut LuaState, text: *const c_char, bytes: usize) -> *mut Text {
    // SAFETY: the caller has so many bytes there.
    let is_number = bytes <= NUMBER_BYTES_MAX && reads_as_number(unsafe { slice::from_raw_parts(text.cast(), bytes) });
    if is_number {
        // Short texts raise no error: the next look at the budget finds it.
        let _ = count(BYTES_PER_NUMBER);
    }
    // SAFETY: these are the caller's own arguments. What is no number has the text that it has on x86-64.
    unsafe {
        match bsl_is_unsigned_nan(state, text, bytes) {
            0 => bslt_newlstr(state, text, bytes),
            _ => bslt_newlstr(state, NOT_A_NUMBER.as_ptr(), NOT_A_NUMBER.count_bytes()),
        }
    }
}

/// Whether C may have written a number so.
fn reads_as_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits.first() {
        Some(b'0'..=b'9') => digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'+' | b'-')),
        _ => matches!(digits, b"inf" | b"nan"),
    }
}

/// Finds the next key of a table. Empty places are passed over, and there may be many. By the newest rules `bslH_next` counts them itself, and
/// each key.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bslt_next(state: *mut LuaState, table: *mut Table, key: *mut Value) -> c_int {
    // SAFETY: the caller has a table, and a key and room for a value behind it on the state's stack.
    let (places, from) = unsafe {
        let places = places_of(&*table);
        if places < FEW_PLACES || bsl_is_newest(state) != 0 {
            return bslH_next(state, table, key);
        }
        (places, place_of(table, key).unwrap_or(0))
    };
    // SAFETY: as above; what it raises passes over a frame that has nothing to drop.
    let found = unsafe { bslH_next(state, table, key) };
    // SAFETY: as above.
    let to = if found == 0 { Some(places) } else { unsafe { place_of(table, key) } };
    if !count(to.unwrap_or(from).saturating_sub(from) * BYTES_PER_PLACE) {
        // SAFETY: the call may raise errors, and so may this.
        unsafe { luaD_throw(state, ERROR_OF_MEMORY) }
    }
    found
}

/// A kind of keys that have an order which follows from where they lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnorderedKey {
    /// A table.
    Table,
    /// A function.
    Function,
    /// Userdata.
    Userdata,
    /// A coroutine.
    Thread,
}

/// Which keys a table has whose order is another one in each process, if any; and how many keys it has that have no place by their number. One
/// alone has no order.
///
/// # Safety
/// `table` is what `mlua::Table::to_pointer` answers for a table that is still there.
#[must_use]
pub unsafe fn unordered_key(table: *const c_void) -> Option<(UnorderedKey, usize)> {
    // SAFETY: the caller promises it. A table has as many nodes as it says.
    let table = unsafe { &*table.cast::<Table>() };
    // SAFETY: likewise.
    let nodes = unsafe { slice::from_raw_parts(table.nodes.cast_const(), 1 << table.nodes_log2) };
    worked(nodes.len() * BYTES_PER_NODE);
    let kinds = || nodes.iter().filter(|node| node.value.kind != NIL).map(|node| node.key.kind);
    let count = kinds().count();
    // The first kind of several: which key comes first is not to be told.
    let kind = kinds().filter(|kind| count > 1 && (TABLE..=THREAD).contains(kind)).min()?;
    let key = match kind {
        TABLE => UnorderedKey::Table,
        FUNCTION => UnorderedKey::Function,
        THREAD => UnorderedKey::Thread,
        _ => UnorderedKey::Userdata,
    };
    Some((key, count))
}

fn places_of(table: &Table) -> usize {
    usize::try_from(table.array_len).unwrap_or(0) + (1 << table.nodes_log2)
}

/// The place of a key, counted from 1; 0 before the first; none of a key whose text is gone.
///
/// # Safety
/// Both are Lua's.
unsafe fn place_of(table: *mut Table, key: *const Value) -> Option<usize> {
    // SAFETY: the caller promises it. What Lua answers is a place of the table, or one of its own.
    unsafe {
        let (array_len, nodes) = (usize::try_from((*table).array_len).unwrap_or(0), (*table).nodes.cast_const());
        match (*key).kind {
            NIL => return Some(0),
            NUMBER => {
                let number = f64::from_bits((*key).bits);
                if number >= 1.0 && number <= array_len as f64 && number.fract() == 0.0 {
                    return Some(number as usize);
                }
            }
            _ => {}
        }
        let found = bslH_get(table, key).cast::<Node>();
        let place = (found.addr().checked_sub(nodes.addr())?) / size_of::<Node>();
        (place < 1 << (*table).nodes_log2).then_some(array_len + place + 1)
    }
}

/// Begins a call. `f(...)` copies all arguments, and a function in Lua has all its places of the stack set. By the newest rules a function in C
/// counts for more than its instruction.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bslt_precall(state: *mut LuaState, function: *mut Value, results: c_int) -> c_int {
    // SAFETY: the caller has put the function and its arguments on the state's stack.
    let arguments = unsafe { (*state).top.addr() }.saturating_sub(function.addr()) / size_of::<Value>();
    if arguments > FEW_ARGUMENTS && !count(arguments * size_of::<Value>()) {
        // SAFETY: the call may raise errors, and so may this.
        unsafe { luaD_throw(state, ERROR_OF_MEMORY) }
    }
    // SAFETY: these are the caller's own arguments. An error that it raises passes over a frame that has nothing to drop. A call that has begun
    // is the state's.
    unsafe {
        let began = luaD_precall(state, function, results);
        bsl_called(state, arguments, c_int::from(began != IN_LUA));
        if began == IN_LUA {
            let call = &*(*state).call;
            let places = call.top.addr().saturating_sub(call.base.addr()) / size_of::<Value>();
            if places > FEW_ARGUMENTS {
                worked(places);
            }
        }
        began
    }
}

/// A function in C that calls the one in Lua that is its upvalue. A call of it as the last one leaves its caller on the stack, whose line
/// errors name; a function in Lua would take its caller's place.
///
/// # Safety
/// Lua calls it.
pub unsafe extern "C-unwind" fn stand_in(state: *mut lua_State) -> c_int {
    // SAFETY: there is room for a value more than the arguments. An error that the call raises passes over a frame that has nothing to drop.
    unsafe {
        let arguments = lua_gettop(state);
        lua_pushvalue(state, lua_upvalueindex(1));
        lua_insert(state, 1);
        lua_call(state, arguments, LUA_MULTRET);
        lua_gettop(state)
    }
}

/// A function in C for `next(table, key)`. Its upvalue is a table of those that stand for others, which are walked over in their place.
///
/// # Safety
/// Lua calls it.
pub unsafe extern "C-unwind" fn walk(state: *mut lua_State) -> c_int {
    // SAFETY: there is room for more values than these. What is raised passes over a frame that has nothing to drop.
    unsafe {
        luaL_checktype(state, 1, LUA_TTABLE);
        lua_settop(state, 2);
        lua_pushvalue(state, 1);
        lua_rawget(state, lua_upvalueindex(1));
        match lua_type(state, -1) {
            LUA_TTABLE => lua_replace(state, 1),
            _ => lua_settop(state, 2),
        }
        if lua_next(state, 1) != 0 {
            return 2;
        }
        lua_pushnil(state);
        1
    }
}

/// A function in C for the metatable of a value, whatever that says of itself.
///
/// # Safety
/// Lua calls it.
pub unsafe extern "C-unwind" fn metatable_of(state: *mut lua_State) -> c_int {
    // SAFETY: there is room for a value more than the arguments.
    unsafe {
        if lua_getmetatable(state, 1) == 0 {
            lua_pushnil(state);
        }
        1
    }
}

/// Looks for what a table's metatable says of an event. Tables may stand for each other in a chain, which Lua follows in one instruction.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bslt_gettm(events: *mut Table, event: c_int, name: *mut Text) -> *const Value {
    // Nothing is raised here: the next look at the budget finds it.
    let _ = ask(true, |counter| counter.count_later(BYTES_PER_TABLE));
    // SAFETY: these are the caller's own arguments.
    unsafe { luaT_gettm(events, event, name) }
}

/// An argument that is a whole number, of which C goes on with the lowest 32 bits: `table.insert` moves all that is behind such a place, and
/// one that is far before the first takes minutes.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bslt_checkinteger(state: *mut lua_State, argument: c_int) -> lua_Integer {
    // SAFETY: these are the caller's own arguments. What either raises passes over a frame that has nothing to drop.
    unsafe {
        let number = luaL_checkinteger(state, argument);
        if argument == PLACE && (number as c_int) < -FAR {
            luaL_argerror(state, argument, c"number out of range".as_ptr());
        }
        number
    }
}

/// A function in C for `one < other`, which counts.
///
/// # Safety
/// Lua calls it.
pub unsafe extern "C-unwind" fn less(state: *mut lua_State) -> c_int {
    let goes_on = ask(true, |counter| counter.count_later(BYTES_PER_ORDER));
    // SAFETY: there is room for a value more than the arguments. An error that is raised passes over a frame that has nothing to drop.
    unsafe {
        if !goes_on {
            luaD_throw(state.cast(), ERROR_OF_MEMORY)
        }
        lua_pushboolean(state, lua_lessthan(state, 1, 2));
        1
    }
}

/// Finds a call on the stack, where a function in C asks for one by its level. Those above it are passed over.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bslt_atlevel(state: *mut lua_State, level: c_int, call: *mut lua_Debug) -> c_int {
    // SAFETY: these are the caller's own arguments.
    unsafe {
        count_calls(state, level);
        bsl_getstack(state, level, call)
    }
}

/// Counts the calls that are passed over on the way to a level.
///
/// # Safety
/// The state is one.
unsafe fn count_calls(state: *mut lua_State, level: c_int) {
    // SAFETY: the caller promises it.
    let calls = unsafe { &*state.cast::<LuaState>() };
    let nested = calls.call.addr().saturating_sub(calls.calls.addr()) / size_of::<Call>();
    let passed = usize::try_from(level).unwrap_or(0).min(nested);
    if passed > FEW_CALLS {
        let _ = ask(true, |counter| counter.count_later(passed * BYTES_PER_CALL));
    }
}

/// Whether so many calls are nested that Lua may soon allow no more.
///
/// # Safety
/// The state is one.
#[must_use]
pub unsafe fn is_deep(state: *mut lua_State) -> bool {
    // SAFETY: the caller promises it.
    let state = unsafe { &*state.cast::<LuaState>() };
    let calls = state.call.addr().saturating_sub(state.calls.addr()) / size_of::<Call>();
    calls > CALLS_FEW || state.calls_in_c > CALLS_IN_C_FEW
}

/// Whether calls were ever nested so deep that Lua has refused one. It allows others from then on: until then there is room for
/// a power of two of them.
///
/// # Safety
/// The state is one.
#[must_use]
pub unsafe fn has_overflown(state: *mut lua_State) -> bool {
    // SAFETY: the caller promises it.
    let places = unsafe { (*state.cast::<LuaState>()).calls_places };
    places > CALLS_PLACES_MAX || places.count_ones() != 1
}

/// Finds a call on the stack, of which an error of a C function names the line. Functions of the prelude, and what stands in for the last of
/// them, stand for one in C: the line of its caller is named.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bslt_getcall(state: *mut lua_State, level: c_int, call: *mut lua_Debug) -> c_int {
    // SAFETY: the caller has room for what is found; neither function raises an error.
    unsafe {
        // The function that raises the error is at level 0, and the one that has called it at 1.
        let mut next = 1;
        count_calls(state, level);
        if level == 0 || !is_prelude_at(state, next, call) {
            return bsl_getstack(state, level, call);
        }
        while is_prelude_at(state, next, call) {
            next += 1;
        }
        if bsl_getstack(state, next, call) != 0 && lua_getinfo(state, c"S".as_ptr(), call) != 0 && is_in_c(&*call) {
            next += 1;
        }
        bsl_getstack(state, next, call)
    }
}

/// Whether a function of the prelude is at that level.
///
/// # Safety
/// The state is a state, and there is room for what is found.
unsafe fn is_prelude_at(state: *mut lua_State, level: c_int, call: *mut lua_Debug) -> bool {
    // SAFETY: the caller promises it. A source that is found is a text with a zero byte at its end.
    unsafe {
        bsl_getstack(state, level, call) != 0
            && lua_getinfo(state, c"S".as_ptr(), call) != 0
            && !(*call).source.is_null()
            && CStr::from_ptr((*call).source) == PRELUDE
    }
}

/// # Safety
/// The call's source was found.
unsafe fn is_in_c(call: &lua_Debug) -> bool {
    // SAFETY: the caller promises it: that says what it is by a text with a zero byte at its end.
    !call.what.is_null() && unsafe { CStr::from_ptr(call.what) } == c"C"
}

/// `x ^ y`, the same on every machine.
#[unsafe(no_mangle)]
extern "C" fn bpw(x: f64, y: f64) -> f64 {
    let _ = ask(true, |counter| counter.count_later(BYTES_PER_POWER));
    libm::pow(x, y)
}

/// Reads a number, where arithmetic or `tonumber` meets a text.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bslt_str2d(text: *const c_char, number: *mut f64) -> c_int {
    // SAFETY: the caller has a text with a zero byte at its end.
    let digits = unsafe { CStr::from_ptr(text) }.count_bytes();
    // A short one is read in any case: the next look at the budget finds that it is used up, and ends the run.
    let _ = ask(true, |counter| counter.count_number());
    if digits > FEW_BYTES && !count(digits * BYTES_PER_DIGIT) {
        // It is no number: the run is over, and what it comes to is not used.
        return 0;
    }
    // SAFETY: these are the caller's own arguments.
    unsafe { luaO_str2d(text, number) }
}

/// Compares two texts up to a zero byte, by their bytes, as `strcoll` does in C's own locale.
#[unsafe(no_mangle)]
unsafe extern "C" fn bstcoll(one: *const c_char, other: *const c_char) -> c_int {
    // SAFETY: the caller has texts with a zero byte at their ends.
    let (one, other) = unsafe { (CStr::from_ptr(one), CStr::from_ptr(other)) };
    if !count(one.count_bytes().min(other.count_bytes()).max(COMPARISON_BYTES)) {
        // The run is over: nothing more is compared.
        return 1;
    }
    match one.cmp(other) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

/// Compares a new text with one that Lua has: long ones of one hash may be many.
#[unsafe(no_mangle)]
unsafe extern "C" fn bstcmp(one: *const c_void, other: *const c_void, bytes: usize) -> c_int {
    if bytes > FEW_BYTES {
        // Whether that was too much is asked once the text is made.
        let _ = count(bytes);
    }
    // SAFETY: these are the caller's own arguments.
    unsafe { memcmp(one, other, bytes) }
}

/// The same, where a compiler sees that only equality is asked for: clang calls bcmp then.
#[unsafe(no_mangle)]
unsafe extern "C" fn bscm(one: *const c_void, other: *const c_void, bytes: usize) -> c_int {
    // SAFETY: these are the caller's own arguments.
    unsafe { bstcmp(one, other, bytes) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::cell::Cell;
    use std::ptr;
    use std::rc::Rc;

    /// Counts up to a bound.
    struct Bounded {
        counted: Cell<u64>,
        max: u64,
        numbers: Numbers,
    }

    impl Bounded {
        fn new(max: u64) -> Rc<Self> {
            Rc::new(Self { counted: Cell::new(0), max, numbers: Numbers::default() })
        }
    }

    impl Counter for Bounded {
        fn count_number(&self) -> bool {
            self.count(0)
        }

        fn count_later(&self, _bytes: usize) -> bool {
            true
        }

        fn count_newest(&self, bytes: usize) -> Pace {
            if self.count(bytes) { Pace::GoesOn } else { Pace::Over }
        }

        fn numbers(&self) -> &Numbers {
            &self.numbers
        }

        fn count(&self, bytes: usize) -> bool {
            self.counted.set(self.counted.get() + bytes as u64);
            self.counted.get() <= self.max
        }
    }

    #[test]
    fn keys_without_an_order_are_found() {
        let lua = mlua::Lua::new();
        for (text, expected) in [
            ("return {}", None),
            ("return {1,2,x=3,[true]=4,[1.5]=5}", None),
            ("return {x=1,[{}]=2,[print]=3}", Some(UnorderedKey::Table)),
            ("return {1,2,[print]=3}", None),
            ("return {[print]=3,[type]=4}", Some(UnorderedKey::Function)),
            ("return {[coroutine.create(function() end)]=3,x=1}", Some(UnorderedKey::Thread)),
            ("local k={} local t={[k]=1,x=2} t[k]=nil return t", None),
        ] {
            let table: mlua::Table = lua.load(text).eval().unwrap();
            // SAFETY: the table is there.
            let found = unsafe { unordered_key(table.to_pointer()) };
            assert_eq!(found.map(|(key, _)| key), expected, "{text}");
        }
    }

    /// What a script counts for, and whether it has come to its end.
    fn counted(script: &str, max: u64) -> (u64, bool) {
        let lua = mlua::Lua::new();
        let script = lua.load(script).into_function().unwrap();
        let counter = Bounded::new(max);
        count_by(Some(counter.clone()));
        let done = script.call::<()>(());
        count_by(None);
        (counter.counted.get(), done.is_ok())
    }

    #[test]
    fn long_work_in_c_counts_and_short_work_does_not() {
        let long = "local s, t = ('x'):rep(1e5), {} for i = 1, 5000 do t[i] = i end";
        for (script, least, most) in [
            ("for i = 1, 100 do local s = 'a' .. 'b' .. s:sub(1, 1) end", 0, 0),
            ("for i = 1, 100 do local s = 'a' .. i .. 'b' end", 102_400, 102_400),
            ("for i = 1, 100 do local s = tostring(-i / 3) end", 102_400, 102_400),
            ("for i = 1, 100 do local s = 'a' .. 1 / 0 .. 0 / 0 end", 204_800, 204_800),
            ("for i = 1, 100 do local s = s .. 'y' end", 9_900_000, 21_000_000),
            ("for i = 1, 100 do local s = s:upper() end", 9_900_000, 60_000_000),
            ("s = ('1'):rep(1e5) for i = 1, 10 do local n = s + 0 end", 8_000_000, 20_000_000),
            ("local u = s .. 'y' for i = 1, 100 do local is = s < u end", 10_000_000, 21_000_000),
            (
                "local z = ('\\0'):rep(1e5) local y = z .. 'y' for i = 1, 10 do local is = z < y end",
                16_000_000,
                30_000_000,
            ),
            ("for i = 1, 5000 do t[i] = nil end for i = 1, 10 do next(t) end", 800_000, 2_000_000),
            (
                "local g = function() end local f = function(...) for i = 1, 100 do g(...) end end f(unpack(t))",
                8_000_000,
                9_000_000,
            ),
            ("for k, v in pairs(t) do t[k] = v + 1 end", 80_000, 400_000),
        ] {
            let (count, is_done) = counted(&format!("{long} {script}"), u64::MAX);
            let own = counted(long, u64::MAX).0;
            assert!(is_done && (least..=most).contains(&(count - own)), "{script}: {count}, without it {own}");
        }
    }

    #[test]
    fn an_error_names_the_line_of_who_has_called_the_prelude() {
        let lua = mlua::Lua::new();
        let prelude = "local concat = table.concat return function(t) local joined = concat(t) return joined end";
        let in_lua: mlua::Function = lua.load(prelude).set_name("=prelude").call(()).unwrap();
        // SAFETY: one value becomes another.
        let join: mlua::Function =
            unsafe { lua.exec_raw(in_lua, |state| mlua::ffi::lua_pushcclosure(state, stand_in, 1)) }.unwrap();
        for (script, expected) in [
            ("return select(2, pcall(join, {{}}))", "invalid value"),
            ("return select(2, pcall(function()\n join({{}}) end))", "script:2: invalid value"),
            ("return select(2, pcall(function()\n return join({{}}) end))", "script:2: invalid value"),
            ("return select(2, pcall(function() error('own') end))", "script:1: own"),
            (
                "local f = function() error('outer', 2) end\nreturn select(2, pcall(function() f()\n end))",
                "script:2: outer",
            ),
        ] {
            let script = format!("local join = ... {script}");
            let said: mlua::Value = lua.load(script).set_name("=script").call(join.clone()).unwrap();
            let said = said.to_string().unwrap();
            assert!(said.starts_with(expected), "{said}");
        }
    }

    /// Both of what is asked of a state, by a function in C within a script.
    #[test]
    fn nested_calls_are_counted() {
        unsafe extern "C-unwind" fn ask(state: *mut lua_State) -> c_int {
            // SAFETY: Lua calls it, with room for 20 values.
            unsafe {
                mlua::ffi::lua_pushboolean(state, is_deep(state).into());
                mlua::ffi::lua_pushboolean(state, has_overflown(state).into());
            }
            2
        }
        let lua = mlua::Lua::new();
        // SAFETY: the function is one in C.
        let ask = unsafe { lua.create_c_function(ask) }.unwrap();
        lua.globals().set("ask", ask).unwrap();
        let nested = "local function f(n) if n == 0 then return ask() end local a, b = f(n - 1) return a, b end";
        let nested_in_c = "local function f(n) if n == 0 then return ask() end return select(2, pcall(f, n - 1)) end";
        for (script, expected) in [
            (format!("{nested} return f(9980)"), (false, false)),
            (format!("{nested} return f(10020)"), (true, false)),
            (format!("{nested} return f(16300)"), (true, false)),
            (format!("{nested_in_c} return f(90)"), (false, false)),
            (format!("{nested_in_c} return f(110)"), (true, false)),
            (format!("{nested} pcall(f, 16400) return ask()"), (false, true)),
            ("return ask()".to_owned(), (false, true)),
        ] {
            let found: (bool, bool) = lua.load(&script).eval().unwrap();
            assert_eq!(found, expected, "{script}");
        }
    }

    #[test]
    fn powers_are_those_of_the_crate() {
        let lua = mlua::Lua::new();
        for (x, y) in [(2.0, 0.5), (1.1, 7.3), (10.0, -3.0), (0.1, 21.7), (3.0, 40.0)] {
            let script = format!("local x, y = ... return x ^ y, {x} ^ {y}");
            let found: (f64, f64) = lua.load(script).call((x, y)).unwrap();
            assert_eq!(found, (libm::pow(x, y), libm::pow(x, y)));
        }
    }

    #[test]
    fn what_has_passed_its_bound_ends() {
        for script in [
            "local s = ('x'):rep(1e5) while true do local t = s .. 'y' end",
            "local t = {} for i = 1, 5000 do t['a' .. i] = i end for i = 1, 5000 do t['a' .. i] = nil end while true do next(t) end",
        ] {
            let (count, is_done) = counted(script, 20_000_000);
            assert!(!is_done && count < 21_000_000, "{script}: {count}");
        }
    }

    /// A state by the newest rules, in which a run is under way.
    struct Newest {
        lua: mlua::Lua,
        state: *mut lua_State,
        counter: Rc<Bounded>,
    }

    impl Newest {
        fn new(max: u64) -> Self {
            let lua = by_rules(true, mlua::Lua::new);
            lua.load("function lasting() end").exec().unwrap();
            let mut state = ptr::null_mut();
            // SAFETY: the closure raises no error. The state lives until the run has ended: `drop` sees to it.
            unsafe {
                lua.exec_raw::<()>((), |its| state = its).unwrap();
                settle(state);
                begin_run(state);
            }
            let counter = Bounded::new(max);
            count_by(Some(counter.clone()));
            Self { lua, state, counter }
        }

        /// What a script returns, or its error.
        fn text(&self, script: &str) -> String {
            let done: mlua::Result<mlua::Value> = self.lua.load(script).set_name("=script").eval();
            done.map_or_else(|error| error.to_string(), |value| value.to_string().unwrap())
        }

        /// The next run begins.
        fn run_again(&self) {
            end_run();
            // SAFETY: as in `new`: the state is there, and no function of Lua runs.
            unsafe {
                self.counter.numbers.begin();
                begin_run(self.state);
            }
        }
    }

    impl Drop for Newest {
        fn drop(&mut self) {
            end_run();
            count_by(None);
        }
    }

    const KEYS: &str = "local s = {} for k, v in pairs(t) do s[#s + 1] = tostring(v) end return table.concat(s, ' ')";

    #[test]
    fn tables_have_the_order_that_they_have_in_redis() {
        for (script, expected) in [
            // As Redis 7.0.15 shows it.
            (
                "local t = {} for i = 1, 20 do t[string.rep(string.char(96 + i), 40)] = i end",
                "3 5 9 4 20 12 14 11 15 2 8 19 6 7 17 1 18 16 13 10",
            ),
            ("local t = {} for i = 1, 6 do t['user:00000000-0000-0000-0000-00000000000' .. i] = i end", "1 6 3 4 2 5"),
            // As Lua 5.1.5 does.
            (
                "local u, t, n = {}, {}, 0 for i = 1, 40 do local k = (i * 37) % 64 u[k] = k u['k' .. k] = 'k' .. k \
                 u[k + 0.5] = k + 0.5 u[-k] = -k end for i = 1, 40, 3 do u[(i * 37) % 64] = nil end u[true] = true \
                 for k, v in pairs(u) do n = n + 1 if n <= 40 then t[n] = v end end",
                "2 5 6 9 10 13 15 19 22 23 26 30 32 35 36 39 40 43 47 49 52 53 56 57 60 62 k16 true k32 -30 32.5 k39 k56 \
                 -2 35.5 -32 36.5 -33 9.5 k9",
            ),
        ] {
            assert_eq!(Newest::new(u64::MAX).text(&format!("{script} {KEYS}")), expected, "{script}");
        }
    }

    #[test]
    fn objects_that_are_keys_have_an_order_that_is_the_same_in_each_state_and_each_run() {
        let script = format!(
            "local t, k = {{}}, {{}} for i = 1, 30 do k[i] = {{}} t[k[i]] = i t[function() end] = -i \
             t[coroutine.create(function() end)] = i / 2 end for i = 1, 30, 2 do t[k[i]] = nil end \
             t[print] = 'print' t[string] = 'string' t[lasting] = 'lasting' \
             assert(t[print] == 'print' and t[{{}}] == nil and not pcall(next, t, {{}})) {KEYS}"
        );
        let one = Newest::new(u64::MAX);
        let expected = one.text(&script);
        assert!(expected.contains("lasting") && expected.split(' ').count() == 78, "{expected}");
        one.run_again();
        // In this run they have other numbers.
        assert_eq!(one.text(&format!("local t = {{[string]=1, [lasting]=2}} {KEYS}")), "1 2");
        one.run_again();
        assert_eq!(one.text(&script), expected);
        drop(one);
        assert_eq!(Newest::new(u64::MAX).text(&script), expected);
    }

    #[test]
    fn a_state_by_the_newest_rules_keeps_what_a_script_would_change() {
        let newest = Newest::new(u64::MAX);
        for (script, expected) in [
            (
                "local m = {} local t = setmetatable({}, m) m.__mode = 'kv' t[1] = {} t[2] = {} t[{}] = 1 \
                 collectgarbage() collectgarbage() local n = 0 for k in pairs(t) do n = n + 1 end return n",
                "3",
            ),
            ("return select(2, pcall(setfenv, lasting, {}))", "'setfenv' cannot change environment of given object"),
            ("setfenv(0, {}) return tostring(getfenv(0) == _G)", "true"),
            ("setfenv('0', {}) return tostring(getfenv(0) == _G)", "true"),
            ("local f = setfenv(function() return x end, {x = 7}) return f()", "7"),
        ] {
            assert_eq!(newest.text(script), expected, "{script}");
        }
    }

    #[test]
    fn numbers_are_those_of_one_kind_of_processor() {
        let newest = Newest::new(u64::MAX);
        for (script, expected) in [
            ("return string.format('%x %u', -1, -5)", "ffffffffffffffff 18446744073709551611"),
            ("return string.format('%d %i', 2^63, -2^70)", "-9223372036854775808 -9223372036854775808"),
            ("return string.format('%x %x %X', 2^64, 1.5 * 2^63, 0 / 0)", "0 c000000000000000 8000000000000000"),
            (
                "return '<' .. string.format('%c', 2^40) .. string.format('%c%5d|%-4x|', 65, 7, 255) .. '>'",
                "<A    7|ff  |>",
            ),
            ("return '<' .. ('abc'):sub(1, math.huge) .. ('abc'):sub(-1, 2^62) .. '>'", "<c>"),
            ("return tostring(0 / 0) .. string.format('%f%g', 0 / 0, 0 / 0)", "-nan-nan-nan"),
            ("return -(0 / 0) .. ' ' .. tostring(tonumber('nan'))", "-nan -nan"),
            ("return string.format('%f %.1f %g', -(0 / 0), tonumber('nan'), -tonumber('-nan'))", "-nan -nan -nan"),
            ("local n = 'n' return n .. 'an' .. ' ' .. n .. 0 / 0", "nan n-nan"),
            ("local n = 'n' return n .. 'an'", "nan"),
            ("return string.format('%5.1f %s %q', 2.25, 'x', 'y')", "  2.2 x \"y\""),
        ] {
            assert_eq!(newest.text(script), expected, "{script}");
        }
    }

    #[test]
    fn more_values_than_there_is_room_for_are_not_unpacked() {
        let scripts = [
            "unpack({}, 0, 2147483647)",
            "unpack({}, -2147483648, 2147483647)",
            "unpack({}, -1, 2147483646)",
            "unpack({}, 2^32, 2^31 - 1)",
            "unpack({}, 1, 8001)",
        ];
        let before = mlua::Lua::new();
        let newest = Newest::new(u64::MAX);
        for script in scripts {
            let script = format!("local ok, e = pcall(function() {script} end) return e");
            let said: String = before.load(&script).eval().unwrap();
            assert!(said.contains("too many results to unpack"), "{script}: {said}");
            assert!(newest.text(&script).contains("too many results to unpack"), "{script}");
        }
        assert_eq!(newest.text("return select('#', unpack({}, 1, 7000))"), "7000");
    }

    #[test]
    fn steps_count_that_no_instruction_shows() {
        let few = "for i = 1, 1000 do local t = {a = 1, i} t.b = t.a + i end";
        let walks =
            "for i = 1, 1000 do local t = {a = 1, i} t.b = i local n = #t for k in pairs(t) do n = n + 1 end end";
        let numbers = "local t = {} for i = 1, 10000 do t[i] = (i * 7919) % 10007 end";
        let names: Vec<String> = (1..=150).map(|i| format!("a{i}")).collect();
        for (script, least, most) in [
            (few.to_owned(), 0, 10_000),
            (walks.to_owned(), 350_000, 400_000),
            (
                "local t, j = {}, 2^16 + 1 while j < 2^31 do t[j] = true j = j * 2 end for i = 1, 2^16 do t[i] = true end \
                 for i = 1, 10 do local n = #t end"
                    .to_owned(),
                5_000_000,
                6_000_000,
            ),
            (
                "local t = {} for i = 1, 2^16 do t[i] = i end t.a = 1 t.b = 2 for i = 1, 20 do t[i + 0.5] = 1 t[i + 0.5] = nil end"
                    .to_owned(),
                1_000_000,
                2_000_000,
            ),
            (
                "local t = {} for i = 1, 2000 do local high, low = 2^30 + i, 3 * 2^30 - i \
                 t[(1 + ((high % 2^20) * 2^32 + low) / 2^52) * 2^(math.floor(high / 2^20) - 1023)] = i end"
                    .to_owned(),
                15_000_000,
                18_000_000,
            ),
            (
                "local t = {} for i = 1, 1000 do t[i] = 1 end for i = 1, 1000 do t[i] = nil end for i = 1, 100 do next(t) end"
                    .to_owned(),
                190_000,
                300_000,
            ),
            (
                "local t = {} for i = 1, 10000 do t[i] = '' end for r = 1, 10 do table.concat(t) end".to_owned(),
                1_500_000,
                2_000_000,
            ),
            (format!("{numbers} for r = 1, 10 do table.foreachi(t, math.randomseed) end"), 4_500_000, 6_000_000),
            (format!("{numbers} for r = 1, 10 do table.maxn(t) end"), 5_000_000, 6_000_000),
            (
                format!("local function f() end for i = 1, 1000 do for {} in f do end end", names.join(",")),
                140_000,
                300_000,
            ),
            (format!("{numbers} table.sort(t)"), 5_000_000, 9_000_000),
            (format!("{numbers} table.sort(t, rawequal)"), 5_000_000, 9_000_000),
        ] {
            let newest = Newest::new(u64::MAX);
            assert_eq!(newest.text(&format!("{script} return 1")), "1");
            let counted = newest.counter.counted.get();
            assert!((least..=most).contains(&counted), "{script}: {counted}");
        }
        for script in [
            "local t = {} for i = 1, 1000 do t[i] = i end while true do table.foreachi(t, math.randomseed) end",
            "local s = 'return ' .. ('a and '):rep(20000) .. '1' while true do assert(loadstring(s)) end",
        ] {
            let over = Newest::new(1_000_000);
            let said = over.text(script);
            assert!(said.contains("not enough memory") && over.counter.counted.get() < 1_200_000, "{said}");
        }
    }

    #[test]
    fn what_an_instruction_does_in_c_counts_by_the_newest_rules() {
        let many = "('do local a = 1 end '):rep(10000)";
        let compiled = |text: &str| format!("local s = {text} for i = 1, 5 do assert(loadstring(s)) end");
        let failing = |text: &str| format!("local f = loadstring({many} .. '{text}') for i = 1, 10 do pcall(f) end");
        let nested = |levels: usize, names: usize| {
            let function = format!("'local function f() local ' .. ('a,'):rep({names}) .. 'a '");
            format!(
                "local f = {function} local s = f:rep({levels}) .. ('b = b '):rep(500) .. ('end '):rep({levels}) \
                 assert(loadstring(s))"
            )
        };
        for (script, least, most) in [
            ("for i = 1, 1000 do local s = string.format('%d %s', i, 'x') end".to_owned(), 150_000, 200_000),
            ("for i = 1, 1000 do local s = string.format('%.3g', i) end".to_owned(), 1_000_000, 1_200_000),
            (
                "local t = setmetatable({}, {__sub = rawequal}) for i = 1, 1000 do local n = t - t end".to_owned(),
                70_000,
                100_000,
            ),
            (
                "local t = {} for i = 1, 2^15 do t[i] = i end t[2^15] = nil for i = 1, 1000 do local n = #t end"
                    .to_owned(),
                100_000,
                250_000,
            ),
            ("local s = ('x'):rep(128) for i = 1, 1000 do local t = s:sub(2) end".to_owned(), 350_000, 500_000),
            // What is returned again and again.
            (
                "local t = {} for i = 1, 5000 do t[i] = i end \
                 local function f(n) if n == 0 then return unpack(t) end return 1, f(n - 1) end f(1000)"
                    .to_owned(),
                11_000_000,
                12_000_000,
            ),
            // Where errors look for names.
            (failing("return 1"), 300_000, 700_000),
            (failing("local b local c = b.c"), 1_300_000, 1_900_000),
            (failing("return -{}"), 1_300_000, 1_900_000),
            (failing("return {} .. 1"), 1_300_000, 1_900_000),
            (failing("string.rep()"), 1_300_000, 1_900_000),
            // Jumps to one place, and names in functions within functions.
            (compiled("'return ' .. ('a and '):rep(1000) .. '1'"), 20_000_000, 21_000_000),
            (compiled("'return ' .. ('a or '):rep(1000) .. '1'"), 20_000_000, 21_000_000),
            (compiled("'while a do ' .. ('if b then break end '):rep(1000) .. 'end'"), 20_000_000, 21_000_000),
            (compiled("'if a then ' .. ('elseif a then '):rep(1000) .. 'end'"), 20_000_000, 21_000_000),
            (nested(100, 150), 130_000_000, 140_000_000),
            (nested(3, 10), 0, 20_000),
        ] {
            let newest = Newest::new(u64::MAX);
            assert_eq!(newest.text(&format!("{script} return 1")), "1");
            let counted = newest.counter.counted.get();
            assert!((least..=most).contains(&counted), "{script}: {counted}");
        }
    }

    /// Some instructions do as much as hundreds. They are cut into several, or others stand behind them.
    #[test]
    fn wide_instructions_are_several() {
        let names: Vec<String> = (1..=96).map(|i| format!("a{i}")).collect();
        let names = names.join(",");
        let nils = ["nil"; 96].join(",");
        let instructions = |is_newest: bool, script: &str| {
            let lua = by_rules(is_newest, mlua::Lua::new);
            let ran = Rc::new(Cell::new(0));
            let counted = ran.clone();
            let triggers = mlua::HookTriggers::new().every_nth_instruction(100);
            let set = lua.set_global_hook(triggers, move |_, _| {
                counted.set(counted.get() + instructions_run(100));
                Ok(mlua::VmState::Continue)
            });
            set.unwrap();
            lua.load(script).exec().unwrap();
            ran.get()
        };
        for script in [
            format!("for i = 1, 1000 do local {names} assert(a1 == nil and a96 == nil) end"),
            format!("local function f(...) for i = 1, 1000 do local {names} = ... assert(a2 == 2) end end f(1, 2)"),
            format!("for i = 1, 1000 do local {names} = {nils} assert(a1 == nil and a96 == nil) end"),
            format!("local function f() return 1, 2 end for i = 1, 1000 do local {names} = f() assert(a2 == 2) end"),
        ] {
            let (before, newest) = (instructions(false, &script), instructions(true, &script));
            assert!((4_800..=5_200).contains(&(newest - before)), "{script}: {before}, {newest}");
        }
        let few = "for i = 1, 1000 do local a, b, c, d assert(a == nil and d == nil) end";
        assert_eq!(instructions(false, few), instructions(true, few));
    }
}

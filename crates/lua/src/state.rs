//! The rules of a Lua state, and the run that is under way in it.
//!
//! A state has the rules by which it was made. By the newest ones each text has the hash that it has in Redis, which decides on the order of
//! tables; numbers become integers as on x86-64, whatever the processor is; objects that are keys have numbers, so that no order is one of
//! addresses; and nothing is weak.

use mlua_sys::lua_State;
use std::ffi::c_int;
use std::ptr;

unsafe extern "C-unwind" {
    fn bsl_rules_of_next(is_newest: c_int);
    fn bsl_settle(state: *mut lua_State);
    fn bsl_run(state: *mut lua_State);
    fn bsl_look_soon();
    fn bsl_take_unrun(at_once: c_int) -> c_int;
    fn bsl_worked(bytes: usize);
}

/// The states that `make` makes have the newest rules, or those before.
pub fn by_rules<T>(is_newest: bool, make: impl FnOnce() -> T) -> T {
    /// States have the rules before again.
    struct Before;

    impl Drop for Before {
        fn drop(&mut self) {
            // SAFETY: it sets a number of this thread.
            unsafe { bsl_rules_of_next(0) };
        }
    }

    // SAFETY: likewise.
    unsafe { bsl_rules_of_next(c_int::from(is_newest)) };
    let _before = Before;
    make()
}

/// What the state has by now lasts from run to run: its environments stay as they are, and by the newest rules what is made from here on has
/// numbers.
///
/// # Safety
/// It is a state, and no function of Lua runs in it.
pub unsafe fn settle(state: *mut lua_State) {
    // SAFETY: the caller promises it.
    unsafe { bsl_settle(state) };
}

/// A run begins on this thread, in that state.
///
/// # Safety
/// It is a state, and lives until `end_run` is called on this thread, or another run begins there.
pub unsafe fn begin_run(state: *mut lua_State) {
    // SAFETY: the caller promises it.
    unsafe { bsl_run(state) };
}

/// The run is over, if one is under way on this thread.
pub fn end_run() {
    // SAFETY: it forgets the state.
    unsafe { bsl_run(ptr::null_mut()) };
}

/// The run looks at its budget behind the instruction that it is at.
pub fn look_soon() {
    // SAFETY: it changes a count of the state that runs on this thread, if one does.
    unsafe { bsl_look_soon() };
}

/// The run that is under way on this thread has done what counts for so many bytes, by the newest rules. Raises no error: where that was too much, the
/// next look at the budget finds it.
pub fn worked(bytes: usize) {
    // SAFETY: it adds to a number of this thread, and tells the counter.
    unsafe { bsl_worked(bytes) };
}

/// How many instructions have run since the last look at a budget, which comes when it is looked at every `at_once` instructions, or earlier.
#[must_use]
pub fn instructions_run(at_once: u32) -> u32 {
    // SAFETY: it takes a number of this thread.
    let unrun = unsafe { bsl_take_unrun(c_int::try_from(at_once).unwrap_or(c_int::MAX)) };
    at_once.saturating_sub(u32::try_from(unrun).unwrap_or(0))
}

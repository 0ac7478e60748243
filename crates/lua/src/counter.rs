//! What counts the work of the Lua state that runs on a thread.
//!
//! Invariant: nothing that is asked here raises an error of Lua, which would leave the place of the counter borrowed.

use crate::numbers::Numbers;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// What counts the work of the Lua state that runs on this thread.
pub trait Counter {
    /// The state has handled so many bytes besides those that it has allocated. False if it must not go on.
    fn count(&self, bytes: usize) -> bool;

    /// The state reads a text as a number.
    fn count_number(&self) -> bool;

    /// The state has done what counts for so many bytes only by newer rules.
    fn count_later(&self, bytes: usize) -> bool;

    /// The state has done what counts for so many bytes only by the newest rules.
    fn count_newest(&self, bytes: usize) -> Pace;

    /// The numbers of the state's objects.
    fn numbers(&self) -> &Numbers;
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Pace {
    /// It does.
    GoesOn = 0,
    /// Others are to be looked at: it has done much since that was done last.
    Looks = 1,
    /// It has passed its bound.
    Over = 2,
}

thread_local! {
    static COUNTER: RefCell<Option<Rc<dyn Counter>>> = const { RefCell::new(None) };
}

/// From now on that counts what Lua does on this thread; none: nothing is counted.
pub fn count_by(counter: Option<Rc<dyn Counter>>) {
    // A thread that ends counts nothing.
    let _ = COUNTER.try_with(|place| place.replace(counter));
}

/// Tells the counter, if there is one. False if it says that Lua must not go on.
pub(crate) fn count(bytes: usize) -> bool {
    ask(true, |counter| counter.count(bytes))
}

/// Asks the counter; `otherwise` if there is none.
pub(crate) fn ask<T: Copy>(otherwise: T, question: impl FnOnce(&dyn Counter) -> T) -> T {
    let ask = |place: &RefCell<Option<Rc<dyn Counter>>>| match place.try_borrow().as_deref() {
        Ok(Some(counter)) => question(&**counter),
        _ => otherwise,
    };
    COUNTER.try_with(ask).unwrap_or(otherwise)
}

/// Work in C that is worth so many bytes, by the newest rules.
#[unsafe(no_mangle)]
extern "C" fn bslt_worked(bytes: usize) -> c_int {
    ask(Pace::GoesOn, |counter| counter.count_newest(bytes)) as c_int
}

/// The number of an object that becomes a key of a table, and has none.
#[unsafe(no_mangle)]
unsafe extern "C" fn bslt_number(object: *mut c_void) -> u32 {
    // SAFETY: the caller has an object of the state that runs, of which the counter is.
    ask(1, |counter| unsafe { counter.numbers().next(object) })
}

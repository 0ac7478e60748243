//! Numbers of the objects that are keys of tables.
//!
//! An object gets its number when it first becomes a key of a table that a run has made: the next one of the run. So a table's order is the same
//! wherever the same script runs, whatever ran before in its state. What lasts from run to run loses its number before the next run.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

/// The head of an object of Lua that may be a key of a table.
#[repr(C)]
struct Object {
    _next: *mut c_void,
    _kind_marks_own: [u8; 4],
    number: u32,
}

/// Of an object's number: it was there before the first run; and what is its number.
const LASTING_BIT: u32 = 1 << 31;
const OWN_BITS: u32 = (1 << 30) - 1;

/// The numbers of one state.
#[derive(Default)]
pub struct Numbers {
    /// The last one of the run.
    last: Cell<u32>,
    /// The objects that have one of the run, and last longer.
    lasting: RefCell<Vec<NonNull<Object>>>,
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbers").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Numbers {
    /// They begin anew, with a run.
    ///
    /// # Safety
    /// The state lives to whose objects `next` has given numbers, and none of its functions runs.
    pub unsafe fn begin(&self) {
        self.last.set(0);
        for mut object in self.lasting.borrow_mut().drain(..) {
            // SAFETY: the caller promises it: the object lives as long as its state.
            let object = unsafe { object.as_mut() };
            object.number &= !OWN_BITS;
        }
    }

    /// The next one, for that object.
    ///
    /// # Safety
    /// It is an object of the state.
    pub(crate) unsafe fn next(&self, object: *mut c_void) -> u32 {
        if let Some(object) = NonNull::new(object.cast::<Object>()) {
            // SAFETY: the caller promises it.
            let number = unsafe { object.as_ref() }.number;
            if number & LASTING_BIT != 0 {
                self.lasting.borrow_mut().push(object);
            }
        }
        // So many there cannot be: a state has less memory.
        self.last.set((self.last.get() + 1) & OWN_BITS);
        self.last.get().max(1)
    }
}

//! The allocator of a Lua state: it bounds what the state holds, and counts what a run builds.
//!
//! A script that joins long strings does much work in few instructions, which no hook of Lua sees. So bytes count for instructions,
//! and an allocation that passes what is left of a budget fails, as one does that passes the bound of the state. Lua raises that as an
//! error. Only long allocations fail: for short ones the end is noted, and the next look at the budget finds it. A binding may
//! allocate a few bytes where it could not handle an error.
//!
//! What Lua does in C without allocating counts as if it were allocated (`lua::Counter`): a text that it has already, a comparison.
//!
//! Every allocation is made by the allocator that the state had before, but for small blocks of a state that is used again.
#![allow(unsafe_code, reason = "Lua calls its allocator by a C function")]

use super::end::End;
use lua::{Numbers, Pace, SmallBlocks};
use mlua::{Lua, ffi};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use vocab::limits::{SCRIPT_BYTES_PER_INSTRUCTION, SCRIPT_SLICE_INSTRUCTIONS_MAX};

/// Longer allocations may fail.
const LONG_BYTES: usize = 4096;
/// After so many bytes others are looked at that wait or end the run, from the seventh engine on. That is all that a slice can afford: what a state
/// has of earlier runs never decides when a run that goes on is looked at.
const LOOK_BYTES: u64 = SCRIPT_SLICE_INSTRUCTIONS_MAX * SCRIPT_BYTES_PER_INSTRUCTION;

/// What a Lua state holds and builds. It is the state's as long as both live.
pub(super) struct Allocation {
    /// What allocates.
    inner: Cell<Option<Inner>>,
    /// What does so before it, in a state that is used again.
    small: Option<SmallBlocks>,
    /// Bytes that the state holds.
    used: Cell<usize>,
    /// Bytes that it may hold.
    used_max: Cell<usize>,
    /// Bytes that were allocated or handled since they were taken last.
    built: Cell<u64>,
    /// Bytes that may be, until then.
    built_max: Cell<u64>,
    /// Bytes for which a text counts that is read as a number.
    number_bytes: Cell<usize>,
    /// What counts from the sixth engine on counts.
    counts_later: Cell<bool>,
    /// What counts from the seventh engine on counts.
    counts_newest: Cell<bool>,
    /// What was passed.
    passed: Cell<Option<End>>,
    /// The numbers of the state's objects.
    numbers: Numbers,
}

#[derive(Clone, Copy, Debug)]
struct Inner {
    allocate: ffi::lua_Alloc,
    data: *mut c_void,
}

impl Default for Allocation {
    fn default() -> Self {
        Self {
            inner: Cell::new(None),
            small: None,
            used: Cell::new(0),
            used_max: Cell::new(usize::MAX),
            built: Cell::new(0),
            built_max: Cell::new(u64::MAX),
            number_bytes: Cell::new(0),
            counts_later: Cell::new(false),
            counts_newest: Cell::new(false),
            passed: Cell::new(None),
            numbers: Numbers::default(),
        }
    }
}

/// An allocation counts what a state allocates until this is dropped. One with small blocks is dropped behind the state, and is the
/// state's to its end: the binding then leaves behind the few bytes by which it counts.
pub(super) struct Installed {
    /// The state, if it is to be given its allocator back.
    lua: Option<Lua>,
    of: Rc<Allocation>,
}

impl Installed {
    /// Has a state allocate by way of `of`, of which it counts as having `used` bytes so far.
    pub(super) fn new(lua: &Lua, of: Rc<Allocation>, used: usize) -> mlua::Result<Self> {
        of.used.set(used);
        // SAFETY: the state is locked, and the closure calls nothing that raises an error. What it hands to the state lives until
        // `drop` has taken it back: `of` is owned by what is returned.
        unsafe {
            lua.exec_raw::<()>((), |state| {
                let mut data = std::ptr::null_mut();
                let allocate = ffi::lua_getallocf(state, &raw mut data);
                of.inner.set(Some(Inner { allocate, data }));
                ffi::lua_setallocf(state, allocate_counted, Rc::as_ptr(&of).cast_mut().cast());
            })?;
        }
        Ok(Self { lua: of.small.is_none().then(|| lua.clone()), of })
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let Some(lua) = &self.lua else {
            if self.of.used.get() > 0 {
                // The state lives on: so must its blocks.
                std::mem::forget(self.of.clone());
            }
            return;
        };
        let Some(inner) = self.of.inner.get() else { return };
        self.of.set_bounds(usize::MAX, u64::MAX);
        // SAFETY: as in `new`; the allocator that is put back has made every allocation.
        let done = unsafe { lua.exec_raw::<()>((), |state| ffi::lua_setallocf(state, inner.allocate, inner.data)) };
        assert!(done.is_ok(), "a Lua state would keep an allocator that is gone: {done:?}");
    }
}

impl Allocation {
    /// The allocation of a state that is used again.
    pub(super) fn with_small_blocks() -> Self {
        Self { small: Some(SmallBlocks::new()), ..Self::default() }
    }

    /// A run begins with these bounds of what the state holds and the run builds.
    pub(super) fn set_bounds(&self, used_max: usize, built_max: u64) {
        self.used_max.set(used_max);
        self.built.set(0);
        self.built_max.set(built_max);
        self.passed.set(None);
    }

    /// Bytes that were allocated since this was called last; so many may be until it is called again.
    pub(super) fn take_built(&self) -> u64 {
        self.built.replace(0)
    }

    /// So many bytes may be allocated until they are taken.
    pub(super) fn set_built_max(&self, bytes: u64) {
        self.built_max.set(bytes);
    }

    /// A text that is read as a number counts for so many bytes.
    pub(super) fn set_number_bytes(&self, bytes: usize) {
        self.number_bytes.set(bytes);
    }

    /// Whether what counts from the sixth engine on counts.
    pub(super) fn count_later(&self, counts: bool) {
        self.counts_later.set(counts);
    }

    /// Whether what counts from the seventh engine on counts.
    pub(super) fn count_newest(&self, counts: bool) {
        self.counts_newest.set(counts);
    }

    /// Objects of the state that become keys are numbered anew. None of its functions runs.
    pub(super) fn number_anew(&self) {
        // SAFETY: the state lives whose objects were numbered: what is asked for this belongs to it, and to what runs in it.
        unsafe { self.numbers.begin() };
    }

    /// Why the run is to end, if it is.
    pub(super) fn passed(&self) -> Option<End> {
        self.passed.get()
    }

    /// Whether the state may allocate `new` bytes where it had `old`.
    fn admit(&self, old: usize, new: usize) -> bool {
        let used = self.used.get().saturating_sub(old).saturating_add(new);
        let built = self.built.get().saturating_add(new as u64);
        let passed = match () {
            () if new <= old => None,
            () if used > self.used_max.get() => Some(End::Memory),
            () if built > self.built_max.get() => Some(End::Instructions),
            () => None,
        };
        self.passed.set(self.passed.get().or(passed));
        if passed.is_some() && new > LONG_BYTES {
            return false;
        }
        self.used.set(used);
        if new > old {
            self.built.set(built);
            self.look(passed.is_some());
        }
        true
    }

    /// Has the budget looked at soon where the run is to end, or has gone on for long.
    fn look(&self, is_over: bool) {
        if self.counts_newest.get() && (is_over || self.built.get() >= LOOK_BYTES) {
            lua::look_soon();
        }
    }
}

impl Inner {
    /// # Safety
    /// These are the arguments of the state.
    unsafe fn allocate(&self, old: *mut c_void, old_bytes: usize, bytes: usize) -> *mut c_void {
        // SAFETY: that was the state's allocator.
        unsafe { (self.allocate)(self.data, old, old_bytes, bytes) }
    }

    /// The same where small blocks come from `small`.
    ///
    /// # Safety
    /// As of `allocate`.
    unsafe fn allocate_with(
        &self,
        small: &SmallBlocks,
        old: *mut c_void,
        old_bytes: usize,
        bytes: usize,
    ) -> *mut c_void {
        let fresh = || match small.take(bytes) {
            Some(block) => block.as_ptr().cast(),
            // SAFETY: there is nothing old.
            None => unsafe { self.allocate(ptr::null_mut(), 0, bytes) },
        };
        let Some(block) = NonNull::new(old.cast::<u8>()) else { return fresh() };
        if !small.has(block.as_ptr()) {
            // SAFETY: the caller promises it.
            return unsafe { self.allocate(old, old_bytes, bytes) };
        }
        if SmallBlocks::are_alike(old_bytes, bytes) {
            return old;
        }
        let new = if bytes == 0 { ptr::null_mut() } else { fresh() };
        if bytes > 0 && new.is_null() {
            return new;
        }
        // SAFETY: both are as long as what is copied, and are not the same; the state does not use the old one any more.
        unsafe {
            if bytes > 0 {
                ptr::copy_nonoverlapping(block.as_ptr(), new.cast(), old_bytes.min(bytes));
            }
            small.give(block, old_bytes);
        }
        new
    }
}

impl lua::Counter for Allocation {
    fn count_number(&self) -> bool {
        self.count(self.number_bytes.get())
    }

    fn count_later(&self, bytes: usize) -> bool {
        !self.counts_later.get() || self.count(bytes)
    }

    fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    fn count_newest(&self, bytes: usize) -> Pace {
        match self.counts_newest.get() {
            true if !self.count(bytes) => Pace::Over,
            true if self.built.get() >= LOOK_BYTES => Pace::Looks,
            _ => Pace::GoesOn,
        }
    }

    fn count(&self, bytes: usize) -> bool {
        let built = self.built.get().saturating_add(bytes as u64);
        self.built.set(built);
        let goes_on = built <= self.built_max.get();
        if !goes_on {
            self.passed.set(self.passed.get().or(Some(End::Instructions)));
        }
        self.look(!goes_on);
        goes_on
    }
}

/// `lua_Alloc`: none if the allocation fails.
unsafe extern "C" fn allocate_counted(
    data: *mut c_void,
    old: *mut c_void,
    old_bytes: usize,
    bytes: usize,
) -> *mut c_void {
    // SAFETY: `Installed` has handed a pointer to it to the state, and keeps it.
    let of = unsafe { &*data.cast::<Allocation>() };
    let Some(inner) = of.inner.get() else { return std::ptr::null_mut() };
    let held = if old.is_null() { 0 } else { old_bytes };
    if !of.admit(held, bytes) {
        return std::ptr::null_mut();
    }
    // SAFETY: these are the arguments of the state.
    unsafe {
        match &of.small {
            Some(small) => inner.allocate_with(small, old, old_bytes, bytes),
            None => inner.allocate(old, old_bytes, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn long_allocations_fail_at_a_bound_and_short_ones_are_noted() {
        let of = Allocation::default();
        of.set_bounds(10_000, u64::MAX);
        assert!(of.admit(0, 9_000) && of.passed().is_none());
        assert!(!of.admit(0, 5_000) && of.passed() == Some(End::Memory));
        assert!(of.admit(0, 2_000), "a short one is granted");
        assert!(of.admit(9_000, 0) && of.used.get() == 2_000);
        of.set_bounds(usize::MAX, 10_000);
        assert!(of.passed().is_none() && of.admit(0, 9_000) && of.take_built() == 9_000);
        of.set_built_max(1_000);
        assert!(!of.admit(0, 5_000) && of.passed() == Some(End::Instructions));
        of.set_bounds(usize::MAX, 10_000);
        assert!(lua::Counter::count(&of, 9_000) && of.passed().is_none());
        assert!(!lua::Counter::count(&of, 9_000) && of.passed() == Some(End::Instructions));
        assert_eq!(of.take_built(), 18_000);
    }

    #[test]
    fn what_counts_by_the_newest_rules_is_looked_at_in_time() {
        let of = Allocation::default();
        let much = LOOK_BYTES as usize;
        let count = |bytes: usize| lua::Counter::count_newest(&of, bytes);
        of.set_bounds(usize::MAX, 3 * LOOK_BYTES);
        assert_eq!((count(much), of.take_built()), (Pace::GoesOn, 0));
        of.count_newest(true);
        assert_eq!((count(much - 1), count(1), count(1)), (Pace::GoesOn, Pace::Looks, Pace::Looks));
        assert_eq!((of.take_built(), count(much - 1)), (LOOK_BYTES + 1, Pace::GoesOn));
        assert_eq!((count(3 * much), of.passed()), (Pace::Over, Some(End::Instructions)));
    }

    #[test]
    fn a_state_with_small_blocks_gives_all_back_at_its_end() {
        let (lua, of) = (Lua::new(), Rc::new(Allocation::with_small_blocks()));
        let installed = Installed::new(&lua, of.clone(), lua.used_memory()).unwrap();
        let script = "local t = {} for round = 1, 20 do for i = 1, 2000 do t[i] = ('x'):rep(i % 400) .. round end end
            local u = {} for i = 1, 3000 do u[i] = {i, {}} end local sum = 0 for i = 1, 3000 do sum = sum + u[i][1] end
            for i = 1, 2000 do assert(t[i] == ('x'):rep(i % 400) .. 20) end return sum";
        for _ in 0..3 {
            assert_eq!(lua.load(script).eval::<u64>().unwrap(), 4_501_500);
            lua.gc_collect().unwrap();
        }
        assert!(of.used.get() > 0);
        drop(lua);
        assert_eq!(of.used.get(), 0);
        drop(installed);
        assert_eq!(Rc::strong_count(&of), 1);
    }

    #[test]
    fn a_state_counts_what_it_builds_until_the_count_is_dropped() {
        let (lua, of) = (Lua::new(), Rc::new(Allocation::default()));
        let installed = Installed::new(&lua, of.clone(), lua.used_memory()).unwrap();
        of.set_bounds(usize::MAX, u64::MAX);
        lua.load("local s = ('x'):rep(100000) for i = 1, 10 do local t = s .. i end").exec().unwrap();
        assert!(of.take_built() > 1_000_000);
        of.set_bounds(lua.used_memory() + 50_000, u64::MAX);
        let failed = lua.load("return ('y'):rep(500000)").exec();
        assert!(failed.is_err() && of.passed() == Some(End::Memory));
        drop(installed);
        assert_eq!(lua.load("return #('x'):rep(100000)").eval::<usize>().unwrap(), 100_000);
    }
}

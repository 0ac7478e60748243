//! What a run of a script has used of its budgets, and what its Lua functions share with it.

use super::raised::Raised;
use crate::acl::{Denial, User};
use mlua::{Error, VmState};
use resp::Proto;
use resp::table::CommandSpec;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// So many instructions of Lua run between two looks at the budget.
pub(super) const INSTRUCTIONS_AT_ONCE: u32 = 1000;

/// Lua's own words for it.
const NO_MEMORY: &str = "not enough memory";

/// Why a run ends whether or not the script catches errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It has run too many instructions.
    Instructions,
    /// Its state would hold too much.
    Memory,
    /// A command met a fault, or the run cannot go on for another reason: the caller knows.
    Given,
}

/// The meter of the run under way in one Lua state.
#[derive(Debug)]
pub(super) struct Meter {
    instructions: Cell<u64>,
    instructions_max: Cell<u64>,
    end: Cell<Option<End>>,
    proto: Cell<Proto>,
    /// The state of the random numbers: 48 bits.
    random: Cell<u64>,
    /// As whom the script runs, and the number of its database; none: it may run every command.
    user: RefCell<Option<(Arc<User>, u16)>>,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            instructions: Cell::new(0),
            instructions_max: Cell::new(u64::MAX),
            end: Cell::new(None),
            proto: Cell::new(Proto::Resp2),
            random: Cell::new(0),
            user: RefCell::default(),
        }
    }
}

impl Meter {
    /// A run begins that may run so many instructions.
    pub(super) fn begin(&self, instructions_max: u64) {
        self.instructions.set(0);
        self.instructions_max.set(instructions_max);
        self.end.set(None);
        self.proto.set(Proto::Resp2);
        self.seed(0);
    }

    /// The run is for that user from now on, in a database of that number.
    pub(super) fn run_as(&self, user: Option<(Arc<User>, u16)>) {
        *self.user.borrow_mut() = user;
    }

    /// What of a request the user of the run may not do, if anything.
    pub(super) fn denies(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> Option<Denial> {
        let user = self.user.borrow();
        user.as_ref().and_then(|(user, database)| user.denies(spec, args, *database))
    }

    /// Instructions that the run has come to, as far as they have been looked at.
    pub(super) fn instructions(&self) -> u64 {
        self.instructions.get()
    }

    /// Another look at the budget.
    pub(super) fn count(&self) -> mlua::Result<VmState> {
        self.spend(u64::from(INSTRUCTIONS_AT_ONCE)).map(|()| VmState::Continue)
    }

    /// Work that counts as so many instructions has been done.
    pub(super) fn spend(&self, instructions: u64) -> mlua::Result<()> {
        self.instructions.set(self.instructions.get().saturating_add(instructions));
        if self.instructions.get() >= self.instructions_max.get() {
            return Err(self.stop(End::Instructions));
        }
        Ok(())
    }

    /// Ends the run: what is to be raised.
    pub(super) fn stop(&self, end: End) -> Error {
        self.end.set(self.end.get().or(Some(end)));
        Error::RuntimeError("the script is over".to_owned())
    }

    /// Why the run is over, if it is.
    pub(super) fn end(&self) -> Option<End> {
        self.end.get()
    }

    /// Whether a run that has failed so must not go on.
    pub(super) fn is_over(&self, failure: &mlua::Value) -> bool {
        let lacks_memory = match failure {
            mlua::Value::String(text) => text.as_bytes() == NO_MEMORY.as_bytes(),
            // Of functions in Rust: their arguments or results did not fit, unless they say what it is.
            mlua::Value::Error(error) => Raised::of(error).is_none(),
            _ => false,
        };
        if lacks_memory && self.end.get().is_none() {
            self.end.set(Some(End::Memory));
        }
        self.end.get().is_some()
    }

    /// The protocol in which commands answer the script.
    pub(super) fn proto(&self) -> Proto {
        self.proto.get()
    }

    /// Chooses it.
    pub(super) fn set_proto(&self, proto: Proto) {
        self.proto.set(proto);
    }

    /// Begins a row of random numbers, as `srand48`.
    pub(super) fn seed(&self, seed: u64) {
        self.random.set(((seed & 0xFFFF_FFFF) << 16) | 0x330E);
    }

    /// The next number of the row in [0, 1), as Redis makes it of `lrand48`.
    pub(super) fn random(&self) -> f64 {
        const MAX: u64 = i32::MAX as u64;
        let next = self.random.get().wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & 0xFFFF_FFFF_FFFF;
        self.random.set(next);
        ((next >> 17) % MAX) as f64 / MAX as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_its_instructions_and_stays_over() {
        let meter = Meter::default();
        meter.begin(2500);
        assert!(meter.count().is_ok() && meter.count().is_ok() && meter.end().is_none());
        assert!(meter.count().is_err() && meter.end() == Some(End::Instructions));
        assert!(meter.is_over(&mlua::Value::Nil) && meter.instructions() == 3000);
        meter.begin(2500);
        assert!(!meter.is_over(&mlua::Value::Nil) && meter.count().is_ok());
    }

    #[test]
    fn random_numbers_are_those_of_srand48() {
        let meter = Meter::default();
        meter.seed(0);
        let first: Vec<u64> = (0..3).map(|_| (meter.random() * f64::from(i32::MAX)).round() as u64).collect();
        // lrand48 after srand48(0), by the C library.
        assert_eq!(first, [366_850_414, 1_610_402_240, 206_956_554]);
    }
}

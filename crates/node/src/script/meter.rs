//! What a run of a script has used of its budgets, and what its Lua functions share with it.

use super::allocation::Allocation;
use super::context::EngineVersion;
use super::end::End;
use super::raised::Raised;
use crate::acl::{Denial, User};
use crate::script_watch::RunningScript;
use mlua::{Error, VmState};
use resp::Proto;
use resp::table::CommandSpec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use vocab::limits::{
    SCRIPT_BYTES_PER_INSTRUCTION, SCRIPT_BYTES_PER_INSTRUCTION_BEFORE, SCRIPT_BYTES_PER_INSTRUCTION_FOURTH,
    SCRIPT_NUMBER_INSTRUCTIONS, SCRIPT_STEP_INSTRUCTIONS,
};

/// So many instructions of Lua run between two looks at the budget.
pub(super) const INSTRUCTIONS_AT_ONCE: u32 = 1000;

/// For how many instructions the call of a function in Rust counts.
pub(super) const NATIVE_CALL_INSTRUCTIONS: u64 = 16;

/// For how many a small piece of work in Rust counts, from the seventh engine on.
const SMALL_WORK_INSTRUCTIONS: u64 = 8;

/// Lua's own words for it.
const NO_MEMORY: &str = "not enough memory";

/// The meter of the run under way in one Lua state.
pub(super) struct Meter {
    instructions: Cell<u64>,
    /// Those of them that a script may see: no replica comes to another number, whatever its state holds of earlier runs.
    clock: Cell<u64>,
    instructions_max: Cell<u64>,
    /// Bytes that the state may hold.
    memory_bytes_max: Cell<usize>,
    /// By which rules work is counted that Lua does not count as instructions.
    engine: Cell<EngineVersion>,
    /// What the state allocates.
    allocation: Rc<Allocation>,
    end: Cell<Option<End>>,
    proto: Cell<Proto>,
    /// Where others see the run, and may end it.
    seen: RefCell<Option<Arc<RunningScript>>>,
    /// The state of the random numbers: 48 bits.
    random: Cell<u64>,
    /// As whom the script runs, and the number of its database; none: it may run every command.
    user: RefCell<Option<(Arc<User>, u16)>>,
}

impl Default for Meter {
    fn default() -> Self {
        Self::of(Allocation::default())
    }
}

impl Meter {
    /// The meter of a state that allocates so.
    pub(super) fn of(allocation: Allocation) -> Self {
        Self {
            instructions: Cell::new(0),
            clock: Cell::new(0),
            instructions_max: Cell::new(u64::MAX),
            memory_bytes_max: Cell::new(usize::MAX),
            engine: Cell::new(EngineVersion::NEWEST),
            allocation: Rc::new(allocation),
            end: Cell::new(None),
            proto: Cell::new(Proto::Resp2),
            seen: RefCell::default(),
            random: Cell::new(0),
            user: RefCell::default(),
        }
    }

    /// A run begins that may run so many instructions, and whose state may hold so many bytes.
    pub(super) fn begin(&self, instructions_max: u64, memory_bytes_max: usize, engine: EngineVersion) {
        self.instructions.set(0);
        self.clock.set(0);
        self.instructions_max.set(instructions_max);
        self.engine.set(engine);
        self.allocation.set_bounds(memory_bytes_max, self.bytes_left());
        let of_number = if engine < EngineVersion::Fifth { 0 } else { SCRIPT_NUMBER_INSTRUCTIONS };
        self.allocation.count_later(engine >= EngineVersion::Sixth);
        self.allocation.count_newest(engine >= EngineVersion::Seventh);
        self.allocation.number_anew();
        self.allocation.set_number_bytes((of_number * self.bytes_per_instruction()) as usize);
        self.memory_bytes_max.set(memory_bytes_max);
        lua::count_by(Some(self.allocation.clone()));
        self.end.set(None);
        self.proto.set(Proto::Resp2);
        self.seed(0);
        self.seen.take();
    }

    /// The run is over: what follows is not bounded.
    pub(super) fn finish(&self) {
        lua::end_run();
        lua::count_by(None);
        self.allocation.set_bounds(usize::MAX, u64::MAX);
    }

    /// Which bound was passed by what was built, found or not found yet by a look at the budget.
    pub(super) fn passed(&self) -> Option<End> {
        self.allocation.passed()
    }

    /// What the state allocates.
    pub(super) fn allocation(&self) -> Rc<Allocation> {
        self.allocation.clone()
    }

    /// So many bytes may be built until the next look at the budget.
    fn bytes_left(&self) -> u64 {
        let left = self.instructions_max.get().saturating_sub(self.instructions.get());
        if self.counts_work() { left.saturating_mul(self.bytes_per_instruction()) } else { u64::MAX }
    }

    fn counts_work(&self) -> bool {
        self.engine.get() > EngineVersion::First
    }

    fn bytes_per_instruction(&self) -> u64 {
        match self.engine.get() {
            EngineVersion::First | EngineVersion::Second | EngineVersion::Third => SCRIPT_BYTES_PER_INSTRUCTION_BEFORE,
            EngineVersion::Fourth => SCRIPT_BYTES_PER_INSTRUCTION_FOURTH,
            EngineVersion::Fifth | EngineVersion::Sixth | EngineVersion::Seventh => SCRIPT_BYTES_PER_INSTRUCTION,
        }
    }

    /// For how many instructions bytes count that are built or copied.
    pub(super) fn instructions_of(&self, bytes: usize) -> u64 {
        bytes as u64 / self.bytes_per_instruction()
    }

    /// The run is seen by others, who may end it.
    pub(super) fn seen_as(&self, script: Arc<RunningScript>) {
        *self.seen.borrow_mut() = Some(script);
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

    /// The time that a script sees, in instructions: those that Lua counts, and what commands and functions in Rust count for. What is
    /// built does not count: a text that a state has kept since an earlier run is not built again.
    pub(super) fn clock(&self) -> u64 {
        self.clock.get()
    }

    /// A text of so many bytes is to be built, of which Lua gets a copy.
    pub(super) fn build(&self, bytes: usize) -> mlua::Result<()> {
        if bytes > self.memory_bytes_max.get() {
            return Err(self.stop(End::Memory));
        }
        self.work(NATIVE_CALL_INSTRUCTIONS + self.instructions_of(bytes))
    }

    /// Another look at the budget: after so many instructions, or earlier.
    pub(super) fn count(&self) -> mlua::Result<VmState> {
        let ran = lua::instructions_run(INSTRUCTIONS_AT_ONCE);
        self.spend(u64::from(ran)).map(|()| VmState::Continue)
    }

    /// Work that Lua counts as none has been done, and is worth so many instructions.
    pub(super) fn work(&self, instructions: u64) -> mlua::Result<()> {
        self.spend(if self.counts_work() { instructions } else { 0 })
    }

    /// A function in Rust has read values, or made them, which are worth so many instructions.
    pub(super) fn values(&self, instructions: u64) -> mlua::Result<()> {
        self.spend_since(EngineVersion::Fourth, instructions)
    }

    /// What takes longer than earlier engines counted it for is worth so many instructions more.
    pub(super) fn more(&self, instructions: u64) -> mlua::Result<()> {
        self.spend_since(EngineVersion::Fifth, instructions)
    }

    /// What earlier engines than the sixth counted for too little is worth so many instructions more.
    pub(super) fn later(&self, instructions: u64) -> mlua::Result<()> {
        self.spend_since(EngineVersion::Sixth, instructions)
    }

    /// What earlier engines than the seventh counted for nothing, or too little, is worth so many instructions more.
    pub(super) fn since_seventh(&self, instructions: u64) -> mlua::Result<()> {
        self.spend_since(EngineVersion::Seventh, instructions)
    }

    /// Work is worth so many instructions, by the rules of that engine and later ones.
    fn spend_since(&self, engine: EngineVersion, instructions: u64) -> mlua::Result<()> {
        if self.engine.get() < engine { Ok(()) } else { self.spend(instructions) }
    }

    /// For how many instructions a small piece of work counts, a replacement or a place where a text is not though it begins alike: more, from the
    /// seventh engine on.
    pub(super) fn of_small_work(&self) -> u64 {
        if self.engine.get() < EngineVersion::Seventh { 1 } else { SMALL_WORK_INSTRUCTIONS }
    }

    /// So many steps of a pattern have been made.
    pub(super) fn steps(&self, steps: u64) -> mlua::Result<()> {
        let of_one = if self.engine.get() < EngineVersion::Fifth { 1 } else { SCRIPT_STEP_INSTRUCTIONS };
        self.spend(steps.saturating_mul(of_one))
    }

    /// Work that counts as so many instructions has been done.
    pub(super) fn spend(&self, instructions: u64) -> mlua::Result<()> {
        self.clock.set(self.clock.get().saturating_add(instructions));
        let built = self.allocation.take_built();
        let of_built = if self.counts_work() { built / self.bytes_per_instruction() } else { 0 };
        self.instructions.set(self.instructions.get().saturating_add(instructions).saturating_add(of_built));
        if self.instructions.get() >= self.instructions_max.get() {
            return Err(self.stop(End::Instructions));
        }
        if let Some(end) = self.allocation.passed() {
            return Err(self.stop(end));
        }
        self.allocation.set_built_max(self.bytes_left());
        let end = self.seen.borrow().as_ref().and_then(|script| {
            if script.is_killed() { Some(End::Killed) } else { script.gives_way().then_some(End::GivesWay) }
        });
        end.map_or(Ok(()), |end| Err(self.stop(end)))
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
        // What C raises then may have got a position before it, and reads as another error.
        let has_passed = self.engine.get() >= EngineVersion::Seventh && self.passed().is_some();
        if (lacks_memory || has_passed) && self.end.get().is_none() {
            self.end.set(Some(self.allocation.passed().unwrap_or(End::Memory)));
        }
        self.end.get().is_some()
    }

    /// Commands are those of a client in the database of that number from now on.
    pub(super) fn choose_database(&self, number: u16) {
        if let Some((_, chosen)) = &mut *self.user.borrow_mut() {
            *chosen = number;
        }
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
        meter.begin(2500, usize::MAX, EngineVersion::NEWEST);
        assert!(meter.count().is_ok() && meter.count().is_ok() && meter.end().is_none());
        assert!(meter.count().is_err() && meter.end() == Some(End::Instructions));
        assert!(meter.is_over(&mlua::Value::Nil) && meter.instructions() == 3000);
        meter.begin(2500, usize::MAX, EngineVersion::NEWEST);
        assert!(!meter.is_over(&mlua::Value::Nil) && meter.count().is_ok());
    }

    #[test]
    fn a_text_is_charged_for_before_it_is_built() {
        let meter = Meter::default();
        meter.begin(1000, 1_000_000, EngineVersion::NEWEST);
        assert!(meter.build(4_000).is_ok() && meter.instructions() == 500 + NATIVE_CALL_INSTRUCTIONS);
        assert!(meter.build(4_000).is_err() && meter.end() == Some(End::Instructions));
        meter.begin(1000, 1_000_000, EngineVersion::NEWEST);
        assert!(meter.build(1_000_001).is_err() && meter.end() == Some(End::Memory));
        meter.finish();
    }

    #[test]
    fn work_that_lua_does_not_see_counts_by_the_rules_of_its_engine() {
        let meter = Meter::default();
        let expected = [1000, 2500 + 10, 2500 + 10, 2507 + 40, 2507 + 80 + 9 + SCRIPT_STEP_INSTRUCTIONS - 1];
        for (engine, expected) in EngineVersion::ALL.into_iter().zip(expected) {
            meter.begin(1_000_000, usize::MAX, engine);
            assert!(meter.work(1500).is_ok() && meter.values(7).is_ok() && meter.count().is_ok());
            assert!(meter.work(meter.instructions_of(640)).is_ok());
            assert!(meter.more(9).is_ok() && meter.steps(1).is_ok());
            assert_eq!(meter.instructions(), expected + 1, "{engine:?}");
        }
        for engine in EngineVersion::ALL {
            meter.begin(1_000_000, usize::MAX, engine);
            assert!(meter.later(5).is_ok() && meter.since_seventh(7).is_ok());
            let expected =
                u64::from(engine >= EngineVersion::Sixth) * 5 + u64::from(engine >= EngineVersion::Seventh) * 7;
            assert_eq!(meter.instructions(), expected, "{engine:?}");
        }
        meter.finish();
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

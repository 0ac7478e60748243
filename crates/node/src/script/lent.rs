//! What a run lends to the functions of its Lua state, which live longer than it.
//!
//! A function that is made for one run costs an object with a finalizer, which the collector handles apart. So `redis.call` and
//! `redis.pcall` are made once for a state, and find the run that is under way here.
#![allow(unsafe_code, reason = "no type can tell a function of Lua when a run ends")]

use resp::Reply;
use resp::table::CommandSpec;
use std::cell::Cell;
use std::ptr::NonNull;

/// What answers the commands of the run that is under way.
pub(super) trait Answers {
    /// Runs a command, which has a word at least, and writes its answer. The error ends the run.
    fn answer(&self, words: &[&[u8]], reply: &mut Reply) -> mlua::Result<()>;

    /// Whether the user of the run may run a command, whose length may be wrong. The error ends the run.
    fn may_run(&self, spec: &'static CommandSpec, words: &[&[u8]]) -> mlua::Result<bool>;
}

/// The place of what is lent.
#[derive(Default)]
pub(super) struct Lent {
    to: Cell<Option<NonNull<dyn Answers>>>,
}

/// Puts back what was there before, also where a run panics.
struct TakenBack<'a> {
    of: &'a Lent,
    before: Option<NonNull<dyn Answers>>,
}

impl Drop for TakenBack<'_> {
    fn drop(&mut self) {
        self.of.to.set(self.before);
    }
}

impl Lent {
    /// Lends `answers` while `run` runs.
    pub(super) fn lend<T>(&self, answers: &dyn Answers, run: impl FnOnce() -> T) -> T {
        let borrowed: NonNull<dyn Answers + '_> = NonNull::from(answers);
        // SAFETY: the two types differ in a lifetime only. What is here is taken back before that lifetime ends, by `TakenBack`.
        let lasting = unsafe { std::mem::transmute::<NonNull<dyn Answers + '_>, NonNull<dyn Answers>>(borrowed) };
        let _taken_back = TakenBack { of: self, before: self.to.replace(Some(lasting)) };
        run()
    }

    /// Whether a run is under way.
    pub(super) fn is_lent(&self) -> bool {
        self.to.get().is_some()
    }

    /// Asks what is lent; none if no run is under way.
    pub(super) fn ask<T>(&self, ask: impl FnOnce(&dyn Answers) -> T) -> Option<T> {
        // SAFETY: as long as it is here, `lend` has not returned, so what was borrowed lives; it is only borrowed shared.
        self.to.get().map(|to| ask(unsafe { to.as_ref() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    struct Number(i64);

    impl Answers for Number {
        fn answer(&self, _: &[&[u8]], reply: &mut Reply) -> mlua::Result<()> {
            reply.int(self.0);
            Ok(())
        }

        fn may_run(&self, _: &'static CommandSpec, _: &[&[u8]]) -> mlua::Result<bool> {
            Ok(true)
        }
    }

    #[test]
    fn what_is_lent_is_there_while_the_run_runs_and_no_longer() {
        let lent = Lent::default();
        let ask = || {
            let mut reply = Reply::default();
            lent.ask(|answers| answers.answer(&[], &mut reply).ok())??;
            resp::decode(&reply.buf).ok()?.and_then(|(value, _)| value.as_int())
        };
        assert_eq!(ask(), None);
        let inner = lent.lend(&Number(1), || (ask(), lent.lend(&Number(2), ask), ask()));
        assert_eq!(inner, (Some(1), Some(2), Some(1)));
        assert_eq!(ask(), None);
        let panicked = catch_unwind(AssertUnwindSafe(|| lent.lend(&Number(3), || panic!("a run that panics"))));
        assert!(panicked.is_err() && ask().is_none());
    }
}

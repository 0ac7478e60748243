//! Locks and atomics of what threads hand to each other.
//!
//! A file that takes them from `super::sync` can be compiled a second time for its tests, with shuttle's in their place:
//! shuttle then runs the threads in many orders. It knows no weak memory, so orderings are argued where they are used.

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shuttle's, with the interface of parking_lot.
#[cfg(test)]
pub(crate) mod shuttled {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use shuttle::sync::{self, PoisonError};
    use std::ops::{Deref, DerefMut};

    #[derive(Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    /// Empty only while `Condvar::wait` has the lock's guard.
    pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

    pub(crate) struct Condvar(sync::Condvar);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("the guard is here but for a wait")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("the guard is here but for a wait")
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let waits = guard.0.take().expect("the guard is here but for a wait");
            guard.0 = Some(self.0.wait(waits).unwrap_or_else(PoisonError::into_inner));
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Runs `test` under so many random schedules, which are the same in each run.
    pub(crate) fn under_schedules(schedules: usize, test: impl Fn() + Send + Sync + 'static) {
        let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(0xBA5A17, schedules);
        shuttle::Runner::new(scheduler, shuttle::Config::new()).run(test);
    }
}

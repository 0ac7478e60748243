//! A barrier that a thread may leave: one that has panicked, or that the system did not start, is not waited for.

use parking_lot::{Condvar, Mutex};

/// Where the threads of a phase wait for each other, again and again.
///
/// `waiting < members` whenever the state is not locked, as long as there are members: the last one to come, or to leave, lets
/// the others go.
pub(super) struct PhaseBarrier {
    state: Mutex<BarrierState>,
    opened: Condvar,
}

struct BarrierState {
    members: usize,
    waiting: usize,
    /// How often all were here.
    rounds: u64,
}

impl PhaseBarrier {
    /// For so many threads.
    pub(super) fn new(members: usize) -> Self {
        let state = BarrierState { members, waiting: 0, rounds: 0 };
        Self { state: Mutex::new(state), opened: Condvar::new() }
    }

    /// Waits until all members are here. True for the one that came last; for none if another has left after it.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        state.waiting += 1;
        if self.open(&mut state) {
            return true;
        }
        let round = state.rounds;
        while state.rounds == round {
            self.opened.wait(&mut state);
        }
        false
    }

    /// So many members will not come any more.
    pub(super) fn leave(&self, count: usize) {
        let mut state = self.state.lock();
        state.members -= count;
        self.open(&mut state);
    }

    /// Lets all go if all are here.
    fn open(&self, state: &mut BarrierState) -> bool {
        if state.waiting < state.members {
            return false;
        }
        state.waiting = 0;
        state.rounds += 1;
        self.opened.notify_all();
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_wait_for_all_and_one_of_them_is_told_that_it_was_the_last() {
        let barrier = PhaseBarrier::new(4);
        let last = std::thread::scope(|scope| {
            let wait = || (0..100).filter(|_| barrier.wait()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(wait)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(last, 100);
    }

    #[test]
    fn one_that_leaves_is_not_waited_for() {
        let barrier = PhaseBarrier::new(5);
        // Two were never started.
        barrier.leave(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                barrier.leave(1);
            });
            for _ in 0..2 {
                scope.spawn(|| (0..3).for_each(|_| _ = barrier.wait()));
            }
        });
        assert_eq!(barrier.state.lock().waiting, 0);
    }
}

//! The wall clock and the steady clock of the system.

use node::multi_raft::TICK_MS;
use std::ops::Add;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vocab::{Moment, wall_clock_ms};

/// How often an event loop ticks its groups, expires keys and looks for idle clients.
pub(crate) const TICK: Duration = Duration::from_millis(TICK_MS);

/// The machine's wall clock, in ms since the epoch: for figures and logs. It may be wrong.
pub(crate) fn now_ms() -> u64 {
    wall_clock_ms()
}

/// What the machine's own clocks show. The wall clock may be wrong; the steady one goes on while the machine sleeps, because
/// leases end meanwhile.
pub(crate) fn raw_moment() -> Moment {
    Moment { wall_ms: wall_clock_ms(), mono_us: steady_us() }
}

/// What the steady clock is put forward by, in µs, for as long as the process runs: less than a millisecond, so that its
/// milliseconds begin when those of the wall clock do. The store's time is the steady clock and a number of milliseconds; otherwise
/// it would be up to one behind the wall clock of a client, whose PXAT then seems to lie further ahead than it asked for.
static PHASE_US: LazyLock<u64> = LazyLock::new(|| phase_us(boot_us));

/// Two looks at the steady clock with one at the wall clock between them are this close, unless the thread lost its processor.
const LOOKS_APART_US_MAX: u64 = 5;
const LOOKS_MAX: usize = 100;

/// The steady clock, in µs.
pub(crate) fn steady_us() -> u64 {
    SteadyTime::now().us()
}

fn boot_us() -> u64 {
    SteadyTime::now().ns / 1000
}

/// A moment of the steady clock, finer than `steady_us`: one look is enough for how long a request takes and for when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SteadyTime {
    ns: u64,
}

impl SteadyTime {
    /// What the clock shows.
    pub(crate) fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self { ns: now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs() }
    }

    /// What `steady_us` answered at that moment.
    pub(crate) fn us(self) -> u64 {
        self.ns / 1000 + *PHASE_US
    }

    /// How many ns after another moment it is; 0 if it is not.
    pub(crate) fn ns_since(self, earlier: Self) -> u64 {
        self.ns.saturating_sub(earlier.ns)
    }
}

impl Add<Duration> for SteadyTime {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self { ns: self.ns + span.as_nanos() as u64 }
    }
}

/// By how much the milliseconds of the wall clock begin before those of a steady one, in µs.
fn phase_us(steady_us: impl Fn() -> u64) -> u64 {
    let look = || {
        let before_us = steady_us();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (steady_us() - before_us, (u64::from(wall.subsec_micros()) + 1000 - before_us % 1000) % 1000)
    };
    let mut closest = look();
    for _ in 0..LOOKS_MAX {
        if closest.0 <= LOOKS_APART_US_MAX {
            break;
        }
        closest = closest.min(look());
    }
    closest.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::StoreClock;

    /// A steady clock that is put forward now: one that was before might have drifted since.
    fn steady() -> impl Fn() -> u64 {
        let phase_us = phase_us(boot_us);
        move || boot_us() + phase_us
    }

    #[test]
    fn milliseconds_begin_with_those_of_the_wall_clock() {
        let phase_us = phase_us(steady());
        assert!(!(200..=800).contains(&phase_us), "{phase_us} µs");
    }

    #[test]
    fn the_stores_time_is_not_behind_what_a_client_has_read_a_moment_before() {
        let steady_us = steady();
        let raw = || Moment { wall_ms: wall_clock_ms(), mono_us: steady_us() };
        // One whose thread lost its processor between the two clocks is behind, until the node's ticks have put it right.
        let shown_ms = |clock: &StoreClock| clock.read(Moment { wall_ms: 0, mono_us: 1_000_000 }).wall_ms;
        let clock = (0..10).map(|_| StoreClock::new(raw())).max_by_key(shown_ms).unwrap_or_default();
        for _ in 0..1000 {
            let told = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() - Duration::from_micros(200);
            assert!(u128::from(clock.read(raw()).wall_ms) >= told.as_millis());
        }
    }
}

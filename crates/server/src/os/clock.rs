//! The clocks.

use node::multi_raft::TICK_MS;
use std::time::Duration;
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

/// The steady clock, in µs.
pub(crate) fn steady_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1000
}

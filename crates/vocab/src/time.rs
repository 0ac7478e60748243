//! Time as numbers. Only shells read a clock; everything that decides is given the time.

/// Milliseconds since the Unix epoch.
pub type Millis = u64;

/// A moment, by both clocks of a node: the one that people and other nodes share, and the one that never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock, in ms since the epoch: for expiry.
    pub wall_ms: Millis,
    /// Time since some moment in the past, in µs; it goes on while the process or the machine sleeps. For leases.
    pub mono_us: u64,
}

/// What tells the time of a clock that never goes back, in µs. A shell lends it to what may give up for its sake, and decides nothing by it.
pub type SteadyClock = fn() -> u64;

/// The wall clock now. For shells only.
#[must_use]
pub fn wall_clock_ms() -> Millis {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

//! Time as numbers. Only shells read a clock; everything that decides is given the time.

/// Milliseconds since the Unix epoch.
pub type Millis = u64;

/// The wall clock now. For shells only.
#[must_use]
pub fn wall_clock_ms() -> Millis {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

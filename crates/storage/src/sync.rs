//! The locks and atomics of the row cache. `cache/interleavings.rs` compiles the row cache a second time, with Shuttle's locks and
//! atomics in their place. At each use these decide which thread runs next (docs/TESTING.md).

pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

/// Whether a cache has only two segments, stripes and epochs, so that it is made quickly.
pub(crate) const SMALL: bool = false;

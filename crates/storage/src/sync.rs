//! Locks and atomics of code whose order of execution is tried by Shuttle: with the feature `shuttle` these are Shuttle's,
//! which decide at each use which thread runs next (docs/TESTING.md). Without it they are the standard library's.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

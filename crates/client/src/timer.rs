//! Wakes a poll at a moment, more precisely than its own timeout, which counts whole milliseconds.

#[cfg(target_os = "linux")]
mod descriptor;
#[cfg(not(target_os = "linux"))]
mod none;

#[cfg(target_os = "linux")]
pub(crate) use descriptor::Timer;
#[cfg(not(target_os = "linux"))]
pub(crate) use none::Timer;

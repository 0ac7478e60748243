//! The Redis that clients see.

/// The version of Redis whose behaviour clients can count on.
pub const REDIS_VERSION: &str = "7.0.15";

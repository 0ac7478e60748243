//! The version of Redis that clients are told (docs/adr/0028).

/// The version of Redis whose commands and options clients can count on.
pub const REDIS_VERSION: &str = "7.4.7";
/// What scripts of the first two engines see: replicas of older releases do.
pub(crate) const REDIS_VERSION_BEFORE: &str = "7.0.15";

//! A group of keys whose shard went on without its majority.

/// Where a group of keys began anew.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Operations that began before belong to what was before.
    pub(crate) moment: u64,
    /// The end of the log that is gone on with: what is found and was written up to there was there already.
    pub(crate) last: u64,
}

//! A client: what it waits for, and where it believes that shards are led.

use crate::request::Request;
use crate::schedule::Micros;
use std::collections::BTreeMap;
use vocab::NodeId;

/// One client.
#[derive(Default)]
pub struct Client {
    /// The operation that it waits for.
    pub(crate) waits: Option<(usize, Request)>,
    /// Since when it wants something, where that is watched.
    pub(crate) wants_since: Option<Micros>,
    /// Where it believes that the shards of groups of keys are led.
    pub(crate) leaders: BTreeMap<usize, NodeId>,
    /// Reads that it has yet to make at the end.
    pub(crate) last: Vec<Request>,
    /// For a request that clears a shard: its operations in other groups.
    pub(crate) twins: Vec<usize>,
    /// How many of its requests had a number.
    pub(crate) numbers: u64,
    /// How often it has sent the request that it waits for.
    pub(crate) attempts: u32,
    /// One of these attempts may have been made.
    pub(crate) unsure: bool,
}

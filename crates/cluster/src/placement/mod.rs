//! Where replicas and leaders belong: pure functions of the map and of what was observed.
//!
//! The rules, in this order: replicas of a shard are on different nodes; no zone holds more of them than it must; nodes
//! hold and lead in proportion to their capacity; nothing moves that need not.

mod initial;
mod leaders;
mod moves;
mod observed;
mod projection;
mod shares;

pub use initial::initial_map;
pub use leaders::leaders_wanted;
pub use moves::{next_moves, next_moves_that};
pub use observed::{Move, Observed, Why};
pub use shares::ReplicasWanted;

//! What must always hold, a file an invariant. Each is tested on what it must catch.

pub mod acknowledged;
pub mod collections;
pub mod linear;
pub mod maps;
pub mod messages;
pub mod raft;
pub mod reads;
pub mod removals;
pub mod replicas;
pub mod splits;
pub mod weak;

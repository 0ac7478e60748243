//! What nodes say to each other.

mod message;

pub use message::{Order, PeerMessage};

//! What nodes say to each other.

mod codec;
mod encoded;
mod message;
mod raft;

pub use encoded::{Encoded, Pieces};
pub use message::{Order, PeerMessage};

//! What nodes say to each other.

mod codec;
mod message;
mod raft;
mod reader;

pub use message::{Order, PeerMessage};
pub(crate) use reader::Reader;

//! Byte streams of clients and of other nodes.

mod stream;

pub use stream::Stream;
pub(crate) use stream::{SendEnd, Sent};
pub(crate) use tls::Received;

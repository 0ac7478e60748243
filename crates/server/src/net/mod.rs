//! Byte streams of clients and of other nodes.

mod stream;

pub(crate) use stream::SendEnd;
pub use stream::Stream;
pub(crate) use tls::Received;

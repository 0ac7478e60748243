//! Byte streams of clients and of other nodes.

mod stream;

pub use stream::Stream;
pub(crate) use stream::{Received, SendEnd};

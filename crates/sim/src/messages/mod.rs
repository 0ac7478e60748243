//! What clients that publish and that listen ask of nodes, and what comes over the links that keep order.

mod news;
mod request;

pub use news::WireNews;
pub use request::{Listened, MessageRequest, Party, Published};

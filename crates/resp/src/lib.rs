//! RESP2 and RESP3: bytes ↔ values, no IO; and the command table as data.

mod reply;

pub use reply::{Proto, Reply};

//! RESP2 and RESP3: bytes ↔ values, no IO; and the command table as data.

mod error;
mod glob;
mod inline;
mod number;
mod reply;
mod request;
pub mod table;

pub use error::ProtocolError;
pub use glob::glob_matches;
pub use number::{format_double, format_long_double, parse_double, parse_integer};
pub use reply::{Mark, Proto, Reply};
pub use request::{Limits, ParseState, Parsed, parse_request};

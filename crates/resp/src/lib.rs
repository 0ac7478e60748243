//! RESP2 and RESP3: bytes ↔ values, no IO; and the command table as data.

mod error;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod glob;
mod inline;
mod item;
mod number;
mod reply;
mod request;
pub mod table;
mod value;

pub use error::ProtocolError;
pub use frame::{Elements, Frame, FrameState, frame_len};
pub use glob::{glob_matches, glob_matches_within};
pub use inline::inline_words;
pub use item::Nesting;
pub use number::{format_double, format_long_double, parse_double, parse_integer, parse_power, read_double};
pub use reply::{Mark, Proto, Reply};
pub use request::{Limits, ParseState, Parsed, parse_request};
pub use value::{Value, decode, decode_with, encode_request};

//! Writes on their way into a store: imports and restores make them.

mod lists;
mod parts;
mod rows;
mod streams;
mod writes;

pub(crate) use rows::RowWriter;
pub(crate) use writes::{Kind, Listener, StoreWriter, Write};

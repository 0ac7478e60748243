//! Basalt's own words: values with versions, several operations at once, ordered ranges.

mod exec;
mod get_put;
mod range;

pub(super) use exec::ROWS as EXEC_ROWS;
pub(super) use get_put::ROWS as GET_PUT_ROWS;
pub(super) use range::ROWS as RANGE_ROWS;

//! Basalt's own words: values with versions, several operations at once, ordered ranges.

mod exec;
mod get_put;
mod range;

pub(super) use exec::handler as exec_handler;
pub(super) use get_put::handler as get_put_handler;
pub(super) use range::handler as range_handler;

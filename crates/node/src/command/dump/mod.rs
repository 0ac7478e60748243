//! DUMP and RESTORE: a key's value as one string, in the format of Redis 7.0 (the crate `rdb`), so that either takes in what the
//! other handed out. What older versions of Basalt dumped is still taken in ([`version_1`]).

mod error;
mod restore;
mod streams;
mod sync;
mod value;
mod version_1;
mod write;

use super::call::{self, HandlerRow, reads_in_steps, store_in_steps};

pub(super) const ROWS: &[HandlerRow] = &[
    reads_in_steps("DUMP", write::dump),
    call::write("RESTORE", restore::restore),
    call::write("RESTORE-ASKING", restore::restore),
    store_in_steps("SYNC", sync::sync, |_| None),
];

#[cfg(test)]
mod tests;

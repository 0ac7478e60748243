//! HyperLogLogs: how many different elements were added, in 12 KB at most, to within 0.81 %.
//!
//! A HyperLogLog is a string whose bytes are those that Redis writes, so that GET, SET and DUMP carry it (`sketch` has the
//! layout). `estimate` tells a number of elements from registers.

mod commands;
mod estimate;
mod selftest;
mod sketch;

use super::call::{HandlerRow, read, store, write};

pub(super) const ROWS: &[HandlerRow] = &[
    write("PFADD", commands::pfadd),
    read("PFCOUNT", commands::pfcount),
    write("PFMERGE", commands::pfmerge),
    write("PFDEBUG", commands::pfdebug),
    store("PFSELFTEST", selftest::pfselftest),
];

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        crate::command::transcript::check("hyperloglog");
    }
}

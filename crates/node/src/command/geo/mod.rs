//! Places on the earth: members of a sorted set whose scores are positions (`geohash`), and searches by distance.

mod geohash;
mod position;
mod search;
mod shape;
#[cfg(test)]
mod tests;

use super::call::{HandlerRow, read as reads, reads_in_steps, write as writes, write_if};
pub(super) use search::many_to_store;

/// The options that make a search a write.
const STORES: &[&str] = &["STORE", "STOREDIST"];

pub(super) const ROWS: &[HandlerRow] = &[
    writes("GEOADD", position::geoadd),
    reads("GEOPOS", position::geopos),
    reads("GEOHASH", position::geohash),
    reads("GEODIST", position::geodist),
    reads_in_steps("GEOSEARCH", search::geosearch),
    writes("GEOSEARCHSTORE", search::geosearchstore),
    write_if("GEORADIUS", STORES, search::georadius, search::georadius_read),
    reads_in_steps("GEORADIUS_RO", search::georadius_ro),
    write_if("GEORADIUSBYMEMBER", STORES, search::georadiusbymember, search::georadiusbymember_read),
    reads_in_steps("GEORADIUSBYMEMBER_RO", search::georadiusbymember_ro),
];

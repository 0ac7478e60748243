//! Places on the earth: members of a sorted set whose scores are positions (`geohash`), and searches by distance.

mod geohash;
mod position;
mod search;
mod shape;
#[cfg(test)]
mod tests;

use super::call::{HandlerRow, read as reads, write as writes};

pub(super) const ROWS: &[HandlerRow] = &[
    writes("GEOADD", position::geoadd),
    reads("GEOPOS", position::geopos),
    reads("GEOHASH", position::geohash),
    reads("GEODIST", position::geodist),
    reads("GEOSEARCH", search::geosearch),
    writes("GEOSEARCHSTORE", search::geosearchstore),
    writes("GEORADIUS", search::georadius),
    reads("GEORADIUS_RO", search::georadius_ro),
    writes("GEORADIUSBYMEMBER", search::georadiusbymember),
    reads("GEORADIUSBYMEMBER_RO", search::georadiusbymember_ro),
];

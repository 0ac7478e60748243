//! Strings as rows of bits. Bit 0 is the highest of byte 0, as in Redis.

mod count;
mod field;
mod operation;
mod single;
mod value;

use super::call::{HandlerRow, read, write};

pub(super) const ROWS: &[HandlerRow] = &[
    write("SETBIT", single::setbit).rewrites(single::growth),
    read("GETBIT", single::getbit),
    read("BITCOUNT", count::bitcount),
    read("BITPOS", count::bitpos),
    write("BITOP", operation::bitop).rewrites(|_| 0),
    write("BITFIELD", field::bitfield).rewrites(field::growth),
    read("BITFIELD_RO", field::bitfield_ro),
];

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        crate::command::transcript::check("bits");
    }
}

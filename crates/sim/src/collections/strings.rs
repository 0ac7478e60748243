//! Commands on parts of strings, on the plain model: some of them are long enough to be kept in pieces.

use super::arguments::{count, number, range};
use super::keyspace::{Content, Keyspace, Replied};
use super::text::Text;
use resp::Value;

/// Runs a command; none if it is not one on parts of strings.
pub fn run(space: &mut Keyspace, name: &str, args: &[&[u8]]) -> Option<Replied> {
    let key = args[0];
    Some(match name {
        "SETBIT" => text(space, key).map(|mut text| {
            let (at, shift, bit) = bit_of(args[1], args[2]);
            let byte = text.byte(at);
            text.write(at, &[byte & !(1 << shift) | bit << shift]);
            space.keep(key, Content::Text(text));
            count(usize::from(byte >> shift & 1))
        }),
        "SETRANGE" => text(space, key).map(|mut text| {
            text.write(number(args[1]) as usize, args[2]);
            let length = text.length();
            space.keep(key, Content::Text(text));
            count(length)
        }),
        "APPEND" => text(space, key).map(|mut text| {
            text.write(text.length(), args[1]);
            let length = text.length();
            space.keep(key, Content::Text(text));
            count(length)
        }),
        "GETBIT" => text(space, key).map(|text| {
            let (at, shift, _) = bit_of(args[1], b"0");
            count(usize::from(text.byte(at) >> shift & 1))
        }),
        "BITCOUNT" => text(space, key).map(|text| count(text.bits())),
        "STRLEN" => text(space, key).map(|text| count(text.length())),
        "GETRANGE" => text(space, key).map(|text| {
            let (from, until) = range(text.length(), args[1], args[2]);
            Value::Bulk(text.part(from, until))
        }),
        "GET" => {
            let has = space.has(key);
            text(space, key).map(|text| if has { Value::Bulk(text.part(0, text.length())) } else { Value::Null })
        }
        _ => return None,
    })
}

/// The byte of a bit, by how much it is shifted there, and what it is to be.
fn bit_of(offset: &[u8], bit: &[u8]) -> (usize, usize, u8) {
    let offset = number(offset) as usize;
    (offset / 8, 7 - offset % 8, number(bit) as u8)
}

/// The string at a key.
fn text(space: &Keyspace, key: &[u8]) -> Result<Text, &'static str> {
    space.content(key, |content| match content {
        Content::Text(text) => Some(text.clone()),
        _ => None,
    })
}

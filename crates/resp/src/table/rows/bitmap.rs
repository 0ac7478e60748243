//! Bitmaps.

use crate::table::behaviour::IS_RULED;
use crate::table::key_flag::{ACCESS, OW, RO, RW, UPDATE, VARIABLE};
use crate::table::spec::acl;
use crate::table::spec::flag::{DENYOOM, FAST, READONLY, WRITE};
use crate::table::spec::{CommandSpec, Group, KeySpec, Without, command, key, keys_to_end};

const fn bitmap(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Bitmap, acl::BITMAP, name, arity, since, summary)
}

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    bitmap("BITCOUNT", -2, "2.6.0", "Counts the bits of a string that are set.")
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the length of the range")
        .args("key [start:integer end:integer [BYTE | BIT]]"),
    bitmap("BITFIELD", -2, "3.2.0", "Reads and writes integers of any width at any bit of a string.")
        .flags(WRITE | DENYOOM)
        .touches(&[KeySpec {
            note: "This command allows both access and modification of the key",
            without: Some(Without { words: &["SET", "INCRBY"], from: 2, flags: RO | ACCESS }),
            ..key(1, RW | ACCESS | UPDATE | VARIABLE)
        }])
        .does_also(IS_RULED)
        .cost("O(1) for each operation")
        .args("key [operation ...]"),
    bitmap("BITFIELD_RO", -2, "6.0.0", "Reads integers of any width at any bit of a string.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(1) for each operation")
        .args("key [operation ...]"),
    bitmap("BITOP", -4, "2.6.0", "Keeps the bitwise combination of strings in a key.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(2, OW | UPDATE), keys_to_end(3, 1, RO | ACCESS)])
        .cost("O(N), N being the length of the longest string")
        .args("operation destkey:key key [key ...]"),
    bitmap("BITPOS", -3, "2.8.7", "Finds the first bit of a string that is set, or clear.")
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the length of the range")
        .args("key bit:integer [start:integer [end:integer [BYTE | BIT]]]"),
    bitmap("GETBIT", 3, "2.2.0", "Returns a bit of a string.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .args("key offset:integer"),
    bitmap("SETBIT", 4, "2.2.0", "Sets or clears a bit of a string; creates the key if it does not exist.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, RW | ACCESS | UPDATE)])
        .does_also(IS_RULED)
        .args("key offset:integer value:integer"),
];

//! Sets.

use crate::table::behaviour::{IS_RULED, MATCHES_PATTERNS, PACKS};
use crate::table::key_flag::{ACCESS, DELETE, INSERT, OW, RO, RW, UPDATE};
use crate::table::spec::acl;
use crate::table::spec::flag::{DENYOOM, FAST, READONLY, WRITE};
use crate::table::spec::{Answers, CommandSpec, Group, command, key, keys_counted, keys_to_end};

const fn set(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Set, acl::SET, name, arity, since, summary)
}

const ALL_MEMBERS: &str = "O(N), N being the number of members of all sets";
const SMALLEST: &str = "O(N*M), N being the size of the smallest set and M the number of sets";

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    set("SADD", -3, "1.0.0", "Adds members to a set; creates the key if it does not exist.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | INSERT)])
        .cost("O(N), N being the number of members to add")
        .args("key member [member ...]"),
    set("SCARD", 2, "1.0.0", "Returns how many members a set has.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO)])
        .args("key"),
    set("SDIFF", -2, "1.0.0", "Returns the members of a set that the other sets do not have.")
        .answers(Answers::Values)
        .does_also(IS_RULED)
        .flags(READONLY)
        .touches(&[keys_to_end(1, 1, RO | ACCESS)])
        .cost(ALL_MEMBERS)
        .tips(&["nondeterministic_output_order"])
        .args("key [key ...]"),
    set("SDIFFSTORE", -3, "1.0.0", "Keeps the members of a set that the other sets do not have in a key.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, OW | UPDATE), keys_to_end(2, 1, RO | ACCESS)])
        .cost(ALL_MEMBERS)
        .args("destination:key key [key ...]"),
    set("SINTER", -2, "1.0.0", "Returns the members that all sets have.")
        .answers(Answers::Values)
        .does_also(IS_RULED)
        .flags(READONLY)
        .touches(&[keys_to_end(1, 1, RO | ACCESS)])
        .cost(SMALLEST)
        .tips(&["nondeterministic_output_order"])
        .args("key [key ...]"),
    set("SINTERCARD", -3, "7.0.0", "Returns how many members all sets have in common.")
        .does_also(IS_RULED)
        .flags(READONLY)
        .touches(&[keys_counted(1, RO | ACCESS)])
        .cost(SMALLEST)
        .args("numkeys:integer key [key ...] [LIMIT limit:integer]"),
    set("SINTERSTORE", -3, "1.0.0", "Keeps the members that all sets have in a key.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, RW | UPDATE), keys_to_end(2, 1, RO | ACCESS)])
        .cost(SMALLEST)
        .args("destination:key key [key ...]"),
    set("SISMEMBER", 3, "1.0.0", "Tells whether a set has a member.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO)])
        .args("key member"),
    set("SMEMBERS", 2, "1.0.0", "Returns all members of a set.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the size of the set")
        .tips(&["nondeterministic_output_order"])
        .args("key"),
    set("SMISMEMBER", -3, "6.2.0", "Tells of several members whether a set has them.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the number of members asked for")
        .args("key member [member ...]"),
    set("SMOVE", 4, "1.0.0", "Moves a member from one set to another.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | ACCESS | DELETE), key(2, RW | INSERT)])
        .args("source:key destination:key member"),
    set("SPOP", -2, "1.0.0", "Removes members chosen at random from a set and returns them.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .does_also(PACKS)
        .touches(&[key(1, RW | ACCESS | DELETE)])
        .cost("O(N), N being the number of members removed")
        .tips(&["nondeterministic_output"])
        .args("key [count:integer]"),
    set("SRANDMEMBER", -2, "1.0.0", "Returns members of a set chosen at random.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the number of members returned")
        .tips(&["nondeterministic_output"])
        .args("key [count:integer]"),
    set("SREM", -3, "1.0.0", "Removes members from a set, and the key with the last of them.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | DELETE)])
        .cost("O(N), N being the number of members to remove")
        .args("key member [member ...]"),
    set("SSCAN", -3, "2.8.0", "Walks through the members of a set by a cursor.")
        .answers(Answers::Values)
        .does_also(MATCHES_PATTERNS)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(1) a call, O(N) for the whole walk, N being the size of the set")
        .tips(&["nondeterministic_output"])
        .args("key cursor:integer [MATCH pattern:pattern] [COUNT count:integer]"),
    set("SUNION", -2, "1.0.0", "Returns the members that at least one of the sets has.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[keys_to_end(1, 1, RO | ACCESS)])
        .cost(ALL_MEMBERS)
        .tips(&["nondeterministic_output_order"])
        .args("key [key ...]"),
    set("SUNIONSTORE", -3, "1.0.0", "Keeps the members that at least one of the sets has in a key.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, OW | UPDATE), keys_to_end(2, 1, RO | ACCESS)])
        .cost(ALL_MEMBERS)
        .args("destination:key key [key ...]"),
];

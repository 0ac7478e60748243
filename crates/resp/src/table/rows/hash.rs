//! Hashes.

use crate::table::behaviour::{IS_RULED, MATCHES_PATTERNS};
use crate::table::key_flag::{ACCESS, DELETE, INSERT, RO, RW, UPDATE};
use crate::table::spec::acl;
use crate::table::spec::flag::{DENYOOM, FAST, READONLY, WRITE};
use crate::table::spec::{Answers, CommandSpec, Group, command, key};

const fn hash(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Hash, acl::HASH, name, arity, since, summary)
}

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    hash("HDEL", -3, "2.0.0", "Deletes fields of a hash, and the key with the last of them.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | DELETE)])
        .cost("O(N), N being the number of fields to delete")
        .args("key field [field ...]"),
    hash("HEXISTS", 3, "2.0.0", "Tells whether a hash has a field.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO)])
        .args("key field"),
    hash("HEXPIRE", -6, "7.4.0", "Sets when fields of a hash expire, in seconds from now.")
        .flags(WRITE | DENYOOM | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(N), N being the number of fields")
        .args("key seconds:integer [NX | XX | GT | LT] FIELDS numfields:integer field [field ...]"),
    hash("HEXPIREAT", -6, "7.4.0", "Sets when fields of a hash expire, as a Unix time in seconds.")
        .flags(WRITE | DENYOOM | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(N), N being the number of fields")
        .args("key unix-time-seconds:unix-time [NX | XX | GT | LT] FIELDS numfields:integer field [field ...]"),
    hash("HEXPIRETIME", -5, "7.4.0", "Returns when fields of a hash expire, as Unix times in seconds.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the number of fields")
        .args("key FIELDS numfields:integer field [field ...]"),
    hash("HGET", 3, "2.0.0", "Returns the value of a field of a hash.")
        .answers(Answers::Values)
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .args("key field"),
    hash("HGETDEL", -5, "8.0.0", "Returns fields of a hash and deletes them, and the key with the last of them.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | ACCESS | DELETE)])
        .cost("O(N), N being the number of fields")
        .args("key FIELDS numfields:integer field [field ...]"),
    hash("HGETEX", -5, "8.0.0", "Returns fields of a hash, and sets or removes their expiry.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | ACCESS | UPDATE)])
        .cost("O(N), N being the number of fields")
        .args(
            "key [EX seconds:integer | PX milliseconds:integer | EXAT unix-time-seconds:unix-time \
             | PXAT unix-time-milliseconds:unix-time | PERSIST] FIELDS numfields:integer field [field ...]",
        ),
    hash("HGETALL", 2, "2.0.0", "Returns all fields and values of a hash.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the size of the hash")
        .tips(&["nondeterministic_output_order"])
        .args("key"),
    hash("HINCRBY", 4, "2.0.0", "Adds a number to the integer value of a field; 0 stands for a missing field.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | ACCESS | UPDATE)])
        .args("key field increment:integer"),
    hash(
        "HINCRBYFLOAT",
        4,
        "2.6.0",
        "Adds a number to the floating-point value of a field; 0 stands for a missing field.",
    )
    .flags(WRITE | DENYOOM | FAST)
    .touches(&[key(1, RW | ACCESS | UPDATE)])
    .args("key field increment:double"),
    hash("HKEYS", 2, "2.0.0", "Returns all fields of a hash.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the size of the hash")
        .tips(&["nondeterministic_output_order"])
        .args("key"),
    hash("HLEN", 2, "2.0.0", "Returns how many fields a hash has.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO)])
        .args("key"),
    hash("HMGET", -3, "2.0.0", "Returns the values of several fields of a hash.")
        .answers(Answers::Values)
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the number of fields asked for")
        .args("key field [field ...]"),
    hash("HMSET", -4, "2.0.0", "Sets several fields of a hash.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(N), N being the number of fields to set")
        .args("key field value [field value ...]")
        .deprecated("4.0.0", "`HSET` with multiple field-value pairs"),
    hash("HPERSIST", -5, "7.4.0", "Removes the expiry of fields of a hash.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(N), N being the number of fields")
        .args("key FIELDS numfields:integer field [field ...]"),
    hash("HPEXPIRE", -6, "7.4.0", "Sets when fields of a hash expire, in milliseconds from now.")
        .flags(WRITE | DENYOOM | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(N), N being the number of fields")
        .args("key milliseconds:integer [NX | XX | GT | LT] FIELDS numfields:integer field [field ...]"),
    hash("HPEXPIREAT", -6, "7.4.0", "Sets when fields of a hash expire, as a Unix time in milliseconds.")
        .flags(WRITE | DENYOOM | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(N), N being the number of fields")
        .args("key unix-time-milliseconds:unix-time [NX | XX | GT | LT] FIELDS numfields:integer field [field ...]"),
    hash("HPEXPIRETIME", -5, "7.4.0", "Returns when fields of a hash expire, as Unix times in milliseconds.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the number of fields")
        .args("key FIELDS numfields:integer field [field ...]"),
    hash("HPTTL", -5, "7.4.0", "Returns how long fields of a hash live, in milliseconds.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .tips(&["nondeterministic_output"])
        .cost("O(N), N being the number of fields")
        .args("key FIELDS numfields:integer field [field ...]"),
    hash("HRANDFIELD", -2, "6.2.0", "Returns fields of a hash chosen at random.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the number of fields returned")
        .tips(&["nondeterministic_output"])
        .args("key [count:integer [WITHVALUES]]"),
    hash("HSCAN", -3, "2.8.0", "Walks through the fields and values of a hash by a cursor.")
        .answers(Answers::Values)
        .does_also(MATCHES_PATTERNS)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(1) a call, O(N) for the whole walk, N being the size of the hash")
        .tips(&["nondeterministic_output"])
        .args("key cursor:integer [MATCH pattern:pattern] [COUNT count:integer] [NOVALUES]"),
    hash("HSET", -4, "2.0.0", "Sets fields of a hash; creates the key if it does not exist.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(N), N being the number of fields to set")
        .args("key field value [field value ...]"),
    hash("HSETEX", -6, "8.0.0", "Sets fields of a hash, and when they expire, if all of them exist or none does.")
        .flags(WRITE | DENYOOM | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(N), N being the number of fields")
        .args(
            "key [NX | XX] [FNX | FXX] [EX seconds:integer | PX milliseconds:integer | EXAT unix-time-seconds:unix-time \
             | PXAT unix-time-milliseconds:unix-time | KEEPTTL] FIELDS numfields:integer field value [field value ...]",
        ),
    hash("HSETNX", 4, "2.0.0", "Sets a field of a hash if the field does not exist.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | INSERT)])
        .args("key field value"),
    hash("HSTRLEN", 3, "3.2.0", "Returns the length of the value of a field.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO)])
        .args("key field"),
    hash("HTTL", -5, "7.4.0", "Returns how long fields of a hash live, in seconds.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .tips(&["nondeterministic_output"])
        .cost("O(N), N being the number of fields")
        .args("key FIELDS numfields:integer field [field ...]"),
    hash("HVALS", 2, "2.0.0", "Returns all values of a hash.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the size of the hash")
        .tips(&["nondeterministic_output_order"])
        .args("key"),
];

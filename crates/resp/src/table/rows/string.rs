//! Strings.

use crate::table::behaviour::{IS_RULED, LOOKS_UP};
use crate::table::key_flag::{ACCESS, DELETE, INSERT, OW, RM, RO, RW, UPDATE, VARIABLE};
use crate::table::spec::acl;
use crate::table::spec::flag::{DENYOOM, FAST, READONLY, WRITE};
use crate::table::spec::{
    Answers, CommandSpec, Group, KeyPlace, KeySpec, Without, command, key, keys_to_end, pairs_counted,
};

const fn string(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::String, acl::STRING, name, arity, since, summary)
}

const COUNTS: u32 = RW | ACCESS | UPDATE;

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    string("APPEND", 3, "2.0.0", "Appends a value to a string; creates the key if it does not exist.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | INSERT)])
        .does_also(IS_RULED)
        .cost("O(N), N being the length of the new value")
        .args("key value"),
    string("DECR", 2, "1.0.0", "Subtracts one from the integer value of a key; 0 stands for a missing key.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, COUNTS)])
        .args("key"),
    string("DECRBY", 3, "1.0.0", "Subtracts a number from the integer value of a key; 0 stands for a missing key.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, COUNTS)])
        .args("key decrement:integer"),
    string("DELEX", -2, "8.4.0", "Deletes a key; if it is told, only where the key's value, or its digest, is or is not a given one.")
        .flags(WRITE | FAST)
        .does_also(IS_RULED)
        .touches(&[KeySpec {
            without: Some(Without { words: &["IFEQ", "IFNE", "IFDEQ", "IFDNE"], from: 2, flags: RM | DELETE }),
            ..key(1, RW | DELETE | VARIABLE)
        }])
        .cost("O(1), O(N) with a digest, N being the length of the value")
        .args("key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]"),
    string("DELIFEQ", 3, "9.0.0", "Deletes a key if it has a value (Valkey's word for DELEX with IFEQ).")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | DELETE)])
        .args("key value"),
    string("DIGEST", 2, "8.4.0", "Returns the XXH3-64 of a string, in hexadecimal digits.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the length of the value")
        .args("key"),
    string("GET", 2, "1.0.0", "Returns the string value of a key.")
        .answers(Answers::Values)
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .args("key"),
    string("GETDEL", 2, "6.2.0", "Returns the string value of a key and deletes the key.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .does_also(LOOKS_UP)
        .touches(&[key(1, RW | ACCESS | DELETE)])
        .args("key"),
    string("GETEX", -2, "6.2.0", "Returns the string value of a key and sets or removes its expiry.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .does_also(LOOKS_UP)
        .touches(&[KeySpec { note: "RW and UPDATE because it changes the expiry", ..key(1, RW | ACCESS | UPDATE) }])
        .args(
            "key [EX seconds:integer | PX milliseconds:integer | EXAT unix-time-seconds:unix-time \
             | PXAT unix-time-milliseconds:unix-time | PERSIST]",
        ),
    string("GETRANGE", 4, "2.4.0", "Returns a part of a string, both ends included.")
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the length of the answer")
        .args("key start:integer end:integer"),
    string("GETSET", 3, "1.0.0", "Sets a key to a value and returns what it held before.")
        .answers(Answers::Values)
        .flags(WRITE | DENYOOM | FAST)
        .does_also(LOOKS_UP)
        .touches(&[key(1, RW | ACCESS | UPDATE)])
        .args("key value")
        .deprecated("6.2.0", "`SET` with the `!GET` argument"),
    string("INCR", 2, "1.0.0", "Adds one to the integer value of a key; 0 stands for a missing key.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, COUNTS)])
        .args("key"),
    string("INCRBY", 3, "1.0.0", "Adds a number to the integer value of a key; 0 stands for a missing key.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, COUNTS)])
        .args("key increment:integer"),
    string(
        "INCRBYFLOAT",
        3,
        "2.6.0",
        "Adds a number to the floating-point value of a key; 0 stands for a missing key.",
    )
    .flags(WRITE | DENYOOM | FAST)
    .touches(&[key(1, COUNTS)])
    .args("key increment:double"),
    string(
        "INCREX",
        -2,
        "8.8.0",
        "Adds a number to the value of a key, within bounds, and sets when the key expires; 0 stands for a missing key.",
    )
    .flags(WRITE | DENYOOM | FAST)
    .does_also(IS_RULED)
    .touches(&[key(1, COUNTS)])
    .args(
        "key [BYFLOAT float:double | BYINT integer:integer] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] \
         [EX seconds:integer | PX milliseconds:integer | EXAT unix-time-seconds:unix-time \
         | PXAT unix-time-milliseconds:unix-time | PERSIST] [ENX]",
    ),
    string("LCS", -3, "7.0.0", "Finds the longest subsequence that two strings have in common.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[KeySpec { place: KeyPlace::Range { first: 1, last: 1, step: 1 }, flags: RO | ACCESS, note: "", without: None }])
        .cost("O(N*M), N and M being the lengths of the strings")
        .args("key1:key key2:key [LEN] [IDX] [MINMATCHLEN len:integer] [WITHMATCHLEN]"),
    string("MGET", -2, "1.0.0", "Returns the string values of several keys.")
        .answers(Answers::Values)
        .flags(READONLY | FAST)
        .touches(&[keys_to_end(1, 1, RO | ACCESS)])
        .cost("O(N), N being the number of keys")
        .tips(&["request_policy:multi_shard"])
        .args("key [key ...]"),
    string("MSET", -3, "1.0.1", "Sets several keys, all at once.")
        .flags(WRITE | DENYOOM)
        .splits_by_key()
        .touches(&[keys_to_end(1, 2, OW | UPDATE)])
        .cost("O(N), N being the number of keys")
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
        .args("key value [key value ...]"),
    string(
        "MSETEX",
        -4,
        "8.4.0",
        "Sets several keys, all at once, and when they expire, if all of them exist or none does.",
    )
    .flags(WRITE | DENYOOM)
    .touches(&[pairs_counted(1, OW | UPDATE)])
    .cost("O(N), N being the number of keys")
    .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
    .args(
        "numkeys:integer key value [key value ...] [NX | XX] [EX seconds:integer | PX milliseconds:integer \
         | EXAT unix-time-seconds:unix-time | PXAT unix-time-milliseconds:unix-time | KEEPTTL]",
    ),
    string("MSETNX", -3, "1.0.1", "Sets several keys, all at once, if none of them exists.")
        .flags(WRITE | DENYOOM)
        .touches(&[keys_to_end(1, 2, OW | INSERT)])
        .cost("O(N), N being the number of keys")
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"])
        .args("key value [key value ...]"),
    string("PSETEX", 4, "2.6.0", "Sets a key to a value that expires after some milliseconds.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, OW | UPDATE)])
        .args("key milliseconds:integer value"),
    string("SET", -3, "1.0.0", "Sets a key to a string value, whatever it held before.")
        .answers(Answers::ValuesWith(&["GET"]))
        .flags(WRITE | DENYOOM)
        .touches(&[KeySpec {
            note: "RW and ACCESS because of the optional GET",
            without: Some(Without { words: &["GET"], from: 3, flags: OW | UPDATE }),
            ..key(1, RW | ACCESS | UPDATE | VARIABLE)
        }])
        .args(
            "key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] [EX seconds:integer | PX milliseconds:integer \
             | EXAT unix-time-seconds:unix-time | PXAT unix-time-milliseconds:unix-time | KEEPTTL]",
        ),
    string("SETEX", 4, "2.0.0", "Sets a key to a value that expires after some seconds.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, OW | UPDATE)])
        .args("key seconds:integer value"),
    string("SETNX", 3, "1.0.0", "Sets a key to a value if the key does not exist.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, OW | INSERT)])
        .args("key value"),
    string("SETRANGE", 4, "2.2.0", "Overwrites a part of a string from an offset; pads with zero bytes.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, RW | UPDATE)])
        .does_also(IS_RULED)
        .cost("O(N), N being the length of the resulting string")
        .args("key offset:integer value"),
    string("STRLEN", 2, "2.2.0", "Returns the length of a string.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO)])
        .args("key"),
    string("SUBSTR", 4, "1.0.0", "Returns a part of a string, both ends included.")
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the length of the answer")
        .args("key start:integer end:integer")
        .deprecated("2.0.0", "`GETRANGE`"),
];

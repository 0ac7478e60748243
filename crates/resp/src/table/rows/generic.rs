//! Keys of any type.

use crate::table::behaviour::{
    ASKS_DATABASE, BARRIER, IS_RULED, MATCHES_PATTERNS, MISSES_UNTOLD, PEEKS, READS_BY_PATTERN, SecretArgs,
    TO_DATABASE, USES,
};
use crate::table::key_flag::{ACCESS, DELETE, INCOMPLETE, INSERT, OW, RM, RO, RW, UPDATE};
use crate::table::spec::acl;
use crate::table::spec::flag::{
    ASKING, DENYOOM, FAST, LOADING, MOVABLE_KEYS, NO_MULTI, NOSCRIPT, READONLY, STALE, WRITE,
};
use crate::table::spec::{Answers, CommandSpec, Group, KeyPlace, KeySpec, command, key, key_after, keys_to_end};

const fn generic(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Generic, acl::KEYSPACE, name, arity, since, summary)
}

/// A command that makes a key of a dump.
const fn restore(name: &'static str, since: &'static str, summary: &'static str) -> CommandSpec {
    generic(name, -4, since, summary)
        .flags(WRITE | DENYOOM)
        .dangerous()
        .touches(const { &[key(1, OW | UPDATE)] })
        .does_also(IS_RULED)
        .cost("O(N), N being the size of the value")
        .args("key ttl:integer serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds:integer] [FREQ frequency:integer]")
}

const SUM_OVER_SHARDS: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const SORTED: &str = "O(N*log N), N being the number of elements";
const UNREPEATABLE: &[&str] = &["nondeterministic_output"];

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    generic("COPY", -3, "6.2.0", "Copies the value and the expiry of a key to another key.")
        .flags(WRITE | DENYOOM)
        .does_also(TO_DATABASE)
        .touches(&[key(1, RO | ACCESS), key(2, OW | UPDATE)])
        .cost("O(N), N being the number of elements of a collection; O(1) for strings")
        .args("source:key destination:key [DB destination-db:integer] [REPLACE]"),
    generic("DEL", -2, "1.0.0", "Deletes keys.")
        .flags(WRITE)
        .splits_by_key()
        .touches(&[keys_to_end(1, 1, RM | DELETE)])
        .cost("O(N), N being the number of keys; what large collections held is removed in the background")
        .tips(SUM_OVER_SHARDS)
        .args("key [key ...]"),
    generic("DUMP", 2, "2.6.0", "Returns the value of a key in a form that RESTORE reads.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the size of the value")
        .tips(UNREPEATABLE)
        .args("key"),
    generic("EXISTS", -2, "1.0.0", "Counts how many of the keys exist; a key named twice counts twice.")
        .flags(READONLY | FAST)
        .does_also(PEEKS)
        .touches(&[keys_to_end(1, 1, RO)])
        .cost("O(N), N being the number of keys")
        .tips(SUM_OVER_SHARDS)
        .args("key [key ...]"),
    generic("EXPIRE", -3, "1.0.0", "Lets a key expire after some seconds.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | UPDATE)])
        .args("key seconds:integer [NX | XX | GT | LT]"),
    generic("EXPIREAT", -3, "1.2.0", "Lets a key expire at a Unix time in seconds.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | UPDATE)])
        .args("key unix-time-seconds:unix-time [NX | XX | GT | LT]"),
    generic("EXPIRETIME", 2, "7.0.0", "Returns the Unix time in seconds at which a key expires.")
        .flags(READONLY | FAST)
        .does_also(PEEKS)
        .touches(&[key(1, RO | ACCESS)])
        .args("key"),
    generic(
        "KEYS",
        -2,
        "1.0.0",
        "Returns the keys that match a pattern: those that this node leads, or of the whole store.",
    )
    .flags(READONLY)
    .dangerous()
    .cost("O(N), N being the number of keys in the store")
    .does_also(ASKS_DATABASE | MATCHES_PATTERNS)
    .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
    .args("pattern:pattern [STORE | DATABASE index:integer | SELECTED index:integer]"),
    generic("MIGRATE", -6, "2.6.0", "Moves or copies keys to another server, which takes them by RESTORE.")
        .flags(WRITE | NO_MULTI | NOSCRIPT)
        .dangerous()
        .secret_args(SecretArgs::From(6))
        .touches(&[KeySpec {
            place: KeyPlace::OneOrRest {
                at: 3,
                word: "KEYS",
                from: 6,
                options: &[("AUTH", 1), ("AUTH2", 2)],
            },
            flags: RW | ACCESS | DELETE | INCOMPLETE,
            note: "",
            without: None,
        }])
        .cost("O(N), N being the size of the values")
        .tips(&["nondeterministic_output"])
        .args(
            "host:string port:integer key:string destination-db:integer timeout:integer [COPY] [REPLACE] \
             [<AUTH password:string | AUTH2 username:string password:string>] [KEYS key [key ...]]",
        ),
    generic("MOVE", 3, "1.0.0", "Moves a key to another database.")
        .flags(WRITE | FAST)
        .does_also(TO_DATABASE)
        .touches(&[key(1, RW | ACCESS | DELETE)])
        .args("key db:integer"),
    command(Group::Generic, 0, "OBJECT", -2, "2.2.3", "Groups the commands that look into a value.")
        .cost("Depends on the subcommand."),
    generic("OBJECT|ENCODING", 3, "2.2.3", "Returns how the value of a key is kept.")
        .flags(READONLY)
        .does_also(PEEKS | MISSES_UNTOLD)
        .touches(&[key(2, RO)])
        .tips(UNREPEATABLE)
        .args("key"),
    generic("OBJECT|FREQ", 3, "4.0.0", "Returns how often a key is used, on a logarithmic scale.")
        .flags(READONLY)
        .does_also(PEEKS | MISSES_UNTOLD)
        .touches(&[key(2, RO)])
        .tips(UNREPEATABLE)
        .args("key"),
    generic("OBJECT|HELP", 2, "6.2.0", "Lists the subcommands.").flags(LOADING | STALE),
    generic("OBJECT|IDLETIME", 3, "2.2.3", "Returns for how many seconds a key has not been used.")
        .flags(READONLY)
        .does_also(PEEKS | MISSES_UNTOLD)
        .touches(&[key(2, RO)])
        .tips(UNREPEATABLE)
        .args("key"),
    generic("OBJECT|REFCOUNT", 3, "2.2.3", "Returns how many references there are to a value.")
        .flags(READONLY)
        .does_also(PEEKS | MISSES_UNTOLD)
        .touches(&[key(2, RO)])
        .tips(UNREPEATABLE)
        .args("key"),
    generic("PERSIST", 2, "2.2.0", "Removes the expiry of a key.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | UPDATE)])
        .args("key"),
    generic("PEXPIRE", -3, "2.6.0", "Lets a key expire after some milliseconds.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | UPDATE)])
        .args("key milliseconds:integer [NX | XX | GT | LT]"),
    generic("PEXPIREAT", -3, "2.6.0", "Lets a key expire at a Unix time in milliseconds.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | UPDATE)])
        .args("key unix-time-milliseconds:unix-time [NX | XX | GT | LT]"),
    generic("PEXPIRETIME", 2, "7.0.0", "Returns the Unix time in milliseconds at which a key expires.")
        .flags(READONLY | FAST)
        .does_also(PEEKS)
        .touches(&[key(1, RO | ACCESS)])
        .args("key"),
    generic("PTTL", 2, "2.6.0", "Returns in how many milliseconds a key expires.")
        .flags(READONLY | FAST)
        .does_also(PEEKS)
        .touches(&[key(1, RO | ACCESS)])
        .tips(UNREPEATABLE)
        .args("key"),
    generic("RANDOMKEY", -1, "1.0.0", "Returns a key chosen at random.")
        .flags(READONLY)
        .does_also(ASKS_DATABASE)
        .tips(&["request_policy:all_shards", "nondeterministic_output"])
        .args("[DATABASE index:integer | SELECTED index:integer]"),
    generic("RENAME", 3, "1.0.0", "Renames a key and overwrites the one that had the new name.")
        .flags(WRITE)
        .touches(&[key(1, RW | ACCESS | DELETE), key(2, OW | UPDATE)])
        .cost("O(N), N being the number of elements of a collection; O(1) for strings")
        .args("key newkey:key"),
    generic("RENAMENX", 3, "1.0.0", "Renames a key if none has the new name.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | ACCESS | DELETE), key(2, OW | INSERT)])
        .cost("O(N), N being the number of elements of a collection; O(1) for strings")
        .args("key newkey:key"),
    restore("RESTORE", "2.6.0", "Creates a key from what DUMP returned."),
    restore("RESTORE-ASKING", "3.0.0", "Creates a key from what DUMP returned: MIGRATE of a Redis Cluster sends it.")
        .flags(WRITE | DENYOOM | ASKING),
    generic(
        "SCAN",
        -2,
        "2.8.0",
        "Walks through the keys that this node leads by a cursor, or through those of the whole store.",
    )
    .flags(READONLY)
    .cost("O(1) a call, O(N) for the whole walk, N being the number of keys in the store")
    .does_also(ASKS_DATABASE | MATCHES_PATTERNS)
    .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])
    .args("cursor:integer [MATCH pattern:pattern] [COUNT count:integer] [TYPE type] [STORE | DATABASE index:integer | SELECTED index:integer]"),
    command(
        Group::Generic,
        acl::SET | acl::SORTED_SET | acl::LIST,
        "SORT",
        -2,
        "1.0.0",
        "Returns the elements of a list, a set or a sorted set in order, or keeps them in a key.",
    )
    .answers(Answers::Values)
    .flags(WRITE | DENYOOM)
    .does_also(READS_BY_PATTERN | IS_RULED)
    .dangerous()
    .touches(&[key(1, RO | ACCESS), key_after("STORE", 2, &[("BY", 1), ("GET", 1), ("LIMIT", 2), ("STORE", 1)], OW | UPDATE)])
    .cost(SORTED)
    .args(
        "key [BY by-pattern:pattern] [LIMIT offset:integer count:integer] [GET get-pattern:pattern [GET get-pattern:pattern ...]] \
         [ASC | DESC] [ALPHA] [STORE destination:key]",
    ),
    command(
        Group::Generic,
        acl::SET | acl::SORTED_SET | acl::LIST,
        "SORT_RO",
        -2,
        "7.0.0",
        "Returns the elements of a list, a set or a sorted set in order.",
    )
    .answers(Answers::Values)
    .flags(READONLY | MOVABLE_KEYS)
    .does_also(READS_BY_PATTERN | IS_RULED)
    .dangerous()
    .touches(&[key(1, RO | ACCESS)])
    .cost(SORTED)
    .args(
        "key [BY by-pattern:pattern] [LIMIT offset:integer count:integer] [GET get-pattern:pattern [GET get-pattern:pattern ...]] \
         [ASC | DESC] [ALPHA]",
    ),
    generic("TOUCH", -2, "3.2.1", "Counts how many of the keys exist, and counts them as used.")
        .flags(READONLY | FAST)
        .does_also(USES)
        .touches(&[keys_to_end(1, 1, RO)])
        .cost("O(N), N being the number of keys")
        .tips(SUM_OVER_SHARDS)
        .args("key [key ...]"),
    generic("TTL", 2, "1.0.0", "Returns in how many seconds a key expires.")
        .flags(READONLY | FAST)
        .does_also(PEEKS)
        .touches(&[key(1, RO | ACCESS)])
        .tips(UNREPEATABLE)
        .args("key"),
    generic("TYPE", 2, "1.0.0", "Returns the type of the value of a key.")
        .flags(READONLY | FAST)
        .does_also(PEEKS)
        .touches(&[key(1, RO)])
        .args("key"),
    generic("UNLINK", -2, "4.0.0", "Deletes keys; what they held is removed in the background.")
        .flags(WRITE | FAST)
        .splits_by_key()
        .touches(&[keys_to_end(1, 1, RM | DELETE)])
        .cost("O(N), N being the number of keys")
        .tips(SUM_OVER_SHARDS)
        .args("key [key ...]"),
    command(Group::Generic, acl::CONNECTION, "WAIT", 3, "3.0.0", "Waits until replicas hold this connection's writes.")
        .flags(NOSCRIPT)
        .does_also(BARRIER)
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .args("numreplicas:integer timeout:integer"),
    command(
        Group::Generic,
        acl::CONNECTION,
        "WAITAOF",
        4,
        "7.2.0",
        "Waits until this node (numlocal 1) and replicas have this connection's writes on disk.",
    )
    .flags(NOSCRIPT)
    .does_also(BARRIER)
    .tips(&["request_policy:all_shards", "response_policy:agg_min"])
    .args("numlocal:integer numreplicas:integer timeout:integer"),
];

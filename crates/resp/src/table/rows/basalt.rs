//! Basalt's own: versions, compare-and-set, ordered ranges, batches.

use crate::table::behaviour::{
    ASKS_DATABASE, EMPTIES_NAMED, FOR_NODES, IN_KEY_ORDER, IS_RULED, MATCHES_PATTERNS, MISSES_UNTOLD, NAMES_DATABASES,
    ONLY_SHOWS, READS_ALL_KEYS, REPORTS_VERSION, SWAPS_DATABASES, TAKES_CONSISTENCY, TAKES_DURABILITY, WALKS_DATABASE,
};
use crate::table::key_flag::{ACCESS, DELETE, INCOMPLETE, OW, RO, RW, UPDATE, VARIABLE};
use crate::table::spec::acl;
use crate::table::spec::flag::{ADMIN, DENYOOM, FAST, LOADING, NO_MULTI, NOSCRIPT, READONLY, STALE, WRITE};
use crate::table::spec::{
    Answers, CommandSpec, Group, KeyPlace, KeySpec, OtherRight, Role, Without, command, key, keys_to_end,
};

const fn own(name: &'static str, arity: i16, summary: &'static str) -> CommandSpec {
    command(Group::Basalt, acl::KEYSPACE, name, arity, "0.1.0", summary)
}

/// Commands about the connection itself.
const fn promise(name: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Basalt, acl::CONNECTION, name, -1, "0.1.0", summary).flags(NOSCRIPT | LOADING | STALE | FAST)
}

/// Commands about the whole store, for an operator with this role.
const fn admin(role: Role, name: &'static str, arity: i16, summary: &'static str) -> CommandSpec {
    command(Group::Basalt, 0, name, arity, "0.1.0", summary)
        .flags(ADMIN | NOSCRIPT | NO_MULTI | LOADING | STALE)
        .role(role)
}

/// Words of a command that only shows something without them.
const fn asks_operator(words: &'static [&'static str]) -> OtherRight {
    OtherRight { words, of: "KV.ADMIN|DRAIN-LEADERS" }
}

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    own("KV.ADMIN", -2, "Groups the commands about the store as a whole.").cost("Depends on the subcommand."),
    admin(
        Role::Operate,
        "KV.ADMIN|DRAIN-LEADERS",
        3,
        "Begins the plan that has a node lead nothing until it has been restarted.",
    )
    .args("node:string"),
    admin(
        Role::Read,
        "KV.ADMIN|EVENTS",
        -2,
        "Returns what has happened to the store: elections, failures, plans, settings, backups.",
    )
    .args("[AFTER number:integer] [LIMIT count:integer]"),
    own("KV.ADMIN|HELP", 2, "Lists the subcommands.").flags(LOADING | STALE),
    admin(
        Role::Administer,
        "KV.ADMIN|INIT",
        2,
        "Makes the store as soon as enough nodes have joined this one; for one of its first nodes.",
    ),
    admin(Role::Read, "KV.ADMIN|MAP", 2, "Returns the map: nodes, shards, replicas, what is under way."),
    admin(Role::Read, "KV.ADMIN|NODES", 2, "Returns each node, with its figures."),
    admin(Role::Operate, "KV.ADMIN|NOTE", 4, "Notes a backup or a restore among the events of the store.")
        .args("<BACKUP | RESTORE> text:string"),
    admin(
        Role::Read,
        "KV.ADMIN|PLAN",
        -3,
        "Shows what plans there are or what one would do, begins one, pauses it, takes it up again or gives it up.",
    )
    .asks_also(const { &[asks_operator(&["APPLY", "PAUSE", "RESUME", "CANCEL"])] })
    .args(
        "<LIST | SHOW plan:integer | PREVIEW kind [argument:string [argument:string ...]] | APPLY kind \
         [argument:string [argument:string ...]] [REASON text:string] | PAUSE plan:integer | RESUME plan:integer | \
         CANCEL plan:integer>",
    ),
    admin(
        Role::Administer,
        "KV.ADMIN|RECOVER-MAP",
        3,
        "Has the metadata group, which has lost its majority for good, go on with the replica that has most of it: \
         acknowledged changes of the map may be lost.",
    )
    .args("<PREVIEW | ACCEPT-DATA-LOSS>"),
    admin(Role::Read, "KV.ADMIN|SETTINGS", -2, "Returns or changes what is set for the whole store.")
        .asks_also(&[OtherRight { words: &["SET", "RESET"], of: "CONFIG|SET" }])
        .args("[LIST | GET name:string | SET name:string value:string | RESET name:string]"),
    admin(Role::Read, "KV.ADMIN|SHARDS", 2, "Returns each shard, with its replicas."),
    admin(
        Role::Read,
        "KV.ADMIN|STATUS",
        2,
        "Returns how the store is: nodes, zones, shards, plans, and what is wrong.",
    ),
    admin(
        Role::Read,
        "KV.ADMIN|VERIFY",
        -2,
        "Has this node compare the map with what nodes hold and the replicas of each shard with each other, or returns \
         how far that is.",
    )
    .asks_also(const { &[asks_operator(&["START", "STOP"])] })
    .args("[START [shard:integer ...] | STATUS | STOP]"),
    own("KV.BACKUP", -2, "Groups the commands that a backup is made with.").cost("Depends on the subcommand."),
    own("KV.BACKUP|HELP", 2, "Lists the subcommands.").flags(LOADING | STALE),
    admin(
        Role::Operate,
        "KV.BACKUP|BEGIN",
        2,
        "Holds all writes for some milliseconds and takes a snapshot of the whole store as of one moment: returns its id, \
         and for each shard the node that holds it.",
    ),
    admin(Role::Operate, "KV.BACKUP|END", 3, "Lets go what this node holds for a backup.").args("id:integer"),
    admin(
        Role::Operate,
        "KV.BACKUP|PROGRAMS",
        2,
        "Returns the functions that the store has, as FUNCTION DUMP does, and its scripts.",
    )
    .does_also(ONLY_SHOWS),
    admin(
        Role::Administer,
        "KV.BACKUP|USERS",
        2,
        "Returns the users that the store keeps, by name, with their rules and the hashes of their passwords.",
    )
    .does_also(ONLY_SHOWS),
    admin(
        Role::Operate,
        "KV.BACKUP|PAGE",
        -5,
        "Returns some rows of a shard as of a backup's moment, and the cursor to go on from.",
    )
    .does_also(READS_ALL_KEYS | ONLY_SHOWS)
    .args("id:integer shard:integer cursor:string [bytes:integer]"),
    promise(
        "KV.CONSISTENCY",
        "Sets how old the connection's reads may be, or returns it: `absolute` (the default: only \
         leaders answer), `any` replica, a `lag` in milliseconds behind the leader, or at least a `version` of the \
         shard that is read. What cannot be met is the error STALE.",
    )
    .args("[ABSOLUTE | ANY | LAG milliseconds:integer | VERSION token:integer]"),
    own("KV.DEL", -2, "Deletes a key, on request only at a version.")
        .flags(WRITE | FAST)
        .does_also(REPORTS_VERSION | TAKES_DURABILITY)
        .touches(&[key(1, RW | DELETE)])
        .args(
            "key [IFVERSION version:integer] [DURABILITY level [acks]] \
             [REQUEST client-id:string number:integer]",
        ),
    promise(
        "KV.DURABILITY",
        "Sets when the connection's writes are answered, or returns it: once they are on disk \
         (`sync`) or not yet (`nosync`), with a `majority` of the replicas, `all` of them, or `none` but the leader.",
    )
    .args("[SYNC | NOSYNC] [MAJORITY | ALL | NONE]"),
    own(
        "KV.EMPTY",
        -1,
        "Deletes all keys of some databases, in one step, or those of all databases; clients ask by FLUSHDB.",
    )
    .flags(WRITE | NOSCRIPT)
    .dangerous()
    .does_also(NAMES_DATABASES | EMPTIES_NAMED | FOR_NODES)
    .touches(&[keys_to_end(1, 1, RW | DELETE)])
    .cost("O(N), N being the number of keys")
    .args("[database:key [database:key ...]]"),
    own("KV.EXEC", -5, "Runs operations on keys of one slot, all or nothing; each follows its own argument count.")
        .answers(Answers::ValuesWith(&["GET", "RETURN"]))
        .flags(WRITE | DENYOOM)
        .does_also(REPORTS_VERSION | TAKES_DURABILITY)
        .touches(&[KeySpec {
            place: KeyPlace::Operations,
            flags: RW | ACCESS | UPDATE | DELETE | VARIABLE | INCOMPLETE,
            note: "Each operation names its key after its word",
            without: None,
        }])
        .cost("O(N), N being the number of operations")
        .args(
            "numops:integer argc:integer <GET key | PUT key value [IFABSENT | IFPRESENT | IFVERSION version:integer] \
             [TTL milliseconds:integer] [RETURN] | DEL key [IFVERSION version:integer] | CHECK key version:integer> \
             [argc:integer op [argc:integer op ...]] [DURABILITY level [acks]] \
             [REQUEST client-id:string number:integer]",
        ),
    own(
        "KV.GET",
        -2,
        "Returns the value and the version of a key; on request with another consistency than the \
         connection's.",
    )
    .answers(Answers::Values)
    .flags(READONLY | FAST)
    .does_also(REPORTS_VERSION | TAKES_CONSISTENCY)
    .touches(&[key(1, RO | ACCESS)])
    .args("key [ABSOLUTE | ANY | LAG milliseconds:integer | VERSION token:integer]"),
    own(
        "KV.KEYS",
        -3,
        "Answers a question about the keys of a database within a transaction or a script; clients ask by KEYS, DBSIZE, \
         RANDOMKEY and SCAN.",
    )
    .flags(READONLY | NOSCRIPT)
    .does_also(WALKS_DATABASE | IS_RULED | MISSES_UNTOLD | MATCHES_PATTERNS | FOR_NODES)
    .touches(&[key(1, RO)])
    .cost("O(N), N being the number of keys of the database; O(1) for DBSIZE")
    .args("database:key <DBSIZE | KEYS pattern:pattern | RANDOMKEY | SCAN cursor:integer [MATCH pattern:pattern] [COUNT count:integer] [TYPE type:string]>"),
    command(
        Group::Basalt,
        acl::CONNECTION,
        "KV.MONITOR",
        2,
        "0.1.0",
        "Has what the scripts of a client of another node run shown there; refused to clients.",
    )
    .flags(NOSCRIPT | NO_MULTI | LOADING | STALE | FAST)
    .args("<ON | OFF>"),
    own("KV.PUT", -3, "Sets a key and returns its version, on request under a condition and with what it held before.")
        .answers(Answers::ValuesWith(&["RETURN"]))
        .flags(WRITE | DENYOOM | FAST)
        .does_also(REPORTS_VERSION | TAKES_DURABILITY)
        .touches(&[KeySpec {
            without: Some(Without { words: &["RETURN"], from: 3, flags: OW | UPDATE }),
            ..key(1, RW | ACCESS | UPDATE | VARIABLE)
        }])
        .args(
            "key value [IFABSENT | IFPRESENT | IFVERSION version:integer] [TTL milliseconds:integer] [RETURN] \
             [DURABILITY level [acks]] \
             [REQUEST client-id:string number:integer]",
        ),
    own(
        "KV.RANGE",
        -3,
        "Returns keys, values and versions of the whole store, or of the client's database, in key order, a page at a \
         time, and the bound to go on from. A bound is `[key` (inclusive), `(key` (exclusive), `-` (before all keys) or \
         `+` (after all keys).",
    )
    .flags(READONLY)
    .does_also(ASKS_DATABASE | IN_KEY_ORDER | READS_ALL_KEYS)
    .cost("O(N+S), N being the number of keys returned and S the number of shards")
    .args("start:string end:string [LIMIT count:integer] [KEYS | VALUES] [REVERSE]"),
    own(
        "KV.REMOVE",
        3,
        "Deletes up to so many keys of a database, in the shard of that key; clients of a cluster ask by FLUSHDB.",
    )
    .flags(WRITE | NOSCRIPT | NO_MULTI)
    .dangerous()
    .does_also(NAMES_DATABASES | FOR_NODES)
    .touches(&[key(1, RW | DELETE)])
    .cost("O(N), N being the number of keys that are deleted")
    .args("place:key count:integer"),
    command(
        Group::Basalt,
        acl::CONNECTION,
        "KV.SCRIPTUSER",
        2,
        "0.1.0",
        "Tells as whom the scripts of a client of another node run; refused to clients.",
    )
    .flags(NOSCRIPT | NO_MULTI | LOADING | STALE | FAST)
    .args("username:string"),
    own("KV.SPAN", 3, "Tells whether one shard has all slots from that of one key to that of another; FLUSHDB asks it.")
        .flags(READONLY | FAST | NOSCRIPT | NO_MULTI)
        .does_also(NAMES_DATABASES | FOR_NODES)
        .touches(&[key(1, RO), key(2, RO)])
        .args("first:key last:key"),
    own("KV.SWAP", 3, "Exchanges two databases; clients ask by SWAPDB.")
        .flags(WRITE | NOSCRIPT | NO_MULTI)
        .dangerous()
        .does_also(SWAPS_DATABASES | FOR_NODES)
        .args("index1:integer index2:integer"),
    command(
        Group::Basalt,
        acl::CONNECTION,
        "KV.TRACKING",
        -2,
        "0.1.0",
        "Tells of which keys a client of another node is told; refused to clients.",
    )
    .flags(NOSCRIPT | NO_MULTI | LOADING | STALE | FAST)
    .args("<ON | OFF> [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]"),
    own("KV.TRANSFER", -4, "Copies or moves a key to another database; clients ask by COPY and MOVE.")
        .flags(WRITE | DENYOOM | NOSCRIPT)
        .does_also(NAMES_DATABASES | FOR_NODES)
        .touches(&[key(1, RW | ACCESS | DELETE), key(2, OW | UPDATE)])
        .cost("O(N), N being the number of elements of a collection; O(1) for strings")
        .args("source:key destination:key <COPY [REPLACE] | MOVE>"),
    own("KV.VERSION", 2, "Returns the version of a key of any type.")
        .flags(READONLY | FAST)
        .does_also(REPORTS_VERSION)
        .touches(&[key(1, RO)])
        .args("key"),
];

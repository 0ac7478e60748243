//! How Basalt runs a command, which COMMAND INFO does not show; bits of `CommandSpec::behaviour`.

/// Changes the session or all shards: runs when nothing before it on its connection is under way.
pub const BARRIER: u64 = 1;
/// Carried out at once, not queued, after MULTI.
pub const IGNORES_MULTI: u64 = 1 << 1;
/// Removes every key of the store.
pub const CLEARS_STORE: u64 = 1 << 2;
/// A write that counts as a look-up of its key as well.
pub const LOOKS_UP: u64 = 1 << 3;
/// Tells its client the version that it writes.
pub const REPORTS_VERSION: u64 = 1 << 4;
/// May end in `DURABILITY word [word]` and `REQUEST client number`.
pub const TAKES_DURABILITY: u64 = 1 << 5;
/// May end in words that say how old its answer may be.
pub const TAKES_CONSISTENCY: u64 = 1 << 6;
/// Runs when nothing before it on its connection is under way.
pub const ALONE: u64 = 1 << 16;
/// Runs when no write before it on its connection is under way: subscribers that get its message see these writes.
pub const AFTER_WRITES: u64 = 1 << 17;
/// Changes what all nodes share: in a transaction it runs when the shard has answered.
pub const FOLLOWS_EXEC: u64 = 1 << 19;
/// Allowed to a client of RESP2 that has subscribed to something.
pub const FOR_SUBSCRIBERS: u64 = 1 << 18;
/// Does not count as a use of its keys for eviction.
pub const PEEKS: u64 = 1 << 14;
/// Counts as a use of its keys even after CLIENT NO-TOUCH.
pub const USES: u64 = 1 << 15;
/// Runs a script: its entry has the source, whatever the request names it by.
pub const RUNS_SCRIPT: u64 = 1 << 20;
/// The script may write.
pub const WRITES_BY_SCRIPT: u64 = 1 << 21;
/// Answered by the session, and takes as many arguments as any request.
pub const TAKES_MANY: u64 = 1 << 11;
/// What it writes depends on settings that its entry carries.
pub const PACKS: u64 = 1 << 7;
/// What it does depends on the rules that its entry tells: releases before did otherwise.
pub const IS_RULED: u64 = 1 << 35;

/// On a database: `DATABASE number` follows on its arguments; on a cluster database `SELECTED number`.
pub const ASKS_DATABASE: u64 = 1 << 24;
/// Looks at all keys of the database whose prefix its first argument is, unless its words say otherwise.
pub const WALKS_DATABASE: u64 = 1 << 30;
/// On a database: removes the keys of the one that is chosen.
pub const EMPTIES_DATABASE: u64 = 1 << 25;
/// Removes all keys of the databases whose prefixes are its arguments.
pub const EMPTIES_NAMED: u64 = 1 << 36;
/// Chooses the database of the connection.
pub const CHOOSES_DATABASE: u64 = 1 << 26;
/// Answers keys in the order of their names: refused in a cluster database, whose keys lie by their slots, and asked of no shard
/// between the writes of a transaction.
pub const IN_KEY_ORDER: u64 = 1 << 27;

/// Ends what the connection watches.
pub const ENDS_WATCHES: u64 = 1 << 28;

/// On a database: may name another one, to which a key goes.
pub const TO_DATABASE: u64 = 1 << 29;

/// On a database: reads replicas of this node that are fresh enough, where another node leads their shards.
pub const READS_REPLICAS: u64 = 1 << 8;

/// Its keys may be of several databases.
pub const NAMES_DATABASES: u64 = 1 << 22;

/// On a database: exchanges two databases.
pub const SWAPS_DATABASES: u64 = 1 << 23;

/// Answers what any key holds, though it names none: only for users who may read all keys.
pub const READS_ALL_KEYS: u64 = 1 << 9;

/// Reads keys that it does not name: those of patterns behind BY and GET.
pub const READS_BY_PATTERN: u64 = 1 << 12;
/// Compares names with patterns that its arguments give, all that are no keys: how long they may be is bounded for clients. Not of
/// PSUBSCRIBE, whose patterns have a bound of their own.
pub const MATCHES_PATTERNS: u64 = 1 << 37;
/// Of an operator's commands that are for no role of those who read: changes nothing, and the audit log does not have it.
pub const ONLY_SHOWS: u64 = 1 << 13;

/// What nodes make of clients' commands and send each other: refused to clients, whose rights are to the commands that these are made of.
pub const FOR_NODES: u64 = 1 << 38;

/// Logs its client in, if it has a name and a password.
pub const LOGS_IN: u64 = 1 << 31;
/// That its key is not there is no event, where Redis looks without telling.
pub const MISSES_UNTOLD: u64 = 1 << 33;
/// Chooses the protocol, and may log the client in with words behind an option.
pub const GREETS: u64 = 1 << 10;

/// Answered by the session, about all of a kind that the node has. These may be very many, so an event loop does not run it.
pub const ABOUT_NODE: u64 = 1 << 32;
/// Its connection is shown what other clients send, from then on.
pub const SHOWS_OTHERS: u64 = 1 << 34;

/// Which arguments of a command are secret: no log shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretArgs {
    /// None.
    None,
    /// All from this one on; the command's name is number 0.
    From(u16),
    /// From that one on, names and values of settings in turn: the values of secret settings.
    Settings(u16),
}

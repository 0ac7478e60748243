//! The connection, and transactions on it.

use crate::table::behaviour::{
    ABOUT_NODE, BARRIER, CHOOSES_DATABASE, ENDS_WATCHES, FOR_SUBSCRIBERS, GREETS, IGNORES_MULTI, LOGS_IN, SecretArgs,
};
use crate::table::key_flag::RO;
use crate::table::spec::acl;
use crate::table::spec::flag::{ADMIN, ALLOW_BUSY, FAST, LOADING, NO_AUTH, NO_MULTI, NOSCRIPT, SKIP_SLOWLOG, STALE};
use crate::table::spec::{CommandSpec, Group, Role, command, keys_to_end};

const fn connection(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Connection, acl::CONNECTION, name, arity, since, summary)
}

const fn transactions(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Transactions, acl::TRANSACTION, name, arity, since, summary)
}

const ALWAYS: u32 = NOSCRIPT | LOADING | STALE;
const GREETING: u32 = ALWAYS | FAST | NO_AUTH | ALLOW_BUSY;
const UNREPEATABLE: &[&str] = &["nondeterministic_output"];

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    connection("AUTH", -2, "1.0.0", "Authenticates the connection.")
        .flags(GREETING)
        .does_also(LOGS_IN)
        .secret_args(SecretArgs::From(1))
        .args("[username] password"),
    command(Group::Connection, 0, "CLIENT", -2, "2.4.0", "Groups the commands about client connections.")
        .cost("Depends on the subcommand."),
    connection("CLIENT|CACHING", 3, "6.0.0", "Tells whether the keys of the next command are tracked, with OPTIN or OPTOUT.")
        .flags(ALWAYS)
        .args("YES | NO"),
    connection("CLIENT|GETNAME", 2, "2.6.9", "Returns the name of the connection.").flags(ALWAYS),
    connection("CLIENT|GETREDIR", 2, "6.0.0", "Returns the client that is told of invalidations instead: 0 for none, -1 without tracking.").flags(ALWAYS),
    connection("CLIENT|HELP", 2, "5.0.0", "Lists the subcommands.").flags(LOADING | STALE),
    connection("CLIENT|ID", 2, "5.0.0", "Returns the number of the connection.").flags(ALWAYS),
    connection("CLIENT|INFO", 2, "6.2.0", "Returns figures of the connection.").flags(ALWAYS).tips(UNREPEATABLE),
    connection("CLIENT|KILL", -3, "2.4.0", "Closes connections.")
        .does_also(ABOUT_NODE)
        .flags(ADMIN | ALWAYS)
        .cost("O(N), N being the number of connections")
        .args(
            "ip:port | [ID client-id:integer] [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] [USER username] \
             [ADDR ip:port] [LADDR ip:port] [SKIPME yes/no] [MAXAGE maxage:integer]",
        )
        .role(Role::Operate),
    connection("CLIENT|LIST", -2, "2.4.0", "Returns figures of all connections.")
        .does_also(ABOUT_NODE)
        .flags(ADMIN | ALWAYS)
        .cost("O(N), N being the number of connections")
        .tips(UNREPEATABLE)
        .args("[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id:integer [client-id:integer ...]]")
        .role(Role::Read),
    connection("CLIENT|NO-EVICT", 3, "7.0.0", "Tells whether the connection may be closed to save memory.")
        .flags(ADMIN | ALWAYS)
        .args("ON | OFF"),
    connection("CLIENT|NO-TOUCH", 3, "7.2.0", "Tells whether the connection's commands count as use of their keys.")
        .flags(ALWAYS)
        .args("ON | OFF"),
    connection("CLIENT|PAUSE", -3, "3.0.0", "Holds commands of all clients back for a while.")
        .flags(ADMIN | ALWAYS)
        .args("timeout:integer [WRITE | ALL]"),
    connection("CLIENT|REPLY", 3, "3.2.0", "Turns answers to the connection on or off.")
        .flags(ALWAYS | NO_MULTI)
        .args("ON | OFF | SKIP"),
    connection("CLIENT|SETINFO", 4, "7.2.0", "Tells the server which library the client uses.")
        .flags(ALWAYS)
        .args("LIB-NAME libname | LIB-VER libver"),
    connection("CLIENT|SETNAME", 3, "2.6.9", "Names the connection.").flags(ALWAYS).args("connection-name"),
    connection("CLIENT|TRACKING", -3, "6.0.0", "Has the client told when keys change that it may have cached.")
        .flags(ALWAYS)
        .args("<ON | OFF> [REDIRECT client-id:integer] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]"),
    connection("CLIENT|TRACKINGINFO", 2, "6.2.0", "Returns how the connection tracks the keys that it reads.").flags(ALWAYS),
    connection("CLIENT|UNBLOCK", -3, "5.0.0", "Ends the wait of a client in a blocking command.")
        .flags(ADMIN | ALWAYS)
        .args("client-id:integer [TIMEOUT | ERROR]"),
    connection("CLIENT|UNPAUSE", 2, "6.2.0", "Ends a pause that CLIENT PAUSE began.").flags(ADMIN | ALWAYS),
    transactions("DISCARD", 1, "2.0.0", "Throws the queued commands of a transaction away.")
        .flags(ALWAYS | FAST | ALLOW_BUSY)
        .does_also(IGNORES_MULTI | ENDS_WATCHES)
        .cost("O(N), N being the number of queued commands"),
    connection("ECHO", 2, "1.0.0", "Returns its argument.").flags(LOADING | STALE | FAST).args("message"),
    transactions("EXEC", 1, "1.2.0", "Runs the queued commands of a transaction, all or nothing.")
        .flags(ALWAYS | SKIP_SLOWLOG)
        .does_also(BARRIER | IGNORES_MULTI | ENDS_WATCHES)
        .cost("Depends on the queued commands."),
    connection("HELLO", -1, "6.0.0", "Greets the server: chooses the protocol version, authenticates, names.")
        .flags(GREETING)
        .does_also(LOGS_IN | GREETS)
        .secret_args(SecretArgs::From(2))
        .args("[protover:integer [AUTH username password] [SETNAME clientname]]"),
    transactions("MULTI", 1, "1.2.0", "Begins a transaction: what follows is queued until EXEC.")
        .flags(ALWAYS | FAST | ALLOW_BUSY)
        .does_also(IGNORES_MULTI),
    connection("PING", -1, "1.0.0", "Returns PONG, or its argument.")
        .flags(FAST)
        .does_also(FOR_SUBSCRIBERS)
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .args("[message]"),
    connection("QUIT", -1, "1.0.0", "Closes the connection.")
        .flags(GREETING)
        .does_also(IGNORES_MULTI | FOR_SUBSCRIBERS),
    connection("RESET", 1, "6.2.0", "Puts the connection into the state of a new one.")
        .flags(GREETING)
        .does_also(IGNORES_MULTI | FOR_SUBSCRIBERS | ENDS_WATCHES),
    connection("SELECT", 2, "1.0.0", "Chooses the database; a client of the cluster has number 0 alone.")
        .flags(LOADING | STALE | FAST)
        .does_also(CHOOSES_DATABASE)
        .args("index:integer"),
    transactions("UNWATCH", 1, "2.2.0", "Forgets all watched keys.")
        .flags(ALWAYS | FAST | ALLOW_BUSY)
        .does_also(ENDS_WATCHES),
    transactions("WATCH", -2, "2.2.0", "Watches keys: the next EXEC fails if any of them has been written by then.")
        .flags(ALWAYS | FAST | ALLOW_BUSY)
        .does_also(BARRIER | IGNORES_MULTI)
        .touches(&[keys_to_end(1, 1, RO)])
        .cost("O(N), N being the number of keys")
        .args("key [key ...]"),
];

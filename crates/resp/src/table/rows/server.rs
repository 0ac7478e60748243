//! The server.

use crate::table::behaviour::{
    ABOUT_NODE, ASKS_DATABASE, BARRIER, CLEARS_STORE, EMPTIES_DATABASE, FOLLOWS_EXEC, MATCHES_PATTERNS, MISSES_UNTOLD,
    ONLY_SHOWS, PEEKS, READS_ALL_KEYS, READS_REPLICAS, SHOWS_OTHERS, SWAPS_DATABASES, SecretArgs, TAKES_MANY,
};
use crate::table::key_flag::RO;
use crate::table::spec::acl;
use crate::table::spec::flag::{
    ADMIN, ALLOW_BUSY, FAST, LOADING, NO_ASYNC_LOADING, NO_MULTI, NOSCRIPT, READONLY, STALE, WRITE,
};
use crate::table::spec::{CommandSpec, Group, Role, command, key};

const fn server(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Server, 0, name, arity, since, summary)
}

const fn catalogue(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Server, acl::CONNECTION, name, arity, since, summary).flags(LOADING | STALE)
}

const fn keyspace(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Server, acl::KEYSPACE, name, arity, since, summary)
}

const UNPRIVILEGED: u32 = NOSCRIPT | LOADING | STALE;
const OPERATOR: u32 = ADMIN | NOSCRIPT | LOADING | STALE;
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const ASK_ALL_NODES: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];
const ASK_ALL_SHARDS: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];
const TELL_ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const TELL_ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    server("ACL", -2, "6.0.0", "Groups the commands about users and their rights.").cost("Depends on the subcommand."),
    server("ACL|CAT", -2, "6.0.0", "Returns the categories of commands, or the commands of one.")
        .flags(UNPRIVILEGED)
        .args("[category:string]"),
    server("ACL|DELUSER", -3, "6.0.0", "Deletes users, and closes their connections.")
        .flags(OPERATOR)
        .does_also(FOLLOWS_EXEC)
        .cost("O(N), N being the number of connections")
        .args("username [username ...]")
        .role(Role::Administer),
    server("ACL|DRYRUN", -4, "7.0.0", "Tells whether a user may run a request, which is not run.")
        .flags(OPERATOR)
        .does_also(ONLY_SHOWS)
        .args("username command [arg [arg ...]]")
        .role(Role::Administer),
    server("ACL|GENPASS", -2, "6.0.0", "Returns a password made of random bits.")
        .flags(UNPRIVILEGED)
        .args("[bits:integer]"),
    server("ACL|GETUSER", 3, "6.0.0", "Returns the rules of a user.")
        .flags(OPERATOR)
        .does_also(ONLY_SHOWS)
        .args("username")
        .role(Role::Administer),
    server("ACL|HELP", 2, "6.0.0", "Lists the subcommands.").flags(LOADING | STALE),
    server("ACL|LIST", 2, "6.0.0", "Returns the rules of all users, as ACL SETUSER takes them.")
        .does_also(ABOUT_NODE)
        .flags(OPERATOR)
        .does_also(ONLY_SHOWS)
        .role(Role::Administer),
    server("ACL|LOAD", 2, "6.0.0", "Replaces the users of the store by those of this node's `aclfile`.")
        .flags(OPERATOR)
        .does_also(FOLLOWS_EXEC)
        .cost("O(N), N being the number of users")
        .role(Role::Administer),
    server("ACL|LOG", -2, "6.0.0", "Returns what this node has refused for lack of rights, the newest first.")
        .flags(OPERATOR)
        .cost("O(N), N being the number of entries returned")
        .args("[count:integer | RESET]")
        .role(Role::Administer),
    server("ACL|SAVE", 2, "6.0.0", "Writes the users of the store into this node's `aclfile`.")
        .flags(OPERATOR)
        .does_also(FOLLOWS_EXEC)
        .cost("O(N), N being the number of users")
        .role(Role::Administer),
    server("ACL|SETUSER", -3, "6.0.0", "Changes the rules of a user, or makes one, on all nodes at once.")
        .flags(OPERATOR)
        .does_also(FOLLOWS_EXEC)
        .secret_args(SecretArgs::From(2))
        .cost("O(N), N being the number of rules")
        .args("username [rule:string [rule:string ...]]")
        .role(Role::Administer),
    server("ACL|USERS", 2, "6.0.0", "Returns the names of all users.")
        .does_also(ABOUT_NODE)
        .flags(OPERATOR)
        .does_also(ONLY_SHOWS)
        .role(Role::Administer),
    server("ACL|WHOAMI", 2, "6.0.0", "Returns the connection's user.").flags(UNPRIVILEGED),
    catalogue("COMMAND", -1, "2.8.13", "Returns all commands as the server knows them.")
        .does_also(ABOUT_NODE)
        .cost("O(N), N being the number of commands")
        .tips(ANY_ORDER),
    catalogue("COMMAND|COUNT", 2, "2.8.13", "Returns how many commands there are."),
    catalogue("COMMAND|DOCS", -2, "7.0.0", "Returns the documentation of commands.")
        .does_also(ABOUT_NODE)
        .cost("O(N), N being the number of commands asked for")
        .tips(ANY_ORDER)
        .args("[command-name [command-name ...]]"),
    catalogue("COMMAND|GETKEYS", -4, "2.8.13", "Returns the keys of a request.")
        .does_also(TAKES_MANY)
        .cost("O(N), N being the number of arguments")
        .args("command arg [arg ...]"),
    catalogue("COMMAND|GETKEYSANDFLAGS", -4, "7.0.0", "Returns the keys of a request and what it does to them.")
        .does_also(TAKES_MANY)
        .cost("O(N), N being the number of arguments")
        .args("command arg [arg ...]"),
    catalogue("COMMAND|HELP", 2, "5.0.0", "Lists the subcommands."),
    catalogue("COMMAND|INFO", -2, "2.8.13", "Returns some commands as the server knows them.")
        .does_also(ABOUT_NODE)
        .cost("O(N), N being the number of commands asked for")
        .tips(ANY_ORDER)
        .args("[command-name [command-name ...]]"),
    catalogue("COMMAND|LIST", -2, "7.0.0", "Returns the names of the commands.")
        .does_also(ABOUT_NODE | MATCHES_PATTERNS)
        .cost("O(N), N being the number of commands")
        .tips(ANY_ORDER)
        .args("[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern:pattern>]"),
    server("COMMANDLOG", -2, "8.1.0", "Groups the commands about the logs of slow and of large commands.")
        .cost("Depends on the subcommand."),
    server("COMMANDLOG|GET", 4, "8.1.0", "Returns entries of one of the logs: times in microseconds, sizes in bytes.")
        .does_also(ABOUT_NODE)
        .flags(ADMIN | LOADING | STALE)
        .cost("O(N), N being the number of entries returned")
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .args("count:integer <SLOW | LARGE-REQUEST | LARGE-REPLY>")
        .role(Role::Read),
    server("COMMANDLOG|HELP", 2, "8.1.0", "Lists the subcommands.").flags(LOADING | STALE),
    server("COMMANDLOG|LEN", 3, "8.1.0", "Returns how many entries one of the logs has.")
        .flags(ADMIN | LOADING | STALE)
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
        .args("SLOW | LARGE-REQUEST | LARGE-REPLY")
        .role(Role::Read),
    server("COMMANDLOG|RESET", 3, "8.1.0", "Empties one of the logs.")
        .does_also(ABOUT_NODE)
        .flags(ADMIN | LOADING | STALE)
        .cost("O(N), N being the number of entries")
        .tips(TELL_ALL_NODES)
        .args("SLOW | LARGE-REQUEST | LARGE-REPLY")
        .role(Role::Operate),
    server("CONFIG", -2, "2.0.0", "Groups the commands about settings.").cost("Depends on the subcommand."),
    server("CONFIG|GET", -3, "2.0.0", "Returns the settings whose names match patterns.")
        .does_also(MATCHES_PATTERNS)
        .flags(OPERATOR)
        .cost("O(N), N being the number of patterns")
        .args("parameter [parameter ...]")
        .role(Role::Read),
    server("CONFIG|HELP", 2, "5.0.0", "Lists the subcommands.").flags(LOADING | STALE),
    server("CONFIG|RESETSTAT", 2, "2.0.0", "Sets the counters of the server to zero.")
        .flags(OPERATOR)
        .role(Role::Operate),
    server("CONFIG|REWRITE", 2, "2.8.0", "Makes the present settings outlive a restart.")
        .flags(OPERATOR)
        .role(Role::Administer),
    server("CONFIG|SET", -4, "2.0.0", "Changes settings, all or none of them.")
        .flags(OPERATOR)
        .secret_args(SecretArgs::Settings(2))
        .cost("O(N), N being the number of settings")
        .tips(TELL_ALL_NODES)
        .args("parameter value [parameter value ...]")
        .role(Role::Administer),
    keyspace(
        "DBSIZE",
        -1,
        "1.0.0",
        "Returns how many keys there are: those that this node leads, or of the whole store.",
    )
    .flags(READONLY | FAST)
    .does_also(ASKS_DATABASE)
    .tips(&["request_policy:all_shards", "response_policy:agg_sum"])
    .args("[STORE | DATABASE index:integer | SELECTED index:integer]"),
    server("DEBUG", -2, "1.0.0", "Serves tests: SLEEP holds the connection up.")
        .flags(OPERATOR)
        .cost("Depends on the subcommand.")
        .args("subcommand [arg [arg ...]]")
        .role(Role::Administer),
    keyspace("FLUSHALL", -1, "1.0.0", "Deletes all keys; on a database, those of all databases.")
        .flags(WRITE)
        .does_also(BARRIER | CLEARS_STORE)
        .dangerous()
        .cost("O(N), N being the number of keys")
        .tips(TELL_ALL_SHARDS)
        .args("[ASYNC | SYNC]"),
    keyspace("FLUSHDB", -1, "1.0.0", "Deletes all keys; on a database, its own.")
        .flags(WRITE)
        .does_also(BARRIER | CLEARS_STORE | EMPTIES_DATABASE)
        .dangerous()
        .cost("O(N), N being the number of keys")
        .tips(TELL_ALL_SHARDS)
        .args("[ASYNC | SYNC]"),
    server("HOTKEYS", -2, "8.6.0", "Groups the commands about the keys that cost a node most.")
        .cost("Depends on the subcommand."),
    server("HOTKEYS|GET", 2, "8.6.0", "Returns the keys with the highest costs.")
        .does_also(ABOUT_NODE)
        .flags(ADMIN | NOSCRIPT)
        .does_also(ONLY_SHOWS)
        .cost("O(K), K being the number of keys returned"),
    server("HOTKEYS|HELP", 2, "8.6.0", "Lists the subcommands.").flags(LOADING | STALE),
    server("HOTKEYS|RESET", 2, "8.6.0", "Forgets what was counted.").flags(ADMIN | NOSCRIPT).cost("O(1)"),
    server("HOTKEYS|START", -2, "8.6.0", "Begins to count what the requests of each key cost this node.")
        .flags(ADMIN | NOSCRIPT)
        .cost("O(1)")
        .args(
            "METRICS count:integer [CPU] [NET] [COUNT k:integer] [DURATION seconds:integer] [SAMPLE ratio:integer] [SLOTS count:integer slot:integer [slot:integer ...]]",
        ),
    server("HOTKEYS|STOP", 2, "8.6.0", "Ends the counting; what was counted stays.").flags(ADMIN | NOSCRIPT).cost("O(1)"),
    server("INFO", -1, "1.0.0", "Returns figures of the server.")
        .flags(LOADING | STALE)
        .dangerous()
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .args("[section [section ...]]")
        .role(Role::Read),
    server("LATENCY", -2, "2.8.13", "Groups the commands about latency.").cost("Depends on the subcommand."),
    server("LATENCY|DOCTOR", 2, "2.8.13", "Explains latency spikes in words.")
        .flags(OPERATOR)
        .tips(ASK_ALL_NODES)
        .role(Role::Read),
    server("LATENCY|GRAPH", 3, "2.8.13", "Returns a graph, in characters, of how slow an event was.")
        .flags(OPERATOR)
        .tips(ASK_ALL_NODES)
        .args("event")
        .role(Role::Read),
    server("LATENCY|HELP", 2, "2.8.13", "Lists the subcommands.").flags(LOADING | STALE),
    server("LATENCY|HISTOGRAM", -2, "7.0.0", "Returns how the latencies of commands are distributed.")
        .flags(OPERATOR)
        .cost("O(N), N being the number of commands")
        .tips(ASK_ALL_NODES)
        .args("[command [command ...]]")
        .role(Role::Read),
    server("LATENCY|HISTORY", 3, "2.8.13", "Returns when an event was slow, and how slow.")
        .flags(OPERATOR)
        .tips(ASK_ALL_NODES)
        .args("event")
        .role(Role::Read),
    server("LATENCY|LATEST", 2, "2.8.13", "Returns the last time that each event was slow.")
        .flags(OPERATOR)
        .tips(ASK_ALL_NODES)
        .role(Role::Read),
    server("LATENCY|RESET", -2, "2.8.13", "Forgets when events were slow.")
        .flags(OPERATOR)
        .tips(TELL_ALL_NODES)
        .args("[event [event ...]]")
        .role(Role::Operate),
    server("LOLWUT", -1, "5.0.0", "Draws a picture, and says which release of Redis clients can count on.")
        .flags(READONLY | FAST)
        .args("[VERSION version:integer] [argument:integer [argument:integer ...]]"),
    server("MEMORY", -2, "4.0.0", "Groups the commands about memory.").cost("Depends on the subcommand."),
    server("MEMORY|DOCTOR", 2, "4.0.0", "Explains problems with memory in words.").tips(ASK_ALL_SHARDS),
    server("MEMORY|HELP", 2, "4.0.0", "Lists the subcommands.").flags(LOADING | STALE),
    server("MEMORY|MALLOC-STATS", 2, "4.0.0", "Returns the allocator's own figures, if it keeps any.")
        .tips(ASK_ALL_SHARDS),
    server("MEMORY|PURGE", 2, "4.0.0", "Gives unused memory back to the system.").tips(TELL_ALL_SHARDS),
    server("MEMORY|STATS", 2, "4.0.0", "Returns figures of memory.").tips(ASK_ALL_SHARDS),
    server("MEMORY|USAGE", -3, "4.0.0", "Returns how many bytes a key and its value take.")
        .flags(READONLY)
        .does_also(PEEKS | MISSES_UNTOLD)
        .touches(&[key(2, RO)])
        .cost("O(N), N being the number of samples")
        .args("key [SAMPLES count:integer]"),
    server("MODULE", -2, "4.0.0", "Groups the commands about modules: there are none."),
    server("MODULE|HELP", 2, "5.0.0", "Lists the subcommands.").flags(LOADING | STALE),
    server("MODULE|LIST", 2, "4.0.0", "Returns the modules: none.")
        .flags(ADMIN | NOSCRIPT)
        .does_also(ONLY_SHOWS)
        .tips(ANY_ORDER),
    server(
        "MONITOR",
        1,
        "1.0.0",
        "Shows the connection every command that this node runs, until it is closed or RESET.",
    )
    .flags(OPERATOR)
    .does_also(SHOWS_OTHERS),
    server("PSYNC", -3, "2.8.0", "Refuses: Basalt sends a replica no changes.")
        .flags(ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI)
        .args("replicationid offset:integer"),
    server("REPLCONF", -1, "3.0.0", "Takes what a client says before it asks for all keys.")
        .flags(OPERATOR | ALLOW_BUSY),
    server("REPLICAOF", 3, "5.0.0", "Refuses, but for NO ONE: a database follows no other server.")
        .flags(OPERATOR | NO_ASYNC_LOADING)
        .args("host port:integer"),
    command(
        Group::Server,
        acl::ADMIN | acl::DANGEROUS,
        "ROLE",
        1,
        "2.8.12",
        "Returns that the node is a master, and the nodes that follow it.",
    )
    .flags(NOSCRIPT | LOADING | STALE | FAST)
    .role(Role::Read),
    server("SENTINEL", -2, "2.8.4", "Groups what clients ask that are configured for Redis Sentinel.")
        .cost("Depends on the subcommand."),
    server("SENTINEL|CKQUORUM", 3, "2.8.4", "Says that the master can be replaced.")
        .flags(UNPRIVILEGED)
        .args("master-name"),
    server("SENTINEL|GET-MASTER-ADDR-BY-NAME", 3, "2.8.4", "Returns the address of the node that is asked.")
        .flags(UNPRIVILEGED)
        .args("master-name"),
    server("SENTINEL|HELP", 2, "6.2.0", "Lists the subcommands.").flags(LOADING | STALE),
    server("SENTINEL|MASTER", 3, "2.8.4", "Returns what clients want to know of a master.")
        .flags(UNPRIVILEGED)
        .args("master-name"),
    server("SENTINEL|MASTERS", 2, "2.8.4", "Returns the same of all masters: of the node that is asked.")
        .flags(UNPRIVILEGED),
    server("SENTINEL|MYID", 2, "6.2.0", "Returns the id of this run of the node.").flags(UNPRIVILEGED),
    server("SENTINEL|REPLICAS", 3, "5.0.0", "Returns no replicas: clients of databases need none.")
        .flags(UNPRIVILEGED)
        .args("master-name"),
    server("SENTINEL|SENTINELS", 3, "2.8.4", "Returns the other nodes: each answers as this one does.").flags(UNPRIVILEGED).args("master-name"),
    server("SENTINEL|SLAVES", 3, "2.8.4", "Returns no replicas: clients of databases need none.")
        .flags(UNPRIVILEGED)
        .args("master-name"),
    server("SHUTDOWN", -1, "1.0.0", "Stops the server; what was acknowledged is kept.")
        .flags(OPERATOR | NO_MULTI | ALLOW_BUSY)
        .args("[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]")
        .role(Role::Administer),
    server("SLAVEOF", 3, "1.0.0", "Refuses, but for NO ONE, as REPLICAOF does.")
        .flags(OPERATOR | NO_ASYNC_LOADING)
        .args("host port:integer"),
    server("SLOWLOG", -2, "2.2.12", "Groups the commands about the slow log.").cost("Depends on the subcommand."),
    server("SLOWLOG|GET", -2, "2.2.12", "Returns entries of the slow log.")
        .does_also(ABOUT_NODE)
        .flags(ADMIN | LOADING | STALE)
        .cost("O(N), N being the number of entries returned")
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .args("[count:integer]")
        .role(Role::Read),
    server("SLOWLOG|HELP", 2, "6.2.0", "Lists the subcommands.").flags(LOADING | STALE),
    server("SLOWLOG|LEN", 2, "2.2.12", "Returns how many entries the slow log has.")
        .flags(ADMIN | LOADING | STALE)
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
        .role(Role::Read),
    server("SLOWLOG|RESET", 2, "2.2.12", "Empties the slow log.")
        .does_also(ABOUT_NODE)
        .flags(ADMIN | LOADING | STALE)
        .cost("O(N), N being the number of entries")
        .tips(TELL_ALL_NODES)
        .role(Role::Operate),
    keyspace("SWAPDB", 3, "4.0.0", "Exchanges two databases, for all clients of `database-listen`.")
        .flags(WRITE | FAST)
        .does_also(SWAPS_DATABASES)
        .dangerous()
        .args("index1:integer index2:integer"),
    server(
        "SYNC",
        1,
        "1.0.0",
        "Returns all keys that this node leads, or all databases, as an RDB file; no changes follow.",
    )
    .flags(ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI)
    .does_also(ASKS_DATABASE | READS_REPLICAS | READS_ALL_KEYS)
    .cost("O(N), N being the number of keys"),
    server("TIME", 1, "2.6.0", "Returns the server's clock.")
        .flags(LOADING | STALE | FAST)
        .tips(&["nondeterministic_output"]),
];

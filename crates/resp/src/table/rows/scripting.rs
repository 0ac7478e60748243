//! Scripts and functions.

use crate::table::behaviour::{IS_RULED, MATCHES_PATTERNS, PACKS, RUNS_SCRIPT, WRITES_BY_SCRIPT};
use crate::table::key_flag::{ACCESS, RO, RW, UPDATE};
use crate::table::spec::flag::{
    ALLOW_BUSY, DENYOOM, LOADING, MAY_REPLICATE, NO_MANDATORY_KEYS, NOSCRIPT, READONLY, SKIP_MONITOR, STALE, WRITE,
};
use crate::table::spec::{CommandSpec, Group, acl, command, keys_counted};

const fn scripting(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Scripting, acl::SCRIPTING, name, arity, since, summary)
}

/// A command that runs a script which may write.
const fn writing(name: &'static str, since: &'static str, summary: &'static str) -> CommandSpec {
    scripting(name, -3, since, summary)
        .flags(NOSCRIPT | SKIP_MONITOR | MAY_REPLICATE | STALE | NO_MANDATORY_KEYS)
        .does_also(RUNS_SCRIPT | WRITES_BY_SCRIPT | PACKS | IS_RULED)
        .touches(const { &[keys_counted(2, RW | ACCESS | UPDATE)] })
        .cost(COST_RUN)
}

/// A command that runs a script which does not.
const fn reading(name: &'static str, since: &'static str, summary: &'static str) -> CommandSpec {
    scripting(name, -3, since, summary)
        .flags(NOSCRIPT | SKIP_MONITOR | STALE | READONLY | NO_MANDATORY_KEYS)
        .does_also(RUNS_SCRIPT)
        .touches(const { &[keys_counted(2, RO | ACCESS)] })
        .cost(COST_RUN)
}

const COST_RUN: &str = "Depends on the script.";

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    writing("EVAL", "2.6.0", "Runs a script in Lua: all of it, or nothing where it passes its budget.")
        .args("script numkeys:integer [key [key ...]] [arg [arg ...]]"),
    writing("EVALSHA", "2.6.0", "Runs a script that the store knows, by its SHA1.")
        .args("sha1 numkeys:integer [key [key ...]] [arg [arg ...]]"),
    reading("EVALSHA_RO", "7.0.0", "Runs a script that the store knows and that writes nothing, by its SHA1.")
        .args("sha1 numkeys:integer [key [key ...]] [arg [arg ...]]"),
    reading("EVAL_RO", "7.0.0", "Runs a script in Lua that writes nothing.")
        .args("script numkeys:integer [key [key ...]] [arg [arg ...]]"),
    writing("FCALL", "7.0.0", "Calls a function of a library that the store has.")
        .args("function numkeys:integer [key [key ...]] [arg [arg ...]]"),
    reading("FCALL_RO", "7.0.0", "Calls a function that writes nothing.")
        .args("function numkeys:integer [key [key ...]] [arg [arg ...]]"),
    command(Group::Scripting, 0, "FUNCTION", -2, "7.0.0", "Groups the commands about functions.")
        .cost("Depends on the subcommand."),
    scripting("FUNCTION|DELETE", 3, "7.0.0", "Deletes a library with its functions.")
        .flags(WRITE | NOSCRIPT)
        .args("library-name"),
    scripting("FUNCTION|DUMP", 2, "7.0.0", "Returns all libraries in one piece, for FUNCTION RESTORE.")
        .flags(NOSCRIPT)
        .cost("O(N), N being the number of libraries"),
    scripting("FUNCTION|FLUSH", -2, "7.0.0", "Deletes all libraries.")
        .flags(WRITE | NOSCRIPT)
        .cost("O(N), N being the number of libraries")
        .args("[ASYNC | SYNC]"),
    scripting("FUNCTION|HELP", 2, "7.0.0", "Lists the subcommands.").flags(LOADING | STALE),
    scripting("FUNCTION|KILL", 2, "7.0.0", "Ends the functions that only read and take long, on all nodes.")
        .flags(NOSCRIPT | ALLOW_BUSY),
    scripting("FUNCTION|LIST", -2, "7.0.0", "Returns what libraries and functions there are.")
        .does_also(MATCHES_PATTERNS)
        .flags(NOSCRIPT)
        .cost("O(N), N being the number of functions")
        .args("[LIBRARYNAME library-name-pattern:string] [WITHCODE]"),
    scripting("FUNCTION|LOAD", -3, "7.0.0", "Has the store keep a library of functions, and returns its name.")
        .flags(WRITE | DENYOOM | NOSCRIPT)
        .cost("O(N), N being the length of the code")
        .args("[REPLACE] function-code:string"),
    scripting("FUNCTION|RESTORE", -3, "7.0.0", "Has the store keep the libraries that FUNCTION DUMP returned.")
        .flags(WRITE | DENYOOM | NOSCRIPT)
        .cost("O(N), N being the number of libraries")
        .args("serialized-value:string [FLUSH | APPEND | REPLACE]"),
    scripting(
        "FUNCTION|STATS",
        2,
        "7.0.0",
        "Returns how many libraries and functions there are, and which function runs for long here.",
    )
    .flags(NOSCRIPT | ALLOW_BUSY),
    command(Group::Scripting, 0, "SCRIPT", -2, "2.6.0", "Groups the commands about scripts.")
        .cost("Depends on the subcommand."),
    scripting("SCRIPT|DEBUG", 3, "3.2.0", "Refused: there is no debugger of scripts.")
        .flags(NOSCRIPT)
        .args("<YES | SYNC | NO>"),
    scripting("SCRIPT|EXISTS", -3, "2.6.0", "Tells which scripts the store knows.")
        .flags(NOSCRIPT)
        .cost("O(N), N being the number of scripts")
        .args("sha1 [sha1 ...]"),
    scripting("SCRIPT|FLUSH", -2, "2.6.0", "Has the store forget all scripts.")
        .flags(NOSCRIPT)
        .cost("O(N), N being the number of scripts")
        .args("[ASYNC | SYNC]"),
    scripting("SCRIPT|HELP", 2, "5.0.0", "Lists the subcommands.").flags(LOADING | STALE),
    scripting("SCRIPT|KILL", 2, "2.6.0", "Ends the scripts that only read and take long, on all nodes.")
        .flags(NOSCRIPT | ALLOW_BUSY),
    scripting("SCRIPT|LOAD", 3, "2.6.0", "Has the whole store know a script, and returns its SHA1.")
        .flags(NOSCRIPT | STALE)
        .cost("O(N), N being the length of the script")
        .args("script"),
    scripting("SCRIPT|SHOW", 3, "8.0.0", "Returns the source of a script that the store knows.")
        .flags(NOSCRIPT)
        .args("sha1"),
];

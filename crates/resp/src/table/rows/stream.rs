//! Streams.

use crate::table::behaviour::{IS_RULED, PACKS};
use crate::table::key_flag::{ACCESS, DELETE, INSERT, RO, RW, UPDATE};
use crate::table::spec::flag::{BLOCKING, DENYOOM, FAST, LOADING, READONLY, STALE, WRITE};
use crate::table::spec::{Answers, CommandSpec, Group, KeyPlace, KeySpec, acl, command, key};

const fn stream(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Stream, acl::STREAM, name, arity, since, summary)
}

/// The keys behind STREAMS. Other options come before it in any order: a group or a consumer may have the name of one.
const fn streams(told_from: u16) -> KeySpec {
    let options = &[("GROUP", 2), ("COUNT", 1), ("BLOCK", 1), ("CLAIM", 1)];
    let place = KeyPlace::Halved { word: "STREAMS", from: 1, options, told_from };
    KeySpec { place, flags: RO | ACCESS, note: "", without: None }
}

const VARIES: &[&str] = &["nondeterministic_output"];

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    stream("XACK", -4, "5.0.0", "Takes entries off what is pending in a group.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(1) for each entry")
        .args("key group id [id ...]"),
    stream(
        "XACKDEL",
        -6,
        "8.2.0",
        "Takes entries off what is pending in a group, and removes them from the stream.",
    )
    .flags(WRITE | FAST)
    .does_also(IS_RULED)
    .touches(&[key(1, RW | UPDATE | DELETE)])
    .cost("O(G log N) for each entry, G being the number of groups and N the length of the stream")
    .args("key group [KEEPREF | DELREF | ACKED] IDS numids:integer id [id ...]"),
    stream("XADD", -5, "5.0.0", "Adds an entry to a stream; creates the key if it does not exist.")
        .flags(WRITE | DENYOOM | FAST)
        .does_also(PACKS | IS_RULED)
        .touches(&[KeySpec {
            note: "UPDATE instead of INSERT because of the optional trimming feature",
            ..key(1, RW | UPDATE)
        }])
        .cost("O(1); with trimming O(N), N being the number of entries removed, and O(log N) from 512 on")
        .tips(VARIES)
        .args(
            "key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer-id | IDMP producer-id idempotent-id] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count:integer]] <* | id> field value [field value ...]",
        ),
    stream("XAUTOCLAIM", -6, "6.2.0", "Gives a consumer what has been pending for others for long.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | DELETE)])
        .cost("O(N), N being the count; at most 16,384 entries")
        .tips(VARIES)
        .args("key group consumer min-idle-time start [COUNT count:integer] [JUSTID]"),
    stream("XCFGSET", -2, "8.6.0", "Sets how long, and how many, ids of producers' requests are known.")
        .flags(WRITE | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(1)")
        .args("key [IDMP-DURATION duration:integer] [IDMP-MAXSIZE maxsize:integer]"),
    stream("XCLAIM", -6, "5.0.0", "Gives a consumer entries that are pending for others.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(1) for each entry")
        .tips(VARIES)
        .args(
            "key group consumer min-idle-time id [id ...] [IDLE ms:integer] [TIME unix-time-milliseconds:unix-time] [RETRYCOUNT count:integer] [FORCE] [JUSTID] [LASTID lastid]",
        ),
    stream("XDEL", -3, "5.0.0", "Removes entries from a stream.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | DELETE)])
        .cost("O(log N) for each entry, N being the length of the stream")
        .args("key id [id ...]"),
    stream("XDELEX", -5, "8.2.0", "Removes entries from a stream, with regard to the groups that know them.")
        .flags(WRITE | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | DELETE)])
        .cost("O(G log N) for each entry, G being the number of groups and N the length of the stream")
        .args("key [KEEPREF | DELREF | ACKED] IDS numids:integer id [id ...]"),
    command(Group::Stream, 0, "XGROUP", -2, "5.0.0", "Groups the commands about groups of consumers.")
        .cost("Depends on the subcommand."),
    stream("XGROUP|CREATE", -5, "5.0.0", "Makes a group of consumers.")
        .flags(WRITE | DENYOOM)
        .does_also(IS_RULED)
        .touches(&[key(2, RW | INSERT)])
        .args("key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read:integer]"),
    stream("XGROUP|CREATECONSUMER", 5, "6.2.0", "Makes a consumer of a group.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(2, RW | INSERT)])
        .args("key group consumer"),
    stream("XGROUP|DELCONSUMER", 5, "5.0.0", "Removes a consumer of a group, with what is pending for it.")
        .flags(WRITE)
        .touches(&[key(2, RW | DELETE)])
        .cost("O(N), N being how many entries are pending for it")
        .args("key group consumer"),
    stream("XGROUP|DESTROY", 4, "5.0.0", "Removes a group of consumers.")
        .flags(WRITE)
        .touches(&[key(2, RW | DELETE)])
        .cost("O(1), whatever is pending in it")
        .args("key group"),
    stream("XGROUP|HELP", 2, "5.0.0", "Lists the subcommands.").flags(LOADING | STALE),
    stream("XGROUP|SETID", -5, "5.0.0", "Sets the last id that a group was given.")
        .flags(WRITE)
        .does_also(IS_RULED)
        .touches(&[key(2, RW | UPDATE)])
        .args("key group <id | $> [ENTRIESREAD entries-read:integer]"),
    stream(
        "XIDMPRECORD",
        5,
        "8.6.2",
        "Has a producer's request known as if it had added an entry that is in the stream.",
    )
    .flags(WRITE | DENYOOM | FAST)
    .does_also(IS_RULED)
    .touches(&[key(1, RW | UPDATE)])
    .cost("O(log N), N being the length of the stream")
    .args("key producer-id idempotent-id id"),
    command(Group::Stream, 0, "XINFO", -2, "5.0.0", "Groups the commands that look into a stream.")
        .cost("Depends on the subcommand."),
    stream("XINFO|CONSUMERS", 4, "5.0.0", "Tells of the consumers of a group.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(2, RO | ACCESS)])
        .cost("O(N), N being how many consumers there are")
        .tips(VARIES)
        .args("key group"),
    stream("XINFO|GROUPS", 3, "5.0.0", "Tells of the groups of a stream.")
        .answers(Answers::Values)
        .flags(READONLY)
        .does_also(IS_RULED)
        .touches(&[key(2, RO | ACCESS)])
        .cost("O(N), N being how many groups there are")
        .args("key"),
    stream("XINFO|HELP", 2, "5.0.0", "Lists the subcommands.").flags(LOADING | STALE),
    stream("XINFO|STREAM", -3, "5.0.0", "Tells of a stream, and with FULL of all that belongs to it.")
        .answers(Answers::Values)
        .flags(READONLY)
        .does_also(IS_RULED)
        .touches(&[key(2, RO | ACCESS)])
        .args("key [FULL [COUNT count:integer]]"),
    stream("XLEN", 2, "5.0.0", "Returns how many entries a stream has.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO)])
        .args("key"),
    stream("XNACK", -7, "8.8.0", "Gives pending entries back to their group: any consumer may claim them at once.")
        .flags(WRITE | FAST)
        .does_also(IS_RULED)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(1) for each entry")
        .args(
            "key group <SILENT | FAIL | FATAL> IDS numids:integer id [id ...] [RETRYCOUNT count:integer] [FORCE]",
        ),
    stream("XPENDING", -3, "5.0.0", "Tells what was delivered to the consumers of a group and is not acknowledged.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the number of entries returned; of the sums, the number of consumers")
        .tips(VARIES)
        .args("key group [[IDLE min-idle-time:integer] start end count:integer [consumer]]"),
    stream("XRANGE", -4, "5.0.0", "Returns the entries of a stream within a range of ids.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(log N + M), N being the length of the stream and M the number of entries returned")
        .args("key start end [COUNT count:integer]"),
    stream("XREAD", -4, "5.0.0", "Returns the entries of streams behind an id of each; with BLOCK, waits for one.")
        .answers(Answers::Values)
        .flags(READONLY | BLOCKING)
        .touches(&[streams(1)])
        .cost("O(log N + M) for each stream, N being its length and M the number of entries returned")
        .args("[COUNT count:integer] [BLOCK milliseconds:integer] STREAMS key [key ...] id [id ...]"),
    stream("XREADGROUP", -7, "5.0.0", "Delivers entries of streams to a consumer of a group, each to one; with BLOCK, waits for one.")
        .answers(Answers::Values)
        .flags(WRITE | BLOCKING)
        .does_also(IS_RULED)
        .touches(&[streams(4)])
        .cost(
            "O(M), M being the number of entries delivered; at most 16,384 of each stream; with CLAIM O(P log P), P being how many are pending in the group, of which it looks at 16,384",
        )
        .args(
            "GROUP group consumer [COUNT count:integer] [BLOCK milliseconds:integer] [CLAIM min-idle-time:integer] [NOACK] STREAMS key [key ...] id [id ...]",
        ),
    stream("XREVRANGE", -4, "5.0.0", "Returns the entries of a stream within a range of ids, the last one first.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(log N + M), N being the length of the stream and M the number of entries returned")
        .args("key end start [COUNT count:integer]"),
    stream("XSETID", -3, "5.0.0", "Sets the last id of a stream, and what is counted of it.")
        .does_also(IS_RULED)
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | UPDATE)])
        .args("key last-id [ENTRIESADDED entries-added:integer] [MAXDELETEDID max-deleted-id]"),
    stream("XTRIM", -4, "5.0.0", "Removes the first entries of a stream.")
        .flags(WRITE)
        .does_also(PACKS | IS_RULED)
        .touches(&[key(1, RW | DELETE)])
        .cost("O(N), N being the number of entries removed, and O(log N) from 512 on")
        .tips(VARIES)
        .args("key <MAXLEN | MINID> [= | ~] threshold [LIMIT count:integer] [KEEPREF | DELREF | ACKED]"),
];

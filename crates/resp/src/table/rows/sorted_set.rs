//! Sorted sets.

use crate::table::behaviour::{IS_RULED, MATCHES_PATTERNS};
use crate::table::key_flag::{ACCESS, DELETE, OW, RO, RW, UPDATE};
use crate::table::spec::acl;
use crate::table::spec::flag::{DENYOOM, FAST, READONLY, WRITE};
use crate::table::spec::{Answers, CommandSpec, Group, command, key, keys_counted};

const fn zset(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::SortedSet, acl::SORTED_SET, name, arity, since, summary)
}

const ALL_AND_LOG: &str = "O(N+M*log(M)), N being the number of members of all sorted sets and M that of the result";
const SMALLEST_AND_LOG: &str = "O(N*K+M*log(M)), N being the size of the smallest sorted set, K the number of sorted sets and M the size of the result";
const LOG: &str = "O(log(N)), N being the number of members of the sorted set";
const LOG_AND_ANSWERED: &str =
    "O(log(N)+M), N being the number of members of the sorted set and M the number of members returned";
const LOG_AND_REMOVED: &str =
    "O(log(N)+M), N being the number of members of the sorted set and M the number of members removed";

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    zset(
        "ZADD",
        -4,
        "1.2.0",
        "Adds members to a sorted set, or changes their scores; creates the key if it does not exist.",
    )
    .flags(WRITE | DENYOOM | FAST)
    .touches(&[key(1, RW | UPDATE)])
    .cost("O(log(N)) for each member, N being the number of members of the sorted set")
    .args("key [NX | XX] [GT | LT] [CH] [INCR] score:double member [score:double member ...]"),
    zset("ZCARD", 2, "1.2.0", "Returns how many members a sorted set has.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO)])
        .args("key"),
    zset("ZCOUNT", 4, "2.0.0", "Returns how many members of a sorted set have scores within a range.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .cost(LOG)
        .args("key min max"),
    zset("ZDIFF", -3, "6.2.0", "Returns the members of a sorted set that the other sorted sets do not have.")
        .answers(Answers::Values)
        .does_also(IS_RULED)
        .flags(READONLY)
        .touches(&[keys_counted(1, RO | ACCESS)])
        .cost(ALL_AND_LOG)
        .args("numkeys:integer key [key ...] [WITHSCORES]"),
    zset("ZDIFFSTORE", -4, "6.2.0", "Keeps the members of a sorted set that the other sorted sets do not have in a key.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, OW | UPDATE), keys_counted(2, RO | ACCESS)])
        .cost(ALL_AND_LOG)
        .args("destination:key numkeys:integer key [key ...]"),
    zset("ZINCRBY", 4, "1.2.0", "Adds to the score of a member of a sorted set, 0 at first.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | ACCESS | UPDATE)])
        .cost(LOG)
        .args("key increment:double member"),
    zset("ZINTER", -3, "6.2.0", "Returns the members that all sorted sets have.")
        .answers(Answers::Values)
        .does_also(IS_RULED)
        .flags(READONLY)
        .touches(&[keys_counted(1, RO | ACCESS)])
        .cost(SMALLEST_AND_LOG)
        .args("numkeys:integer key [key ...] [WEIGHTS weight:integer [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>] [WITHSCORES]"),
    zset("ZINTERCARD", -3, "7.0.0", "Returns how many members all sorted sets have in common.")
        .does_also(IS_RULED)
        .flags(READONLY)
        .touches(&[keys_counted(1, RO | ACCESS)])
        .cost("O(N*K), N being the size of the smallest sorted set and K the number of sorted sets")
        .args("numkeys:integer key [key ...] [LIMIT limit:integer]"),
    zset("ZINTERSTORE", -4, "2.0.0", "Keeps the members that all sorted sets have in a key.")
        .flags(WRITE | DENYOOM)
        .does_also(IS_RULED)
        .touches(&[key(1, OW | UPDATE), keys_counted(2, RO | ACCESS)])
        .cost(SMALLEST_AND_LOG)
        .args("destination:key numkeys:integer key [key ...] [WEIGHTS weight:integer [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]"),
    zset(
        "ZLEXCOUNT",
        4,
        "2.8.9",
        "Returns how many members of a sorted set of one score lie within a range of members.",
    )
    .flags(READONLY | FAST)
    .touches(&[key(1, RO | ACCESS)])
    .cost(LOG)
    .args("key min max"),
    zset(
        "ZMPOP",
        -4,
        "7.0.0",
        "Removes members of the lowest or highest scores from the first sorted set that is there, and returns them.",
    )
    .answers(Answers::Values)
    .flags(WRITE)
    .touches(&[keys_counted(1, RW | ACCESS | DELETE)])
    .cost("O(K+M*log(N)), K being the number of keys, N that of members and M that of members removed")
    .args("numkeys:integer key [key ...] <MIN | MAX> [COUNT count:integer]"),
    zset("ZMSCORE", -3, "6.2.0", "Returns the scores of several members of a sorted set.")
        .answers(Answers::Values)
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the number of members asked for")
        .args("key member [member ...]"),
    zset("ZPOPMAX", -2, "5.0.0", "Removes the members of the highest scores from a sorted set and returns them.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | ACCESS | DELETE)])
        .cost(LOG_AND_REMOVED)
        .args("key [count:integer]"),
    zset("ZPOPMIN", -2, "5.0.0", "Removes the members of the lowest scores from a sorted set and returns them.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | ACCESS | DELETE)])
        .cost(LOG_AND_REMOVED)
        .args("key [count:integer]"),
    zset("ZRANDMEMBER", -2, "6.2.0", "Returns members of a sorted set chosen at random.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(M*log(N)), M being the number of members returned")
        .tips(&["nondeterministic_output"])
        .args("key [count:integer [WITHSCORES]]"),
    zset("ZRANGE", -4, "1.2.0", "Returns the members of a sorted set within a range of ranks, scores or members.")
        .answers(Answers::Values)
        .flags(READONLY)
        .does_also(IS_RULED)
        .touches(&[key(1, RO | ACCESS)])
        .cost(LOG_AND_ANSWERED)
        .args("key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset:integer count:integer] [WITHSCORES]"),
    zset("ZRANGEBYLEX", -4, "2.8.9", "Returns the members of a sorted set of one score within a range of members.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost(LOG_AND_ANSWERED)
        .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument")
        .args("key min max [LIMIT offset:integer count:integer]"),
    zset("ZRANGEBYSCORE", -4, "1.0.5", "Returns the members of a sorted set within a range of scores.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost(LOG_AND_ANSWERED)
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument")
        .args("key min max [WITHSCORES] [LIMIT offset:integer count:integer]"),
    zset("ZRANGESTORE", -5, "6.2.0", "Keeps the members of a sorted set within a range of ranks, scores or members in a key.")
        .flags(WRITE | DENYOOM)
        .does_also(IS_RULED)
        .touches(&[key(1, OW | UPDATE), key(2, RO | ACCESS)])
        .cost("O(log(N)+M*log(M)), N being the number of members of the sorted set and M the number of members kept")
        .args("dst:key src:key min max [BYSCORE | BYLEX] [REV] [LIMIT offset:integer count:integer]"),
    zset("ZRANK", -3, "2.0.0", "Returns the rank of a member of a sorted set, in rising order of scores.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .cost(LOG)
        .args("key member [WITHSCORE]"),
    zset("ZREM", -3, "1.2.0", "Removes members from a sorted set, and the key with the last of them.")
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | DELETE)])
        .cost("O(M*log(N)), N being the number of members of the sorted set and M the number of members to remove")
        .args("key member [member ...]"),
    zset("ZREMRANGEBYLEX", 4, "2.8.9", "Removes the members of a sorted set of one score within a range of members.")
        .flags(WRITE)
        .touches(&[key(1, RW | DELETE)])
        .cost(LOG_AND_REMOVED)
        .args("key min max"),
    zset("ZREMRANGEBYRANK", 4, "2.0.0", "Removes the members of a sorted set within a range of ranks.")
        .flags(WRITE)
        .touches(&[key(1, RW | DELETE)])
        .cost(LOG_AND_REMOVED)
        .args("key start:integer stop:integer"),
    zset("ZREMRANGEBYSCORE", 4, "1.2.0", "Removes the members of a sorted set within a range of scores.")
        .flags(WRITE)
        .touches(&[key(1, RW | DELETE)])
        .cost(LOG_AND_REMOVED)
        .args("key min max"),
    zset(
        "ZREVRANGE",
        -4,
        "1.2.0",
        "Returns the members of a sorted set within a range of ranks, in falling order of scores.",
    )
    .answers(Answers::Values)
    .flags(READONLY)
    .touches(&[key(1, RO | ACCESS)])
    .cost(LOG_AND_ANSWERED)
    .deprecated("6.2.0", "`ZRANGE` with the `REV` argument")
    .args("key start:integer stop:integer [WITHSCORES]"),
    zset(
        "ZREVRANGEBYLEX",
        -4,
        "2.8.9",
        "Returns the members of a sorted set of one score within a range of members, in falling order.",
    )
    .answers(Answers::Values)
    .flags(READONLY)
    .touches(&[key(1, RO | ACCESS)])
    .cost(LOG_AND_ANSWERED)
    .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments")
    .args("key max min [LIMIT offset:integer count:integer]"),
    zset(
        "ZREVRANGEBYSCORE",
        -4,
        "2.2.0",
        "Returns the members of a sorted set within a range of scores, in falling order.",
    )
    .answers(Answers::Values)
    .flags(READONLY)
    .touches(&[key(1, RO | ACCESS)])
    .cost(LOG_AND_ANSWERED)
    .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments")
    .args("key max min [WITHSCORES] [LIMIT offset:integer count:integer]"),
    zset("ZREVRANK", -3, "2.0.0", "Returns the rank of a member of a sorted set, in falling order of scores.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .cost(LOG)
        .args("key member [WITHSCORE]"),
    zset("ZSCAN", -3, "2.8.0", "Walks through the members of a sorted set and their scores by a cursor.")
        .answers(Answers::Values)
        .does_also(MATCHES_PATTERNS)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(1) a call, O(N) for the whole walk, N being the number of members of the sorted set")
        .tips(&["nondeterministic_output"])
        .args("key cursor:integer [MATCH pattern:pattern] [COUNT count:integer]"),
    zset("ZSCORE", 3, "1.2.0", "Returns the score of a member of a sorted set.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO | ACCESS)])
        .args("key member"),
    zset("ZUNION", -3, "6.2.0", "Returns the members that at least one of the sorted sets has.")
        .answers(Answers::Values)
        .flags(READONLY)
        .does_also(IS_RULED)
        .touches(&[keys_counted(1, RO | ACCESS)])
        .cost(ALL_AND_LOG)
        .args("numkeys:integer key [key ...] [WEIGHTS weight:integer [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>] [WITHSCORES]"),
    zset("ZUNIONSTORE", -4, "2.0.0", "Keeps the members that at least one of the sorted sets has in a key.")
        .flags(WRITE | DENYOOM)
        .does_also(IS_RULED)
        .touches(&[key(1, OW | UPDATE), keys_counted(2, RO | ACCESS)])
        .cost(ALL_AND_LOG)
        .args("destination:key numkeys:integer key [key ...] [WEIGHTS weight:integer [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]"),
];

//! Commands over lists and sorted sets that wait for an element.

use crate::table::key_flag::{ACCESS, DELETE, INSERT, RW};
use crate::table::spec::acl;
use crate::table::spec::flag::{BLOCKING, DENYOOM, FAST, NOSCRIPT, WRITE};
use crate::table::spec::{Answers, CommandSpec, Group, command, key, keys_before_last, keys_counted};

const fn list(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::List, acl::LIST, name, arity, since, summary).answers(Answers::Values)
}

const fn sorted_set(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::SortedSet, acl::SORTED_SET, name, arity, since, summary).answers(Answers::Values)
}

const KEYS: &str = "O(N), N being the number of keys";
const KEYS_AND_ELEMENTS: &str = "O(N+M), N being the number of keys and M the number of elements removed";

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    list("BLMOVE", 6, "6.2.0", "Moves an element from an end of a list to an end of another and returns it; waits for one.")
        .flags(WRITE | DENYOOM | NOSCRIPT | BLOCKING)
        .touches(&[key(1, RW | ACCESS | DELETE), key(2, RW | INSERT)])
        .args("source:key destination:key <LEFT | RIGHT> <LEFT | RIGHT> timeout:double"),
    list("BLMPOP", -5, "7.0.0", "Removes elements at an end of the first list that is not empty and returns them; waits for one.")
        .flags(WRITE | BLOCKING)
        .touches(&[keys_counted(2, RW | ACCESS | DELETE)])
        .cost(KEYS_AND_ELEMENTS)
        .args("timeout:double numkeys:integer key [key ...] <LEFT | RIGHT> [COUNT count:integer]"),
    list("BLPOP", -3, "2.0.0", "Removes the first element of the first list that is not empty and returns it; waits for one.")
        .flags(WRITE | NOSCRIPT | BLOCKING)
        .touches(&[keys_before_last(1, RW | ACCESS | DELETE)])
        .cost(KEYS)
        .args("key [key ...] timeout:double"),
    list("BRPOP", -3, "2.0.0", "Removes the last element of the first list that is not empty and returns it; waits for one.")
        .flags(WRITE | NOSCRIPT | BLOCKING)
        .touches(&[keys_before_last(1, RW | ACCESS | DELETE)])
        .cost(KEYS)
        .args("key [key ...] timeout:double"),
    list("BRPOPLPUSH", 4, "2.2.0", "Moves the last element of a list to the beginning of another and returns it; waits for one.")
        .flags(WRITE | DENYOOM | NOSCRIPT | BLOCKING)
        .touches(&[key(1, RW | ACCESS | DELETE), key(2, RW | INSERT)])
        .deprecated("6.2.0", "`BLMOVE` with `RIGHT` and `LEFT`")
        .args("source:key destination:key timeout:double"),
    sorted_set("BZMPOP", -5, "7.0.0", "Removes members with the lowest or highest scores of the first sorted set that is not empty and returns them; waits for one.")
        .flags(WRITE | BLOCKING)
        .touches(&[keys_counted(2, RW | ACCESS | DELETE)])
        .cost("O(K+M*log(N)), K being the number of keys, N the size of the sorted set and M the number of members removed")
        .args("timeout:double numkeys:integer key [key ...] <MIN | MAX> [COUNT count:integer]"),
    sorted_set("BZPOPMAX", -3, "5.0.0", "Removes the member with the highest score of the first sorted set that is not empty and returns it; waits for one.")
        .flags(WRITE | NOSCRIPT | FAST | BLOCKING)
        .touches(&[keys_before_last(1, RW | ACCESS | DELETE)])
        .cost("O(log(N)), N being the size of the sorted set")
        .args("key [key ...] timeout:double"),
    sorted_set("BZPOPMIN", -3, "5.0.0", "Removes the member with the lowest score of the first sorted set that is not empty and returns it; waits for one.")
        .flags(WRITE | NOSCRIPT | FAST | BLOCKING)
        .touches(&[keys_before_last(1, RW | ACCESS | DELETE)])
        .cost("O(log(N)), N being the size of the sorted set")
        .args("key [key ...] timeout:double"),
];

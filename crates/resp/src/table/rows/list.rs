//! Lists.

use crate::table::key_flag::{ACCESS, DELETE, INSERT, RO, RW, UPDATE};
use crate::table::spec::acl;
use crate::table::spec::flag::{DENYOOM, FAST, READONLY, WRITE};
use crate::table::spec::{Answers, CommandSpec, Group, command, key, keys_counted};

const fn list(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::List, acl::LIST, name, arity, since, summary)
}

const PUSHED: &str = "O(N), N being the number of elements to add";
const POPPED: &str = "O(N), N being the number of elements removed";

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    list("LINDEX", 3, "1.0.0", "Returns the element of a list with an index; negative ones count from the end.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(log N), N being the length of the list")
        .args("key index:integer"),
    list("LINSERT", 5, "2.2.0", "Inserts an element before or after another in a list.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, RW | INSERT)])
        .cost("O(N), N being the number of elements before the other")
        .args("key <BEFORE | AFTER> pivot element"),
    list("LLEN", 2, "1.0.0", "Returns how many elements a list has.")
        .flags(READONLY | FAST)
        .touches(&[key(1, RO)])
        .args("key"),
    list("LMOVE", 5, "6.2.0", "Moves an element from an end of a list to an end of another and returns it.")
        .answers(Answers::Values)
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, RW | ACCESS | DELETE), key(2, RW | INSERT)])
        .args("source:key destination:key <LEFT | RIGHT> <LEFT | RIGHT>"),
    list("LMPOP", -4, "7.0.0", "Removes elements at an end of the first list that is not empty and returns them.")
        .answers(Answers::Values)
        .flags(WRITE)
        .touches(&[keys_counted(1, RW | ACCESS | DELETE)])
        .cost("O(N+M), N being the number of keys and M the number of elements removed")
        .args("numkeys:integer key [key ...] <LEFT | RIGHT> [COUNT count:integer]"),
    list("LPOP", -2, "1.0.0", "Removes the first elements of a list and returns them.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | ACCESS | DELETE)])
        .cost(POPPED)
        .args("key [count:integer]"),
    list("LPOS", -3, "6.0.6", "Returns the index of an element of a list.")
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(N), N being the number of elements compared")
        .args("key element [RANK rank:integer] [COUNT num-matches:integer] [MAXLEN len:integer]"),
    list("LPUSH", -3, "1.0.0", "Adds elements before the first one of a list; creates the key if it does not exist.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | INSERT)])
        .cost(PUSHED)
        .args("key element [element ...]"),
    list("LPUSHX", -3, "2.2.0", "Adds elements before the first one of a list, if the list exists.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | INSERT)])
        .cost(PUSHED)
        .args("key element [element ...]"),
    list("LRANGE", 4, "1.0.0", "Returns the elements of a list from one index to another.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost("O(log N+M), N being the length of the list and M the number of elements returned")
        .args("key start:integer stop:integer"),
    list("LREM", 4, "1.0.0", "Removes elements of a list that equal a value.")
        .flags(WRITE)
        .touches(&[key(1, RW | DELETE)])
        .cost("O(N), N being the length of the list")
        .args("key count:integer element"),
    list("LSET", 4, "1.0.0", "Sets the element of a list with an index.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, RW | UPDATE)])
        .cost("O(log N), N being the length of the list")
        .args("key index:integer element"),
    list("LTRIM", 4, "1.0.0", "Removes the elements of a list that are not between two indexes.")
        .flags(WRITE)
        .touches(&[key(1, RW | DELETE)])
        .cost("O(log N), N being the length of the list")
        .args("key start:integer stop:integer"),
    list("RPOP", -2, "1.0.0", "Removes the last elements of a list and returns them.")
        .answers(Answers::Values)
        .flags(WRITE | FAST)
        .touches(&[key(1, RW | ACCESS | DELETE)])
        .cost(POPPED)
        .args("key [count:integer]"),
    list("RPOPLPUSH", 3, "1.2.0", "Moves the last element of a list to the beginning of another and returns it.")
        .answers(Answers::Values)
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, RW | ACCESS | DELETE), key(2, RW | INSERT)])
        .deprecated("6.2.0", "`LMOVE` with `RIGHT` and `LEFT`")
        .args("source:key destination:key"),
    list("RPUSH", -3, "1.0.0", "Adds elements behind the last one of a list; creates the key if it does not exist.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | INSERT)])
        .cost(PUSHED)
        .args("key element [element ...]"),
    list("RPUSHX", -3, "2.2.0", "Adds elements behind the last one of a list, if the list exists.")
        .flags(WRITE | DENYOOM | FAST)
        .touches(&[key(1, RW | INSERT)])
        .cost(PUSHED)
        .args("key element [element ...]"),
];

//! HyperLogLogs.

use crate::table::behaviour::PACKS;
use crate::table::key_flag::{ACCESS, INSERT, RO, RW};
use crate::table::spec::acl;
use crate::table::spec::flag::{ADMIN, DENYOOM, FAST, MAY_REPLICATE, READONLY, WRITE};
use crate::table::spec::{CommandSpec, Group, KeySpec, command, key, keys_to_end};

const fn hll(name: &'static str, arity: i16, summary: &'static str) -> CommandSpec {
    command(Group::HyperLogLog, acl::HYPERLOGLOG, name, arity, "2.8.9", summary)
}

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    hll("PFADD", -2, "Adds elements to a HyperLogLog; creates the key if it does not exist.")
        .flags(WRITE | DENYOOM | FAST)
        .does_also(PACKS)
        .touches(&[key(1, RW | INSERT)])
        .cost("O(1) to add every element")
        .args("key [element ...]"),
    hll("PFCOUNT", -2, "Returns about how many different elements HyperLogLogs have, together.")
        .flags(READONLY | MAY_REPLICATE)
        .touches(&[KeySpec {
            note: "Unlike in Redis it writes nothing: the number that it computes is not kept",
            ..keys_to_end(1, 1, RO | ACCESS)
        }])
        .cost("O(1) for one key, O(N) for N keys")
        .args("key [key ...]"),
    hll("PFDEBUG", 3, "Shows or changes how a HyperLogLog is kept, for tests.")
        .flags(WRITE | DENYOOM | ADMIN)
        .touches(&[key(2, RW | ACCESS)])
        .cost("O(1)")
        .args("subcommand key"),
    hll("PFMERGE", -2, "Merges HyperLogLogs into the first.")
        .flags(WRITE | DENYOOM)
        .does_also(PACKS)
        .touches(&[key(1, RW | ACCESS | INSERT), keys_to_end(2, 1, RO | ACCESS)])
        .cost("O(N) to merge N HyperLogLogs")
        .args("destkey:key [sourcekey:key ...]"),
    hll("PFSELFTEST", 1, "Checks the arithmetic of HyperLogLogs.").flags(ADMIN).cost("O(1), some 100 ms").args(""),
];

//! What runs which command: a row of a family for each row of the command table, found once by its name and then by
//! the command's number.

use super::call::{Handler, HandlerRow, ScriptCommand};
use super::{
    bits, cluster_scan, condition, counters, database, database_keys, dump, expiry, geo, hash, hyperloglog, keyspace,
    kv, lcs, list, object, random_key, ranges, scan, scripts, set, slot, sort, stream, string, zset,
};
use resp::table::{self, CommandSpec};
use std::sync::LazyLock;

/// The commands over data. To add one, put its row here, by way of its family, and into the command table.
const FAMILIES: &[&[HandlerRow]] = &[
    string::ROWS,
    condition::ROWS,
    counters::ROWS,
    ranges::ROWS,
    bits::ROWS,
    hyperloglog::ROWS,
    lcs::ROWS,
    hash::ROWS,
    set::ROWS,
    list::ROWS,
    zset::ROWS,
    geo::ROWS,
    stream::ROWS,
    sort::ROWS,
    keyspace::ROWS,
    expiry::ROWS,
    object::ROWS,
    dump::ROWS,
    scan::ROWS,
    scripts::ROWS,
    cluster_scan::ROWS,
    random_key::ROWS,
    database::ROWS,
    database_keys::ROWS,
    slot::ROWS,
    super::slot_stats::ROWS,
    kv::GET_PUT_ROWS,
    kv::EXEC_ROWS,
    kv::RANGE_ROWS,
    super::blocking::ROWS,
];

/// By the number of the command.
static ROWS: LazyLock<Vec<Option<&HandlerRow>>> = LazyLock::new(|| {
    let mut rows = vec![None; table::COMMAND_COUNT];
    for row in FAMILIES.iter().copied().flatten() {
        let spec = table::lookup_full(row.name.as_bytes()).expect("a handler's command is in the command table");
        rows[spec.id.index()] = Some(row);
    }
    rows
});

fn row(spec: &CommandSpec) -> Option<&'static HandlerRow> {
    ROWS.get(spec.id.index()).copied().flatten()
}

/// What runs a command over data; `None` for one that the session or the shell answers.
#[must_use]
pub fn handler(spec: &CommandSpec) -> Option<Handler> {
    row(spec).map(|row| row.handler)
}

/// How a command runs a script, if it does.
#[must_use]
pub fn script_of(spec: &'static CommandSpec) -> Option<ScriptCommand> {
    match handler(spec) {
        Some(Handler::Script(script)) => Some(script),
        _ => None,
    }
}

/// A write's answer, where its arguments alone tell it.
pub(crate) fn known_answer(spec: &CommandSpec, args: &[&[u8]]) -> Option<&'static [u8]> {
    row(spec)?.known_answer?(args)
}

/// Whether a write stores the values of its keys anew, however long they are.
pub(crate) fn rewrites(spec: &CommandSpec) -> bool {
    row(spec).is_some_and(|row| row.rewrites.is_some())
}

/// By how many bytes such a write may make a value longer, beyond what it brings; `None` for any other command.
pub(crate) fn growth(spec: &CommandSpec, args: &[&[u8]]) -> Option<usize> {
    Some(row(spec)?.rewrites?(args))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testspace::{TestSpace, run_of};
    use resp::Reply;
    use resp::table::Group;

    /// Commands of these groups that the session answers.
    const SESSION: &[&str] = &[
        "KV.CONSISTENCY",
        "KV.DURABILITY",
        "KV.MONITOR",
        "KV.SCRIPTUSER",
        "KV.SWAP",
        "KV.TRACKING",
        "MIGRATE",
        "OBJECT|HELP",
        "WAIT",
        "WAITAOF",
        "XGROUP|HELP",
        "XINFO|HELP",
    ];

    /// Commands that the session or the shell answers, with all that they contain.
    const CONTAINERS: &[&str] = &["KV.ADMIN|", "KV.BACKUP|"];

    #[test]
    fn every_data_command_has_a_handler() {
        let groups = [
            Group::String,
            Group::Hash,
            Group::Set,
            Group::List,
            Group::SortedSet,
            Group::Geo,
            Group::Bitmap,
            Group::HyperLogLog,
            Group::Stream,
            Group::Generic,
            Group::Basalt,
        ];
        let missing: Vec<_> = table::all()
            .iter()
            .filter(|spec| groups.contains(&spec.group) && !spec.is_container())
            .filter(|spec| !CONTAINERS.iter().any(|container| spec.name.starts_with(container)))
            .filter(|spec| handler(spec).is_none())
            .map(|spec| spec.name)
            .collect();
        assert!(missing.iter().all(|name| SESSION.contains(name)), "without a handler: {missing:?}");
    }

    #[test]
    fn a_handler_writes_if_and_only_if_the_table_says_so() {
        for spec in table::all() {
            let Some(handler) = handler(spec) else { continue };
            let writes = match handler {
                Handler::Script(script) => script.writes,
                handler => matches!(handler, Handler::Write(_) | Handler::WriteIf(..)),
            };
            assert_eq!(writes, spec.is_write(), "{}", spec.name);
            let is_plain = |row: &HandlerRow| row.known_answer.is_none() && row.rewrites.is_none();
            assert!(row(spec).is_some_and(is_plain) || spec.is_write(), "{}", spec.name);
        }
        let names: std::collections::BTreeSet<&str> = FAMILIES.iter().copied().flatten().map(|row| row.name).collect();
        assert_eq!(names.len(), FAMILIES.iter().copied().flatten().count(), "a command has one row");
    }

    /// A panic at apply would stop every replica of the shard.
    #[test]
    fn no_handler_needs_more_arguments_than_its_arity_says() {
        let mut space = TestSpace::new();
        for spec in table::all() {
            let Some(Handler::Read(_) | Handler::Write(_) | Handler::WriteIf(..)) = handler(spec) else { continue };
            let least = usize::from(spec.arity.unsigned_abs());
            let most = if spec.arity < 0 { least + 4 } else { least };
            for filler in ["", "1", "-1", "x"] {
                for count in least..=most {
                    let mut args: Vec<&[u8]> = spec.name.split('|').map(str::as_bytes).collect();
                    args.resize(count.max(args.len()), filler.as_bytes());
                    // An error is an answer.
                    let _ = run_of(&mut space, spec, &args, &mut Reply::default());
                }
            }
        }
    }
}

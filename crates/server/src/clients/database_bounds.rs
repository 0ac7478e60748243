//! The bound of single databases that is judged before a command runs: operations a second.

use super::turn::Step;
use crate::shared::NodeShared;
use cluster::DatabaseRow;
use node::session::Resolved;
use resp::table::CommandSpec;
use vocab::Database;

const TRYAGAIN: &str = "TRYAGAIN the database is asked more often than it may be ('ops-max' of `ctl database set`).";

/// The command, or the error that its database may not take it now, by how often it may be asked. Then the database with which it
/// counts, if it does.
pub(super) fn within_rate(
    store: &NodeShared,
    bounds: Option<(Database, &DatabaseRow)>,
    row: Resolved,
) -> (Resolved, Option<Database>) {
    let is_bounded = row.as_ref().is_ok_and(|spec| spec.has_keys());
    match bounds.filter(|_| is_bounded).and_then(|(database, row)| Some((database, row.ops_max?))) {
        None => (row, None),
        Some((database, rate)) if store.database_rates.takes(database, rate) => (row, Some(database)),
        Some(_) => (Err(TRYAGAIN.to_owned()), None),
    }
}

/// The same of a request that another node has sent for its client. It counts there, too; here it counts with those of all other nodes, so
/// that a database is asked no more often however many nodes its clients come to. How many keys there may be is judged where it writes.
pub(super) fn of_other_node_within_rate(
    store: &NodeShared,
    row: Resolved,
    args: &[&[u8]],
) -> (Resolved, Option<Database>) {
    let known = store.known();
    let first = |spec: &&'static CommandSpec| args.get(spec.keys(args).ok()?.next()?);
    let key = row.as_ref().ok().and_then(first);
    let database = key.and_then(|key| Database::of_key(key)).map(|place| known.databases.database_at(place));
    let bounds = database.and_then(|database| Some((database, known.databases.row(database)?)));
    within_rate(store, bounds, row)
}

/// What counted and now waits will be looked at, and counted, again.
pub(super) fn count_again(store: &NodeShared, counted: Option<Database>, step: &Step) {
    if let (Some(database), Step::Stall | Step::Lend) = (counted, step) {
        store.database_rates.gives_back(database);
    }
}

//! The bound of single databases that is judged before a command runs: operations a second.

use super::turn::Step;
use crate::shared::NodeShared;
use cluster::DatabaseRow;
use resp::table::CommandSpec;
use vocab::Database;

/// An error if a database may not take a command now, by how often it may be asked; or the database with which it counts, if it counts.
pub(super) fn within_rate(
    store: &NodeShared,
    database: Database,
    row: &DatabaseRow,
    spec: &CommandSpec,
) -> Result<Option<Database>, String> {
    match row.ops_max.filter(|_| spec.has_keys()) {
        Some(rate) if !store.database_rates.takes(database, rate) => {
            Err("TRYAGAIN the database is asked more often than it may be ('ops-max' of `ctl database set`)."
                .to_owned())
        }
        bound => Ok(bound.map(|_| database)),
    }
}

/// The same of a request that another node has sent for its client. It counts there, too; here it counts with those of all other nodes, so
/// that a database is asked no more often however many nodes its clients come to. How many keys there may be is judged where it writes.
pub(super) fn of_other_node_within_rate(
    store: &NodeShared,
    spec: &CommandSpec,
    args: &[&[u8]],
) -> Result<Option<Database>, String> {
    let known = store.known();
    let first = spec.keys(args).ok().and_then(|mut places| places.next()).and_then(|at| args.get(at));
    let database = first.and_then(|key| Database::of_key(key)).map(|place| known.databases.database_at(place));
    match database.and_then(|database| Some((database, known.databases.row(database)?))) {
        Some((database, row)) => within_rate(store, database, row, spec),
        None => Ok(None),
    }
}

/// What counted and now waits will be looked at, and counted, again.
pub(super) fn count_again(store: &NodeShared, counted: Option<Database>, step: &Step) {
    if let (Some(database), Step::Stall | Step::Lend) = (counted, step) {
        store.database_rates.gives_back(database);
    }
}

//! The bounds of single databases: keys, and operations a second.

use crate::shared::NodeShared;
use cluster::DatabaseRow;
use node::KEYS_MAX_REACHED;
use node::session::{Host as _, other_number};
use resp::table::{CommandSpec, behaviour, flag};
use vocab::Database;

/// An error if a database may not take a command now, by what is set of it.
pub(super) fn within_bounds(
    store: &NodeShared,
    (database, place): (Database, Database),
    row: &DatabaseRow,
    spec: &CommandSpec,
    args: &[&[u8]],
) -> Result<(), String> {
    // What goes to another database is judged there.
    let goes_elsewhere = || {
        let number = other_number(spec, args).filter(|_| spec.does(behaviour::TO_DATABASE));
        number.is_some_and(|number| number != i64::from(database.number()))
    };
    if row.keys_max.is_some() && spec.has(flag::DENYOOM) && !goes_elsewhere() && store.has_all_its_keys(place) {
        return Err(KEYS_MAX_REACHED.to_owned());
    }
    within_rate(store, database, row, spec)
}

/// The same of a request that another node has sent for its client. It counts there, too; here it counts with those of all other nodes, so
/// that a database is asked no more often however many nodes its clients come to. How many keys there may be is judged where it writes.
pub(super) fn of_other_node_within_bounds(
    store: &NodeShared,
    spec: &CommandSpec,
    args: &[&[u8]],
) -> Result<(), String> {
    let known = store.known();
    let first = spec.keys(args).ok().and_then(|mut places| places.next()).and_then(|at| args.get(at));
    let database = first.and_then(|key| Database::of_key(key)).map(|place| known.databases.database_at(place));
    match database.and_then(|database| Some((database, known.databases.row(database)?))) {
        Some((database, row)) => within_rate(store, database, row, spec),
        None => Ok(()),
    }
}

fn within_rate(store: &NodeShared, database: Database, row: &DatabaseRow, spec: &CommandSpec) -> Result<(), String> {
    match row.ops_max.filter(|_| spec.has_keys()) {
        Some(rate) if !store.database_rates.takes(database, rate) => {
            Err("TRYAGAIN the database is asked more often than it may be ('ops-max' of `ctl database set`)."
                .to_owned())
        }
        _ => Ok(()),
    }
}

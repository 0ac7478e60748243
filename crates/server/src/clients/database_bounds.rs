//! The bounds of single databases: keys, and operations a second.

use crate::shared::NodeShared;
use cluster::DatabaseRow;
use node::KEYS_MAX_REACHED;
use node::session::Host as _;
use resp::table::{CommandSpec, flag};
use vocab::Database;

/// An error if a database may not take a command now, by what is set of it.
pub(super) fn within_bounds(
    store: &NodeShared,
    (database, place): (Database, Database),
    row: &DatabaseRow,
    spec: &CommandSpec,
) -> Result<(), String> {
    if row.keys_max.is_some() && spec.has(flag::DENYOOM) && store.has_all_its_keys(place) {
        return Err(KEYS_MAX_REACHED.to_owned());
    }
    match row.ops_max.filter(|_| spec.has_keys()) {
        Some(rate) if !store.database_rates.takes(database, rate) => {
            Err("TRYAGAIN the database is asked more often than it may be ('ops-max' of `ctl database set`)."
                .to_owned())
        }
        _ => Ok(()),
    }
}

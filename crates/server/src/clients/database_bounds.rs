//! What is set for single databases bounds: keys, and operations a second.

use crate::shared::NodeShared;
use cluster::DatabaseRow;
use resp::table::{CommandSpec, flag};
use vocab::Database;

/// An error if a database may not take a command now, by what is set of it.
pub(super) fn within_bounds(
    store: &NodeShared,
    (database, place): (Database, Database),
    row: &DatabaseRow,
    spec: &CommandSpec,
) -> Result<(), String> {
    if let Some(keys_max) = row.keys_max.filter(|_| spec.has(flag::DENYOOM)) {
        let known = store.known();
        let handle = known.shard_of(place.slot()).and_then(|shard| known.handle(shard));
        if handle.is_some_and(|handle| handle.database_keys_in_slot(place.slot()) >= keys_max) {
            return Err("OOM the database has as many keys as it may ('keys-max' of `ctl database set`).".to_owned());
        }
    }
    match row.ops_max.filter(|_| spec.has_keys()) {
        Some(rate) if !store.database_rates.takes(database, rate) => {
            Err("TRYAGAIN the database is asked more often than it may be ('ops-max' of `ctl database set`)."
                .to_owned())
        }
        _ => Ok(()),
    }
}

//! Clients of a cluster that name keys of databases as they are stored: restores and imports do.

use crate::shared::NodeShared;
use resp::table::{CommandSpec, behaviour};
use vocab::{Namespace, is_database_key};

/// Whether a request writes a key of a cluster database by its stored name, as restores and imports do, in a store that has begun none.
#[inline]
pub(super) fn names_unknown_database(spec: &CommandSpec, args: &[&[u8]], store: &NodeShared) -> bool {
    let is_one = |arg: &&[u8]| is_database_key(arg) && matches!(Namespace::of_key(arg), Some(Namespace::Cluster(_)));
    (spec.is_write() || spec.does(behaviour::RUNS_SCRIPT))
        && args.iter().skip(1).any(is_one)
        && !store.has_cluster_databases()
}

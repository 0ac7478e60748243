//! Which handler runs which command: looked up once, then by the command's id.

use super::call::{Foretells, Handler, StoreHandler};
use super::{counters, dump, expiry, hash, keyspace, kv, lcs, object, random_key, ranges, scan, string};
use resp::table::{self, CommandId, CommandSpec};
use std::sync::OnceLock;

/// The handlers of one command; a command that the session answers itself has neither.
#[derive(Clone, Copy, Default)]
pub struct Handlers {
    /// Over one shard's data.
    pub data: Option<Handler>,
    /// Over the whole store.
    pub store: Option<StoreHandler>,
    /// The answer of a write where its arguments alone tell it.
    pub(crate) foretells: Option<Foretells>,
}

/// The handlers of a command.
#[must_use]
pub fn handlers(id: CommandId) -> Handlers {
    static TABLE: OnceLock<Vec<Handlers>> = OnceLock::new();
    let of = |spec: &CommandSpec| {
        // One handler may serve all subcommands of a container.
        let container = spec.container.and_then(|container| handler(container.spec().name));
        Handlers {
            data: handler(spec.name).or(container),
            store: store_handler(spec.name),
            foretells: string::foretells(spec.name),
        }
    };
    let table = TABLE.get_or_init(|| table::all().iter().map(of).collect());
    table.get(id.index()).copied().unwrap_or_default()
}

/// The handler of a command over one shard's data, by its upper-case name.
#[must_use]
pub fn handler(name: &str) -> Option<Handler> {
    let families = [
        string::handler,
        counters::handler,
        hash::handler,
        kv::get_put_handler,
        kv::exec_handler,
        keyspace::handler,
        expiry::handler,
        ranges::handler,
        lcs::handler,
        object::handler,
        dump::handler,
    ];
    families.iter().find_map(|family| family(name))
}

/// The handler of a command over the whole store, by its upper-case name.
#[must_use]
pub fn store_handler(name: &str) -> Option<StoreHandler> {
    [scan::handler, kv::range_handler, random_key::handler].iter().find_map(|family| family(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_data_command_has_a_handler() {
        use resp::table::Group;
        let groups = [Group::String, Group::Hash, Group::Generic, Group::Basalt];
        let missing: Vec<_> = table::all()
            .iter()
            .filter(|spec| groups.contains(&spec.group) && !spec.is_container())
            .filter(|spec| !CONTAINERS.iter().any(|container| spec.name.starts_with(container)))
            .filter(|spec| handlers(spec.id).data.is_none() && handlers(spec.id).store.is_none())
            .map(|spec| spec.name)
            .collect();
        assert!(missing.iter().all(|name| SESSION.contains(name)), "without a handler: {missing:?}");
    }

    /// Commands of these groups that the session answers.
    const SESSION: &[&str] = &["KV.CONSISTENCY", "KV.DURABILITY", "OBJECT|HELP", "WAIT", "WAITAOF"];

    /// Commands that the session or the shell answers, with all that they contain.
    const CONTAINERS: &[&str] = &["KV.ADMIN|", "KV.BACKUP|"];
}

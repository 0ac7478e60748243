//! From a request to where it runs: its shard, the whole store, or the session itself.

use super::handlers::{CallHandler, PoolCommand, Takes, has_word};
use super::routed::{KeyTarget, Routed};
use super::{admin, backup, cluster_databases, copy, databases, functions, long_list, migrate, scripts};
use crate::shared::NodeShared;
use node::RequestKeys;
use node::command::{Handler, ReadHandler, handler};
use node::session::{Host, Keyspace, check_flush, flushed_database};
use resp::table::{self, CommandId, CommandSpec, behaviour};
use std::borrow::Cow;
use std::sync::OnceLock;
use vocab::Slot;

/// Finds where a command over data runs. The error is the text of the reply.
pub(crate) fn route(
    store: &NodeShared,
    spec: &'static CommandSpec,
    args: &[&[u8]],
) -> Result<Routed, Cow<'static, str>> {
    if spec.does(behaviour::CLEARS_STORE) {
        if spec.does(behaviour::EMPTIES_DATABASE) && store.has_cluster_databases() {
            flushed_database(args)?;
            return Ok(Routed::Pool { handler: PoolCommand::Writes(cluster_databases::empty_one) });
        }
        check_flush(args)?;
        return Ok(Routed::Clear);
    }
    let of_server = server_handlers(spec.id);
    if let Some(handler) = of_server.pool
        && of_server.takes.takes(store, args)
    {
        return Ok(Routed::Pool { handler });
    }
    match handler(spec).ok_or_else(|| format!("ERR {} is not a command over data", spec.name))? {
        Handler::Read(handler) => Ok(Routed::Read(target(store, spec, args)?, handler)),
        Handler::Write(_) => Ok(Routed::Write(target(store, spec, args)?)),
        Handler::WriteIf(words, ..) if has_word(args, words) => Ok(Routed::Write(target(store, spec, args)?)),
        Handler::WriteIf(_, _, begin) => Ok(Routed::Read(target(store, spec, args)?, ReadHandler::Steps(begin))),
        Handler::Script(command) => scripts::route(store, spec, command, args),
        Handler::Store(handler) => Ok(Routed::Store { handler, slot: handler.slot(args) }),
    }
}

/// Whose rules say whether the keys of a command may be of several slots.
fn keyspace_of(spec: &CommandSpec) -> Keyspace {
    if spec.does(behaviour::NAMES_DATABASES) { Keyspace::Stored } else { Keyspace::Cluster }
}

#[inline]
fn target(store: &NodeShared, spec: &CommandSpec, args: &[&[u8]]) -> Result<KeyTarget, Cow<'static, str>> {
    let RequestKeys { slot, wider, hashes } =
        RequestKeys::within(spec, args, |span| store.share_shard(span, keyspace_of(spec)))?;
    let slot = slot.unwrap_or_else(|| slot_without_keys(store, spec));
    Ok(KeyTarget { shard: store.known().shard_of(slot), slot, wider, keys: hashes })
}

/// The slot of a request without keys. One of a command that has keys, of which none are found (`LMPOP 0 …`), is refused by its handler: on
/// any shard, so on one that this node leads, rather than wait for the leader of another.
#[cold]
fn slot_without_keys(store: &NodeShared, spec: &CommandSpec) -> Slot {
    let known = store.known();
    let led = known.data_handles().find(|handle| spec.has_keys() && handle.leading());
    led.map_or(Slot(0), |handle| Slot(handle.slots().0))
}

/// What runs the commands that need the server itself.
#[derive(Clone, Copy, Default)]
pub(super) struct ServerHandlers {
    /// For a client, in the pool.
    pub(super) pool: Option<PoolCommand>,
    /// Which requests.
    takes: Takes,
    /// For another node, of a container's subcommands all.
    pub(super) call: Option<CallHandler>,
}

/// The server's handlers of a command.
pub(super) fn server_handlers(id: CommandId) -> ServerHandlers {
    static TABLE: OnceLock<Vec<ServerHandlers>> = OnceLock::new();
    let plain = [backup::handler, admin::handler, admin::users_handler, scripts::handler, functions::handler];
    let writers = [copy::handler, databases::handler, cluster_databases::handler, long_list::handler, migrate::handler];
    let of = |spec: &CommandSpec| ServerHandlers {
        pool: plain
            .iter()
            .find_map(|family| family(spec.name))
            .map(PoolCommand::Plain)
            .or_else(|| writers.iter().find_map(|family| family(spec.name)).map(PoolCommand::Writes)),
        takes: [databases::takes, cluster_databases::takes, copy::takes, long_list::takes]
            .iter()
            .find_map(|of| of(spec.name))
            .unwrap_or_default(),
        call: [
            backup::call_handler,
            admin::call_handler,
            admin::call_users_handler,
            scripts::call_handler,
            functions::call_handler,
        ]
        .iter()
        .find_map(|of| of(spec.name)),
    };
    let table = TABLE.get_or_init(|| table::all().iter().map(of).collect());
    table.get(id.index()).copied().unwrap_or_default()
}

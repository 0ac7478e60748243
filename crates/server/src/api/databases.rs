//! What is asked of all databases together.

use super::handlers::{PoolHandler, Takes};
use super::writer::ShardWriter;
use crate::shared::NodeShared;
use node::EncodedCommand;
use node::read::Refusal;
use resp::Reply;
use resp::table::{self, CommandSpec};
use std::sync::Arc;
use vocab::Database;

/// The command that removes the keys of a database, and without arguments those of all.
const EMPTY: &str = "KV.EMPTY";
const LATE: &str = "TIMEOUT a database was not emptied in time: that may be done later, or never";

pub(super) fn handler(name: &str) -> Option<PoolHandler> {
    (name == EMPTY).then_some(empty_all as PoolHandler)
}

/// Which requests of the command with that name go to the pool.
pub(super) fn takes(name: &str) -> Option<Takes> {
    (name == EMPTY).then_some(Takes::Bare)
}

/// FLUSHALL of a client of a database: one database after the other.
fn empty_all(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    let empty = || {
        let spec = table::resolve(args)?;
        let count = store.config.databases();
        (0..count).filter_map(Database::of_number).try_for_each(|database| empty_one(store, spec, database))
    };
    match empty() {
        Ok(()) => reply.ok(),
        Err(text) => reply.error(&text),
    }
}

fn empty_one(store: &Arc<NodeShared>, spec: &'static CommandSpec, database: Database) -> Result<(), String> {
    let slot = database.slot();
    let known = store.known();
    let shard = known.shard_of(slot).ok_or_else(|| Refusal::NoStore.to_string())?;
    let prefix = database.prefix();
    if known.handle(shard.0 as usize).is_none_or(|handle| !handle.leading()) {
        return Err(Refusal::NoLeader.to_string());
    }
    let mut writer = ShardWriter::new(store.clone());
    let command = EncodedCommand::of(spec, &[spec.name.as_bytes(), &prefix]);
    writer.submit_command(shard, slot, command)?;
    let answer = writer.await_answers().pop().ok_or(LATE)?;
    match answer.strip_prefix(b"-") {
        Some(text) => Err(String::from_utf8_lossy(text).trim_end().to_owned()),
        None => Ok(()),
    }
}

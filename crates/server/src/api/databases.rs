//! What is asked of all databases together.

use super::handlers::{PoolHandler, Takes};
use super::writer::ShardWriter;
use crate::peers::ask;
use crate::shared::NodeShared;
use node::EncodedCommand;
use node::read::Refusal;
use resp::table::{self, CommandSpec};
use resp::{Reply, Value};
use std::sync::Arc;
use vocab::{Database, slot_of};

/// The command that removes the keys of a database, and without arguments those of all.
const EMPTY: &str = "KV.EMPTY";
const LATE: &str = "TIMEOUT a database was not emptied in time: that may be done later, or never";

pub(super) fn handler(name: &str) -> Option<PoolHandler> {
    match name {
        EMPTY => Some(empty_all as PoolHandler),
        "KV.TRANSFER" => Some(transfer as PoolHandler),
        _ => None,
    }
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

/// MOVE, and COPY to another database. Where it moves, what others write to the key meanwhile may be lost.
fn transfer(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    match transferred(store, args) {
        Ok(is_done) => reply.int(i64::from(is_done)),
        Err(text) => reply.error(&text),
    }
}

/// Whether there was something to copy, and room for it.
fn transferred(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<bool, String> {
    let [_, source, destination, words @ ..] = args else { return Err("ERR syntax error".to_owned()) };
    let Value::Bulk(dump) = run_at_leader(store, source, &[b"DUMP", source])? else { return Ok(false) };
    let expiry = match run_at_leader(store, source, &[b"PEXPIRETIME", source])? {
        Value::Int(at_ms) if at_ms >= 0 => at_ms.to_string(),
        // It has none, or is gone by now.
        _ => "0".to_owned(),
    };
    let mut restore: Vec<&[u8]> = vec![b"RESTORE", destination, expiry.as_bytes(), &dump, b"ABSTTL"];
    restore.extend(words.iter().filter(|word| word.eq_ignore_ascii_case(b"REPLACE")));
    match run_at_leader(store, destination, &restore)? {
        Value::Error(text) if text.starts_with("BUSYKEY") => return Ok(false),
        Value::Error(text) => return Err(text),
        _ => {}
    }
    if words.iter().any(|word| word.eq_ignore_ascii_case(b"MOVE")) {
        run_at_leader(store, source, &[b"DEL", source])?;
    }
    Ok(true)
}

/// Runs a command about a key on the node that leads its shard.
pub(super) fn run_at_leader(store: &Arc<NodeShared>, key: &[u8], args: &[&[u8]]) -> Result<Value, String> {
    let known = store.known();
    let shard = known.shard_of(slot_of(key)).ok_or_else(|| Refusal::NoStore.to_string())?;
    let answer = if known.handle(shard.0 as usize).is_some_and(|handle| handle.leading()) {
        (store.own_command)(store, args)
    } else {
        ask(store, store.leader_of(shard).ok_or_else(|| Refusal::NoLeader.to_string())?, args)?
    };
    match resp::decode(&answer) {
        Ok(Some((value, _))) => Ok(value),
        _ => Err(LATE.to_owned()),
    }
}

fn empty_one(store: &Arc<NodeShared>, spec: &'static CommandSpec, database: Database) -> Result<(), String> {
    let slot = database.slot();
    let known = store.known();
    let shard = known.shard_of(slot).ok_or_else(|| Refusal::NoStore.to_string())?;
    let prefix = database.prefix();
    let args: [&[u8]; 2] = [spec.name.as_bytes(), &prefix];
    let answer = if known.handle(shard.0 as usize).is_some_and(|handle| handle.leading()) {
        let mut writer = ShardWriter::new(store.clone());
        writer.submit_command(shard, slot, EncodedCommand::of(spec, &args))?;
        writer.await_answers().pop().ok_or(LATE)?
    } else {
        let leader = store.leader_of(shard).ok_or_else(|| Refusal::NoLeader.to_string())?;
        ask(store, leader, &args)?
    };
    match answer.strip_prefix(b"-") {
        Some(text) => Err(String::from_utf8_lossy(text).trim_end().to_owned()),
        None => Ok(()),
    }
}

//! KV.BACKUP: a view of the whole store as of one moment, to be read page by page while the store goes on.
//!
//! Every leader sets a write barrier until all have one; each takes a snapshot as soon as what it had proposed
//! is applied. Since no write is answered anywhere between the last barrier and the end of the first, a write that is in one of
//! the snapshots has nothing before it that another one lacks. Then writes go on; clients have waited for milliseconds.
//!
//! Between nodes, as calls to the leader of a shard: `KV.BACKUP HOLD id milliseconds moment`, answered with
//! `[node, index, keys, term]`, `KV.BACKUP CONFIRM id term` and `KV.BACKUP DROP id`.

use super::handlers::{CallHandler, PoolHandler};
use crate::mailbox::{WorkerMessage, WriteBarrier};
use crate::os::steady_us;
use crate::peers::call_leaders;
use crate::shared::{BackupKey, BackupPoint, NodeShared};
use node::command::{backup_page, conclude_on};
use resp::{Proto, Reply, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{NodeId, Prng, ShardId, limits};

/// How long a write barrier stands at most.
const BARRIER_TIME: Duration = Duration::from_millis(1000);
/// The deadline for all barriers to stand; below `BARRIER_TIME`, so that the first still stands.
const STANDING_WITHIN: Duration = Duration::from_millis(800);
/// Times that it is tried.
const TRIES: usize = 3;

/// A shard of a backup, as its leader has told.
struct Part {
    shard: ShardId,
    node: NodeId,
    index: u64,
    keys: u64,
    term: u64,
}

/// A call between nodes, read.
struct Call<'a> {
    word: &'a str,
    numbers: [Option<u64>; 3],
}

impl<'a> Call<'a> {
    fn read(args: &[&'a [u8]]) -> Self {
        let word = |at: usize| args.get(at).and_then(|word| std::str::from_utf8(word).ok());
        let number = |at: usize| word(at).and_then(|word| word.parse::<u64>().ok());
        Self { word: word(1).unwrap_or_default(), numbers: [number(2), number(3), number(4)] }
    }
}

/// The handler of one of these commands, by its upper-case name.
pub(crate) fn handler(name: &str) -> Option<PoolHandler> {
    Some(match name {
        "KV.BACKUP|BEGIN" => begin,
        "KV.BACKUP|PAGE" => page,
        "KV.BACKUP|END" => end,
        _ => return None,
    })
}

/// What runs a command of that name for another node.
pub(crate) fn call_handler(name: &str) -> Option<CallHandler> {
    (name == "KV.BACKUP").then_some(backup_call as CallHandler)
}

/// `KV.BACKUP BEGIN` → `[id, moment in ms, store, epoch, [[shard, slots, index, keys, node, address], …]]`
fn begin(store: &Arc<NodeShared>, _args: &[&[u8]], reply: &mut Reply) {
    let mut problem = String::new();
    for _ in 0..TRIES {
        match try_begin(store, reply) {
            Ok(()) => return,
            Err(e) => problem = e,
        }
    }
    reply.error(&format!("TRYAGAIN no backup was begun: {problem}"));
}

fn try_begin(store: &Arc<NodeShared>, reply: &mut Reply) -> Result<(), String> {
    let known = store.known();
    let map = known.map.clone().ok_or("this node belongs to no store yet (basalt ctl init)")?;
    let shards: Vec<ShardId> = map.data_shards().filter(|(_, info)| !info.slots.is_empty()).map(|(id, _)| id).collect();
    let id = Prng::new(store.node().0 ^ steady_us()).next_u64();
    let at_ms = store.now_ms();
    let text = |n: u64| n.to_string().into_bytes();
    let (id_text, at_text, time_text) = (text(id), text(at_ms), text(BARRIER_TIME.as_millis() as u64));
    let started = Instant::now();
    let begin: [&[u8]; 5] = [b"KV.BACKUP", b"HOLD", &id_text, &time_text, &at_text];
    let answers = call_all_leaders(store, &shards, &begin);
    let took = started.elapsed();
    let parts: Result<Vec<Part>, String> =
        shards.iter().zip(answers).map(|(shard, answer)| Part::read(*shard, &answer?)).collect();
    let outcome = match &parts {
        Err(e) => Err(e.clone()),
        Ok(_) if took > STANDING_WITHIN => Err(format!("it took {} ms until all shards held still", took.as_millis())),
        Ok(parts) => confirm(store, &id_text, parts),
    };
    let parts = match (outcome, parts) {
        (Ok(()), Ok(parts)) if store.known().map.as_ref().is_some_and(|now| same_slots(now, &map)) => parts,
        (outcome, _) => {
            call_all_leaders(store, &shards, &[b"KV.BACKUP", b"DROP", &id_text]);
            return Err(outcome.err().unwrap_or_else(|| "the shards changed meanwhile".to_owned()));
        }
    };
    reply.array(5);
    reply.bulk(&id_text);
    reply.int(at_ms as i64);
    reply.bulk(map.store.to_string().as_bytes());
    reply.int(map.epoch.0 as i64);
    reply.array(parts.len());
    for part in parts {
        let slots = map.shards[&part.shard].slots.iter().map(|(first, last)| format!("{first}-{last}"));
        let address = map.nodes.get(&part.node).map(|info| format!("{}:{}", info.client_host, info.client_port));
        let tls_port = store.tls_port_of(part.node);
        reply.array(6 + usize::from(tls_port > 0));
        reply.int(i64::from(part.shard.0));
        reply.bulk(slots.collect::<Vec<_>>().join(",").as_bytes());
        reply.int(part.index as i64);
        reply.int(part.keys as i64);
        reply.bulk(part.node.to_string().as_bytes());
        reply.bulk(address.unwrap_or_default().as_bytes());
        if tls_port > 0 {
            reply.int(i64::from(tls_port));
        }
    }
    Ok(())
}

/// Whether both maps share out the slots alike.
fn same_slots(a: &cluster::Map, b: &cluster::Map) -> bool {
    a.shards.iter().map(|(id, info)| (id, &info.slots)).eq(b.shards.iter().map(|(id, info)| (id, &info.slots)))
}

/// Lets writes go on, and asks whether every leader has led all the while.
fn confirm(store: &Arc<NodeShared>, id: &[u8], parts: &[Part]) -> Result<(), String> {
    let shards: Vec<ShardId> = parts.iter().map(|part| part.shard).collect();
    let terms = call_all_leaders(store, &shards, &[b"KV.BACKUP", b"CONFIRM", id]);
    for (part, answer) in parts.iter().zip(terms) {
        match value(&answer?) {
            Some(Value::Int(term)) if term as u64 == part.term => {}
            other => return Err(format!("shard {} changed its leader meanwhile ({other:?})", part.shard)),
        }
    }
    Ok(())
}

fn value(answer: &[u8]) -> Option<Value> {
    Some(resp::decode(answer).ok()??.0)
}

impl Part {
    fn read(shard: ShardId, answer: &[u8]) -> Result<Self, String> {
        let bad = || format!("shard {shard}: {}", String::from_utf8_lossy(answer).trim_end());
        let Some(Value::Array(fields)) = value(answer) else { return Err(bad()) };
        let number = |at: usize| match fields.get(at) {
            Some(Value::Int(n)) => Ok(*n as u64),
            _ => Err(bad()),
        };
        Ok(Self { shard, node: NodeId(number(0)?), index: number(1)?, keys: number(2)?, term: number(3)? })
    }
}

/// `KV.BACKUP PAGE id shard cursor [bytes]` → see `node::command::backup_page`
fn page(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    let number = |at: usize| args.get(at).and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
    let (Some(id), Some(shard)) = (number(2), number(3).and_then(|shard| u32::try_from(shard).ok())) else {
        return reply.error("ERR value is not an integer or out of range");
    };
    let bytes = number(5).unwrap_or(1 << 20).clamp(1, limits::BACKUP_PAGE_BYTES_MAX as u64) as usize;
    let key = BackupKey { backup: id, shard: ShardId(shard) };
    let found = store.backups.read(key, |taken| (taken.handle.clone(), taken.snapshot.clone(), taken.at_ms));
    let Some((handle, snapshot, at_ms)) = found else {
        return reply.error("ERR this node holds no such shard of such a backup: it was restarted, or let it go after ten minutes without a page");
    };
    let mark = reply.buf.len();
    let mut snapshot = snapshot.lock();
    let done = backup_page(&handle, &mut **snapshot, at_ms, args[4], bytes, reply);
    conclude_on(&handle, done, reply, mark);
}

/// `KV.BACKUP END id`: lets go what this node holds for it.
fn end(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    match std::str::from_utf8(args[2]).ok().and_then(|id| id.parse::<u64>().ok()) {
        Some(id) => {
            store.backups.end(id);
            reply.ok();
        }
        None => reply.error("ERR value is not an integer or out of range"),
    }
}

/// Makes one call to the leaders of all these shards, at the same time.
fn call_all_leaders(store: &Arc<NodeShared>, shards: &[ShardId], args: &[&[u8]]) -> Vec<Result<Vec<u8>, String>> {
    let leads = |shard: &&ShardId| store.known().handle(**shard).is_some_and(|handle| handle.leading());
    let (here, away): (Vec<ShardId>, Vec<ShardId>) = shards.iter().partition(leads);
    // Begun here first, asked elsewhere meanwhile.
    here.iter().for_each(|shard| begin_backup_call(store, *shard, args));
    let mut answers: HashMap<ShardId, Result<Vec<u8>, String>> = HashMap::new();
    answers.extend(away.iter().copied().zip(call_leaders(store, &away, args)));
    answers.extend(here.iter().map(|shard| (*shard, Ok(end_backup_call(store, *shard, args)))));
    shards.iter().map(|shard| answers.remove(shard).unwrap_or_else(|| Err("not asked".to_owned()))).collect()
}

/// What another node, or this one, asks of a shard that is led here: `args` begin with KV.BACKUP.
fn backup_call(store: &Arc<NodeShared>, shard: ShardId, args: &[&[u8]]) -> Vec<u8> {
    begin_backup_call(store, shard, args);
    end_backup_call(store, shard, args)
}

/// Sends what a worker is to do.
fn begin_backup_call(store: &NodeShared, shard: ShardId, args: &[&[u8]]) {
    let Call { word, numbers } = Call::read(args);
    match (word, numbers) {
        ("HOLD", [Some(backup), Some(ms), Some(at_ms)]) if store.backups.begin(BackupKey { backup, shard }) => {
            let lasts = Duration::from_millis(ms).min(BARRIER_TIME);
            store
                .mailboxes
                .tell_owner(shard, WorkerMessage::BeginBarrier(WriteBarrier { backup, shard, at_ms, lasts }));
        }
        ("CONFIRM" | "DROP", _) => store.mailboxes.tell_owner(shard, WorkerMessage::EndBarrier(shard)),
        _ => {}
    }
}

/// Waits for what the worker has done, and answers it.
fn end_backup_call(store: &Arc<NodeShared>, shard: ShardId, args: &[&[u8]]) -> Vec<u8> {
    let mut reply = Reply::new(Proto::Resp3);
    let Call { word, numbers } = Call::read(args);
    match (word, numbers) {
        ("HOLD", [Some(backup), Some(ms), Some(_)]) => {
            let key = BackupKey { backup, shard };
            match store.backups.wait(key, Duration::from_millis(ms).min(BARRIER_TIME)) {
                Ok(BackupPoint { index, keys, term }) => {
                    reply.array(4);
                    [store.node().0, index, keys, term].iter().for_each(|n| reply.int(*n as i64));
                }
                Err(text) => reply.error(text),
            }
        }
        ("CONFIRM", [Some(_), ..]) => {
            let handle = store.known().handle(shard).cloned();
            match handle.filter(|handle| store.access().confirm_leader(handle, steady_us())) {
                Some(handle) => reply.int(handle.status().term as i64),
                None => reply.error("CLUSTERDOWN this node does not lead the shard"),
            }
        }
        ("DROP", [Some(backup), ..]) => {
            store.backups.drop_shard(BackupKey { backup, shard });
            reply.ok();
        }
        _ => reply.error("ERR syntax error"),
    }
    reply.buf
}

//! KV.BACKUP: a view of the whole store as of one moment, to be read page by page while the store goes on.
//!
//! Every leader holds its shard's writes back until all of them do; each takes a snapshot as soon as what it had proposed
//! is applied. Since no write is answered anywhere between the last hold and the first release, a write that is in one of
//! the snapshots has nothing before it that another one lacks. Then writes go on; clients have waited for milliseconds.
//!
//! Between nodes, as calls to the leader of a shard: `KV.BACKUP HOLD id milliseconds moment`, answered with
//! `[node, index, keys, term]`, `KV.BACKUP CONFIRM id term` and `KV.BACKUP DROP id`.

use crate::inbox::Message;
use crate::requests::PoolHandler;
use crate::store::{Store, now_ms, steady_us};
use crate::worker::Worker;
use node::ShardView;
use node::command::backup_page;
use resp::{Proto, Reply, Value};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use storage::Snapshot;
use vocab::{NodeId, Prng, ShardId, limits};

/// For how long writes are held back at most.
const HOLD: Duration = Duration::from_millis(1000);
/// When the last hold has to be there after the first was asked for, so that the first surely still lasts.
const HELD_WITHIN: Duration = Duration::from_millis(800);
/// Times that it is tried.
const TRIES: usize = 3;
/// After so long without being read, a backup's snapshots are let go.
const IDLE: Duration = Duration::from_secs(600);

/// A shard as of a backup's moment.
struct Held {
    view: Arc<ShardView>,
    /// Taken out while a page is read of it.
    snapshot: Arc<Mutex<Box<dyn Snapshot>>>,
    at_ms: u64,
    keys: u64,
    index: u64,
    term: u64,
    used: Instant,
}

/// What became of a hold.
enum Hold {
    Waiting,
    Failed(&'static str),
    Done(Held),
}

/// The snapshots that this node holds for backups.
#[derive(Default)]
pub(crate) struct Backups {
    held: Mutex<HashMap<(u64, ShardId), Hold>>,
    changed: Condvar,
}

impl Backups {
    fn lock(&self) -> MutexGuard<'_, HashMap<(u64, ShardId), Hold>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, key: (u64, ShardId), hold: Hold) {
        let mut held = self.lock();
        // Whoever asked may have given up.
        if let Some(entry) = held.get_mut(&key) {
            *entry = hold;
        }
        drop(held);
        self.changed.notify_all();
    }

    /// Lets go what nobody reads any more.
    pub(crate) fn sweep(&self) {
        self.lock().retain(|_, hold| !matches!(hold, Hold::Done(held) if held.used.elapsed() > IDLE));
    }
}

/// A hold that a worker is asked for.
pub(crate) struct Asked {
    backup: u64,
    shard: ShardId,
    at_ms: u64,
    hold: Duration,
}

impl Worker {
    /// Holds a shard's writes back.
    pub(crate) fn begin_hold(&mut self, asked: Asked) {
        let now = self.now;
        let held = self.core.shard_mut(asked.shard).is_some_and(|shard| shard.hold(now, asked.hold.as_micros() as u64));
        if held {
            self.holds.push(asked);
            self.check_holds();
        } else {
            let key = (asked.backup, asked.shard);
            self.store.backups.settle(key, Hold::Failed("CLUSTERDOWN this node does not lead the shard"));
        }
    }

    /// Takes the snapshots of shards whose writes are held back and drained.
    pub(crate) fn check_holds(&mut self) {
        let now = self.now;
        for asked in std::mem::take(&mut self.holds) {
            let key = (asked.backup, asked.shard);
            let Some(shard) = self.core.shard(asked.shard) else { continue };
            match shard.is_drained(now) {
                None => self.store.backups.settle(key, Hold::Failed("TRYAGAIN the writes could not be held back")),
                Some(false) => self.holds.push(asked),
                Some(true) => {
                    let view = shard.view().clone();
                    let snapshot = view.snapshot();
                    let held = Held {
                        keys: view.key_count(),
                        term: view.status().term,
                        index: snapshot.index(),
                        snapshot: Arc::new(Mutex::new(snapshot)),
                        view,
                        at_ms: asked.at_ms,
                        used: Instant::now(),
                    };
                    self.store.backups.settle(key, Hold::Done(held));
                }
            }
        }
    }

    /// A shard's writes go on.
    pub(crate) fn end_hold(&mut self, shard: ShardId) {
        if let Some(shard) = self.core.shard_mut(shard) {
            shard.release();
        }
        self.core.look_at(shard);
    }
}

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

/// `KV.BACKUP BEGIN` → `[id, moment in ms, store, epoch, [[shard, slots, index, keys, node, address], …]]`
fn begin(store: &Arc<Store>, _args: &[&[u8]], reply: &mut Reply) {
    let mut problem = String::new();
    for _ in 0..TRIES {
        match try_begin(store, reply) {
            Ok(()) => return,
            Err(e) => problem = e,
        }
    }
    reply.error(&format!("TRYAGAIN no backup was begun: {problem}"));
}

fn try_begin(store: &Arc<Store>, reply: &mut Reply) -> Result<(), String> {
    let known = store.known();
    let map = known.map.clone().ok_or("this node belongs to no store yet (basalt ctl init)")?;
    let shards: Vec<ShardId> = map.data_shards().filter(|(_, info)| !info.slots.is_empty()).map(|(id, _)| id).collect();
    let id = Prng::new(store.node().0 ^ steady_us()).next_u64();
    let at_ms = now_ms();
    let text = |n: u64| n.to_string().into_bytes();
    let (id_text, at_text, hold_text) = (text(id), text(at_ms), text(HOLD.as_millis() as u64));
    let started = Instant::now();
    let hold: [&[u8]; 5] = [b"KV.BACKUP", b"HOLD", &id_text, &hold_text, &at_text];
    let answers = store.call_all_leaders(&shards, &hold);
    let took = started.elapsed();
    let parts: Result<Vec<Part>, String> =
        shards.iter().zip(answers).map(|(shard, answer)| Part::read(*shard, &answer?)).collect();
    let outcome = match &parts {
        Err(e) => Err(e.clone()),
        Ok(_) if took > HELD_WITHIN => Err(format!("it took {} ms until all shards held still", took.as_millis())),
        Ok(parts) => confirm(store, &id_text, parts),
    };
    let parts = match (outcome, parts) {
        (Ok(()), Ok(parts)) if store.known().map.as_ref().is_some_and(|now| same_slots(now, &map)) => parts,
        (outcome, _) => {
            store.call_all_leaders(&shards, &[b"KV.BACKUP", b"DROP", &id_text]);
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
        reply.array(6);
        reply.int(i64::from(part.shard.0));
        reply.bulk(slots.collect::<Vec<_>>().join(",").as_bytes());
        reply.int(part.index as i64);
        reply.int(part.keys as i64);
        reply.bulk(part.node.to_string().as_bytes());
        reply.bulk(address.unwrap_or_default().as_bytes());
    }
    Ok(())
}

/// Whether both maps share out the slots alike.
fn same_slots(a: &cluster::Map, b: &cluster::Map) -> bool {
    a.shards.iter().map(|(id, info)| (id, &info.slots)).eq(b.shards.iter().map(|(id, info)| (id, &info.slots)))
}

/// Lets writes go on, and asks whether every leader has led all the while.
fn confirm(store: &Arc<Store>, id: &[u8], parts: &[Part]) -> Result<(), String> {
    let shards: Vec<ShardId> = parts.iter().map(|part| part.shard).collect();
    let terms = store.call_all_leaders(&shards, &[b"KV.BACKUP", b"CONFIRM", id]);
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
fn page(store: &Arc<Store>, args: &[&[u8]], reply: &mut Reply) {
    let number = |at: usize| args.get(at).and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
    let (Some(id), Some(shard)) = (number(2), number(3).and_then(|shard| u32::try_from(shard).ok())) else {
        return reply.error("ERR value is not an integer or out of range");
    };
    let bytes = number(5).unwrap_or(1 << 20).clamp(1, limits::BACKUP_PAGE_BYTES_MAX as u64) as usize;
    let found = {
        let mut held = store.backups.lock();
        match held.get_mut(&(id, ShardId(shard))) {
            Some(Hold::Done(held)) => {
                held.used = Instant::now();
                Some((held.view.clone(), held.snapshot.clone(), held.at_ms))
            }
            _ => None,
        }
    };
    let Some((view, snapshot, at_ms)) = found else {
        return reply.error("ERR this node holds no such shard of such a backup: it was restarted, or let it go after ten minutes without a page");
    };
    let mark = reply.buf.len();
    let mut snapshot = snapshot.lock().unwrap_or_else(PoisonError::into_inner);
    let done = backup_page(&view, &mut **snapshot, at_ms, args[4], bytes, reply);
    crate::requests::conclude(done, reply, mark);
}

/// `KV.BACKUP END id`: lets go what this node holds for it.
fn end(store: &Arc<Store>, args: &[&[u8]], reply: &mut Reply) {
    match std::str::from_utf8(args[2]).ok().and_then(|id| id.parse::<u64>().ok()) {
        Some(id) => {
            store.backups.lock().retain(|(backup, _), _| *backup != id);
            reply.ok();
        }
        None => reply.error("ERR value is not an integer or out of range"),
    }
}

impl Store {
    /// The same call to the leaders of all these shards, at once.
    fn call_all_leaders(self: &Arc<Self>, shards: &[ShardId], args: &[&[u8]]) -> Vec<Result<Vec<u8>, String>> {
        let leads = |shard: &&ShardId| self.known().view(shard.0 as usize).is_some_and(|view| view.leading());
        let (here, away): (Vec<ShardId>, Vec<ShardId>) = shards.iter().partition(leads);
        // Begun here first, asked elsewhere meanwhile.
        here.iter().for_each(|shard| self.begin_backup_call(*shard, args));
        let mut answers: HashMap<ShardId, Result<Vec<u8>, String>> = HashMap::new();
        answers.extend(away.iter().copied().zip(self.call_leaders(&away, args)));
        answers.extend(here.iter().map(|shard| (*shard, Ok(self.end_backup_call(*shard, args)))));
        shards.iter().map(|shard| answers.remove(shard).unwrap_or_else(|| Err("not asked".to_owned()))).collect()
    }

    /// What another node, or this one, asks of a shard that is led here: `args` begin with KV.BACKUP.
    pub(crate) fn backup_call(self: &Arc<Self>, shard: ShardId, args: &[&[u8]]) -> Vec<u8> {
        self.begin_backup_call(shard, args);
        self.end_backup_call(shard, args)
    }

    /// Sends what a worker is to do.
    fn begin_backup_call(&self, shard: ShardId, args: &[&[u8]]) {
        let Call { word, numbers } = Call::read(args);
        match (word, numbers) {
            ("HOLD", [Some(backup), Some(ms), Some(at_ms)]) => {
                let mut held = self.backups.lock();
                held.retain(|_, hold| !matches!(hold, Hold::Done(held) if held.used.elapsed() > IDLE));
                if held.len() < limits::BACKUP_SNAPSHOTS_MAX {
                    held.insert((backup, shard), Hold::Waiting);
                    let hold = Duration::from_millis(ms).min(HOLD);
                    self.to_owner(shard, Message::Hold(Asked { backup, shard, at_ms, hold }));
                }
            }
            ("CONFIRM" | "DROP", _) => self.to_owner(shard, Message::EndHold(shard)),
            _ => {}
        }
    }

    /// Waits for what the worker has done, and answers it.
    fn end_backup_call(self: &Arc<Self>, shard: ShardId, args: &[&[u8]]) -> Vec<u8> {
        let mut reply = Reply::new(Proto::Resp3);
        let Call { word, numbers } = Call::read(args);
        match (word, numbers) {
            ("HOLD", [Some(backup), Some(ms), Some(_)]) => match self.wait_for_hold((backup, shard), ms) {
                Ok((index, keys, term)) => {
                    reply.array(4);
                    [self.node().0, index, keys, term].iter().for_each(|n| reply.int(*n as i64));
                }
                Err(text) => reply.error(text),
            },
            ("CONFIRM", [Some(_), ..]) => {
                let view = self.known().view(shard.0 as usize).cloned();
                match view.filter(|view| self.confirm_read(view, steady_us())) {
                    Some(view) => reply.int(view.status().term as i64),
                    None => reply.error("CLUSTERDOWN this node does not lead the shard"),
                }
            }
            ("DROP", [Some(backup), ..]) => {
                self.backups.lock().remove(&(backup, shard));
                reply.ok();
            }
            _ => reply.error("ERR syntax error"),
        }
        reply.buf
    }

    fn to_owner(&self, shard: ShardId, message: Message) {
        if let Some(inbox) = self.inbox(self.owner_of(shard.0 as usize)) {
            inbox.send(message);
        }
    }

    /// Index, keys and term of the snapshot of a shard whose writes are held back.
    fn wait_for_hold(&self, key: (u64, ShardId), ms: u64) -> Result<(u64, u64, u64), &'static str> {
        let until = Instant::now() + Duration::from_millis(ms).min(HOLD);
        let mut held = self.backups.lock();
        if !held.contains_key(&key) {
            return Err("BUSY this node holds as many snapshots for backups as it may");
        }
        loop {
            match held.get(&key) {
                Some(Hold::Done(done)) => return Ok((done.index, done.keys, done.term)),
                Some(Hold::Failed(text)) => {
                    let text = *text;
                    held.remove(&key);
                    return Err(text);
                }
                Some(Hold::Waiting) => {}
                None => return Err("TRYAGAIN the backup was given up"),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                held.remove(&key);
                return Err("TRYAGAIN the writes under way did not come to an end in time");
            }
            held = self.backups.changed.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

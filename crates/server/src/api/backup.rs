//! KV.BACKUP: a view of the whole store as of one moment, to be read page by page while the store goes on.
//!
//! Every leader sets a write barrier until all have one; each takes a snapshot as soon as what it had proposed
//! is applied. Since no write is answered anywhere between the last barrier and the end of the first, a write that is in one of
//! the snapshots has nothing before it that another one lacks. Then writes go on; clients have waited for milliseconds.
//!
//! The shards have all slots together, each once: which slots its snapshot is of each leader tells, whatever the map says.
//! No split is proposed while a barrier stands.
//!
//! Between nodes, as calls to the leader of a shard: `KV.BACKUP HOLD id milliseconds moment`, answered with
//! `[node, index, keys, term, slots]`, `KV.BACKUP CONFIRM id term` and `KV.BACKUP DROP id`.

use super::backup_shares::{Happened, Share, ask_leaders};
use super::handlers::{CallHandler, PoolHandler};
use super::scatter_gather::ranges_text;
use crate::mailbox::{WorkerMessage, WriteBarrier};
use crate::os::steady_us;
use crate::peers::call_known_leaders;
use crate::shared::{BackupKey, BackupPoint, NodeShared};
use node::command::{backup_page, conclude_on};
use node::read::Refusal;
use resp::{Proto, Reply, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{NodeId, Prng, ShardId, limits};

/// How long a write barrier stands at most.
const BARRIER_TIME: Duration = Duration::from_millis(1000);
/// The deadline for all barriers to stand; below `BARRIER_TIME`, so that the first still stands.
const STANDING_WITHIN: Duration = Duration::from_millis(800);
/// The deadline for all leaders to be confirmed.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(2);
/// Times that it is tried.
const TRIES: usize = 3;

/// A shard of a backup, as its leader has told.
struct Part {
    shard: ShardId,
    /// Ranges of slots, as the client is told them.
    slots: String,
    /// The leader has told them itself.
    tells_slots: bool,
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
    match Held::begin(store) {
        Ok(held) => held.tell(store, reply),
        Err(problem) => reply.error(&format!("TRYAGAIN no backup was begun: {problem}")),
    }
}

/// Snapshots of all shards as of one moment, which their leaders keep.
struct Held {
    id: Vec<u8>,
    at_ms: u64,
    parts: Vec<Part>,
}

impl Held {
    /// Has all shards hold still, and tries that again, a few times.
    fn begin(store: &Arc<NodeShared>) -> Result<Self, String> {
        let (mut happened, mut problem) = (Happened::default(), String::new());
        for _ in 0..TRIES {
            let shares = happened.settle(store)?;
            match Self::try_begin(store, &shares) {
                Ok(held) => return Ok(held),
                Err(e) => problem = e,
            }
        }
        Err(problem)
    }

    fn try_begin(store: &Arc<NodeShared>, shares: &[Share]) -> Result<Self, String> {
        let shards: Vec<ShardId> = shares.iter().map(|share| share.shard).collect();
        let text = |n: u64| n.to_string().into_bytes();
        let id = text(Prng::new(store.node().0 ^ steady_us()).next_u64());
        let at_ms = store.now_ms();
        let (at_text, time_text) = (text(at_ms), text(BARRIER_TIME.as_millis() as u64));
        let started = Instant::now();
        let hold: [&[u8]; 5] = [b"KV.BACKUP", b"HOLD", &id, &time_text, &at_text];
        let answers = call_all_leaders(store, &shards, &hold, STANDING_WITHIN);
        let parts = shares.iter().zip(answers).map(|(share, answer)| Part::read(share, &answer?));
        let parts = parts.collect::<Result<Vec<Part>, String>>().and_then(|parts| {
            check_untold(store, shares, &parts)?;
            let took = started.elapsed();
            if took > STANDING_WITHIN {
                return Err(format!("it took {} ms until all shards held still", took.as_millis()));
            }
            confirm(store, &id, &parts)?;
            Ok(parts)
        });
        match parts {
            Ok(parts) => Ok(Self { id, at_ms, parts }),
            Err(problem) => {
                call_all_leaders(store, &shards, &[b"KV.BACKUP", b"DROP", &id], STANDING_WITHIN);
                Err(problem)
            }
        }
    }

    fn tell(self, store: &NodeShared, reply: &mut Reply) {
        let known = store.known();
        let Some(map) = &known.map else { return reply.error(&Refusal::NoStore.to_string()) };
        reply.array(5);
        reply.bulk(&self.id);
        reply.int(self.at_ms as i64);
        reply.bulk(map.store.to_string().as_bytes());
        reply.int(map.epoch.0 as i64);
        reply.array(self.parts.len());
        for part in self.parts {
            let address = map.nodes.get(&part.node).map(|info| format!("{}:{}", info.client_host, info.client_port));
            let tls_port = store.tls_port_of(part.node);
            reply.array(6 + usize::from(tls_port > 0));
            reply.int(i64::from(part.shard.0));
            reply.bulk(part.slots.as_bytes());
            reply.int(part.index as i64);
            reply.int(part.keys as i64);
            reply.bulk(part.node.to_string().as_bytes());
            reply.bulk(address.unwrap_or_default().as_bytes());
            if tls_port > 0 {
                reply.int(i64::from(tls_port));
            }
        }
    }
}

/// Leaders of a release before do not tell which slots their snapshots are of: they are asked while their barriers stand, since
/// no split can be proposed before those end.
fn check_untold(store: &Arc<NodeShared>, shares: &[Share], parts: &[Part]) -> Result<(), String> {
    let untold = shares.iter().zip(parts).filter(|(_, part)| !part.tells_slots);
    let untold: Vec<Share> = untold.map(|(share, _)| share.clone()).collect();
    ask_leaders(store, &untold).into_iter().try_for_each(|answer| answer.map_err(|not| not.text))
}

/// Lets writes go on, and asks whether every leader has led all the while.
fn confirm(store: &Arc<NodeShared>, id: &[u8], parts: &[Part]) -> Result<(), String> {
    let shards: Vec<ShardId> = parts.iter().map(|part| part.shard).collect();
    let terms = call_all_leaders(store, &shards, &[b"KV.BACKUP", b"CONFIRM", id], CONFIRMED_WITHIN);
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
    /// Reads what the leader of a shard has told; an error if the shard had other slots.
    fn read(share: &Share, answer: &[u8]) -> Result<Self, String> {
        let shard = share.shard;
        let bad = || format!("shard {shard}: {}", String::from_utf8_lossy(answer).trim_end());
        let Some(Value::Array(fields)) = value(answer) else { return Err(bad()) };
        let number = |at: usize| match fields.get(at) {
            Some(Value::Int(n)) => Ok(*n as u64),
            _ => Err(bad()),
        };
        let (slots, told) = (share.slots_text(), fields.get(4).and_then(Value::as_bytes));
        if told.is_some_and(|told| told != slots.as_bytes()) {
            return Err(share.divided());
        }
        let (node, tells_slots) = (NodeId(number(0)?), told.is_some());
        Ok(Self { shard, slots, tells_slots, node, index: number(1)?, keys: number(2)?, term: number(3)? })
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

/// Makes one call to the leaders of all these shards, at the same time. Those on other nodes have that time to answer.
fn call_all_leaders(
    store: &Arc<NodeShared>,
    shards: &[ShardId],
    args: &[&[u8]],
    within: Duration,
) -> Vec<Result<Vec<u8>, String>> {
    let leads = |shard: &&ShardId| store.known().handle(**shard).is_some_and(|handle| handle.leading());
    let (here, away): (Vec<ShardId>, Vec<ShardId>) = shards.iter().partition(leads);
    // Begun here first, asked elsewhere meanwhile.
    here.iter().for_each(|shard| begin_backup_call(store, *shard, args));
    let mut answers: HashMap<ShardId, Result<Vec<u8>, String>> = HashMap::new();
    answers.extend(away.iter().copied().zip(call_known_leaders(store, &away, args, within)));
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
        ("CONFIRM" | "DROP", [Some(backup), ..]) => {
            store.mailboxes.tell_owner(shard, WorkerMessage::EndBarrier { backup, shard });
        }
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
                Ok(BackupPoint { index, keys, term, slots }) => {
                    reply.array(5);
                    [store.node().0, index, keys, term].iter().for_each(|n| reply.int(*n as i64));
                    reply.bulk(ranges_text(slots.ranges()).as_bytes());
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::IdleNode;
    use cluster::{NodeInfo, ShardInfo, Split};
    use node::EncodedCommand;
    use node::peer_protocol::PeerMessage;
    use std::sync::atomic::Ordering;
    use vocab::{PlanId, StoreId};

    const THERE: NodeId = NodeId(99);
    const PARENT: ShardId = ShardId(1);
    const CHILD: ShardId = ShardId(2);
    const WHOLE: &str = "0-16383";
    const HALVES: [&str; 2] = ["0-8191", "8192-16383"];

    /// A node whose map says that a shard is being split, and that all its slots are its own. Another node leads.
    fn node(led: &[ShardId]) -> IdleNode {
        let node = IdleNode::open();
        let other = NodeInfo { id: THERE, ..node.store.node_info() };
        let mut map = cluster::initial_map(StoreId(1), &[node.store.node_info(), other], 1, 2).unwrap();
        let child = ShardInfo { slots: Vec::new(), ..map.shards[&PARENT].clone() };
        map.shards.insert(CHILD, child);
        map.splits.insert(CHILD, Split { plan: PlanId(1), parent: PARENT, slots: vec![(8192, 16383)] });
        node.store.routing.set_map(Arc::new(map));
        for shard in led {
            assert!(node.store.known().place(*shard).unwrap().leader.learn(Some(THERE), 1));
        }
        node
    }

    /// The leaders of both shards.
    struct Leaders {
        /// What the parent has.
        slots: &'static str,
        /// What it has from the first barrier on.
        slots_when_held: &'static str,
        /// Whether they tell which slots their snapshots are of: those of a release before do not.
        tell: bool,
        /// The shards that are held, and all that were confirmed at the end.
        held: Vec<ShardId>,
        confirmed: Vec<ShardId>,
        /// How many shards were let go without a snapshot.
        dropped: usize,
    }

    impl Leaders {
        fn slots_of(&self, shard: ShardId) -> &'static str {
            if shard == PARENT { self.slots } else { HALVES[1] }
        }

        fn answer(&mut self, shard: ShardId, words: &[&[u8]]) -> Vec<u8> {
            match words {
                [_, b"COUNT", b"SLOTS", asked] if *asked == self.slots_of(shard).as_bytes() => b":7\r\n".to_vec(),
                [_, b"COUNT", ..] => b"-TRYAGAIN the shard's slots have changed\r\n".to_vec(),
                [_, b"HOLD", ..] => {
                    self.slots = self.slots_when_held;
                    self.held.push(shard);
                    let told = self.slots_of(shard);
                    match self.tell {
                        true => format!("*5\r\n:99\r\n:5\r\n:7\r\n:3\r\n${}\r\n{told}\r\n", told.len()).into_bytes(),
                        false => b"*4\r\n:99\r\n:5\r\n:7\r\n:3\r\n".to_vec(),
                    }
                }
                [_, b"CONFIRM", ..] => {
                    self.confirmed.push(shard);
                    b":3\r\n".to_vec()
                }
                [_, b"DROP", ..] => {
                    self.dropped += 1;
                    self.held.retain(|held| *held != shard);
                    b"+OK\r\n".to_vec()
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The answer to KV.BACKUP BEGIN of a node whose calls those answer.
    fn begun(node: &IdleNode, leaders: &mut Leaders) -> Value {
        let store = node.store.clone();
        let asking = std::thread::spawn(move || {
            let mut reply = Reply::new(Proto::Resp3);
            begin(&store, &[], &mut reply);
            reply.buf
        });
        while !asking.is_finished() {
            for message in node.mail() {
                let WorkerMessage::Post(THERE, PeerMessage::Call { id, shard, command }) = message else {
                    panic!("nothing else is sent")
                };
                let command = EncodedCommand::decode(command).unwrap();
                node.store.calls.answered(id, leaders.answer(shard, &command.args()));
            }
            std::thread::yield_now();
        }
        resp::decode(&asking.join().unwrap()).unwrap().unwrap().0
    }

    /// Each shard of a backup, with its slots.
    fn told(answer: &Value) -> Vec<(i64, String)> {
        let Value::Array(fields) = answer else { panic!("{answer:?}") };
        let Value::Array(parts) = &fields[4] else { panic!("{answer:?}") };
        let part = |part: &Value| {
            let Value::Array(fields) = part else { panic!("{part:?}") };
            (fields[0].as_int().unwrap(), String::from_utf8_lossy(fields[1].as_bytes().unwrap()).into_owned())
        };
        parts.iter().map(part).collect()
    }

    #[test]
    fn a_shard_that_was_split_off_is_part_of_a_backup_though_the_map_does_not_say_so() {
        let halves = vec![(1, HALVES[0].to_owned()), (2, HALVES[1].to_owned())];
        let whole = vec![(1, WHOLE.to_owned())];
        // What the parent has at first, and once it was told to hold still; and what the backup has in the end.
        for (slots, slots_when_held, expected) in
            [(WHOLE, WHOLE, &whole), (HALVES[0], HALVES[0], &halves), (WHOLE, HALVES[0], &halves)]
        {
            for tell in [true, false] {
                let node = node(&[PARENT, CHILD]);
                let (held, confirmed, dropped) = (Vec::new(), Vec::new(), 0);
                let mut leaders = Leaders { slots, slots_when_held, tell, held, confirmed, dropped };
                let answer = begun(&node, &mut leaders);
                let case = format!("{slots}, then {slots_when_held}, told: {tell}");
                assert_eq!(told(&answer), *expected, "{case}");
                let shards: Vec<ShardId> = [PARENT, CHILD][..expected.len()].to_vec();
                assert_eq!((&leaders.held, &leaders.confirmed), (&shards, &shards), "{case}");
                assert!(leaders.dropped > 0 || slots == slots_when_held, "{case}: what lacks keys is let go");
            }
        }
    }

    #[test]
    fn no_shard_holds_still_while_the_leader_of_another_is_looked_for() {
        let node = node(&[]);
        let map = node.store.known().map.clone().unwrap();
        let map = cluster::as_split(&map, &[CHILD]);
        node.store.routing.set_map(Arc::new(map));
        assert!(node.store.known().place(PARENT).unwrap().leader.learn(Some(THERE), 1));
        // A node that stops waits for nothing.
        node.store.stopping.store(true, Ordering::Release);
        let mut reply = Reply::new(Proto::Resp3);
        begin(&node.store, &[], &mut reply);
        let text = String::from_utf8_lossy(&reply.buf).into_owned();
        assert_eq!(text, "-TRYAGAIN no backup was begun: shard 2 has no leader that is known\r\n");
        assert!(node.mail().is_empty(), "the leader of the other one is asked for nothing");
    }
}

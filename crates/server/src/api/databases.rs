//! Commands about several databases: FLUSHALL, and MOVE and COPY from one shard to another.
//!
//! A move from shard to shard is two steps: for a moment both databases have the key, and if the node dies between the steps, both keep
//! it. No write by another client is lost.

use super::admin::{self, AdminError};
use super::exchange;
use super::handlers::{PoolWriter, Takes};
use super::writer::{ShardWrite, ShardWriter};
use crate::peers::{ask, ask_to_write, ask_transaction};
use crate::shared::NodeShared;
use cluster::{DATABASES_SETTING, Databases};
use node::read::Refusal;
use node::session::{Acks, Durability};
use node::{EncodedCommand, OUTCOME_UNKNOWN, Outcome, Write};
use resp::table::{self, CommandSpec};
use resp::{Reply, Value, parse_integer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vocab::{Database, NodeId, ShardId, Slot, slot_of};

/// The command that removes the keys of a database; without arguments, those of all databases.
const EMPTY: &str = "KV.EMPTY";
const TRANSFER: &str = "KV.TRANSFER";
const LATE: &str = "TIMEOUT the write was not confirmed in time: that may be done later, or never";
/// How often MOVE begins again if other clients change the key meanwhile.
const MOVES_MAX: usize = 16;
/// For how long a change of what is set for databases waits for the other nodes to know it.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);
const KNOWN_PAUSE: Duration = Duration::from_millis(5);
/// How long a request looks for a leader: longer than an election takes.
const LEADER_WITHIN: Duration = Duration::from_secs(10);
const LEADER_PAUSE: Duration = Duration::from_millis(20);

pub(super) fn handler(name: &str) -> Option<PoolWriter> {
    match name {
        EMPTY => Some(empty_all as PoolWriter),
        TRANSFER => Some(transfer as PoolWriter),
        "KV.SWAP" => Some(|store, args, _, reply| swap(store, args, reply)),
        _ => None,
    }
}

/// Which requests of the command with that name go to the pool.
pub(super) fn takes(name: &str) -> Option<Takes> {
    match name {
        EMPTY => Some(Takes::Bare),
        TRANSFER => Some(Takes::Apart(&["COPY", "MOVE"])),
        _ => None,
    }
}

/// FLUSHALL of a client of a database: one database after the other.
fn empty_all(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    let empty = || {
        let spec = table::resolve(args)?;
        let mut promise = Promise::of(durability);
        for database in (0..store.config.databases()).filter_map(Database::of_number) {
            promise.keep(empty_one(store, spec, database, promise.durability()))?;
        }
        promise.end()
    };
    match empty() {
        Ok(()) => reply.ok(),
        Err(text) => reply.error(&text),
    }
}

/// What a client is promised of a command that writes several times.
///
/// A write that is on a majority, and not on all replicas in time, is made: those behind it are made too, and promised no more than a
/// majority. The client is told in the end.
pub(super) struct Promise {
    durability: Durability,
    /// The error of the first write that not all replicas had in time.
    broken: Option<String>,
}

impl Promise {
    pub(super) fn of(durability: Durability) -> Self {
        Self { durability, broken: None }
    }

    /// What the next write is promised.
    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    /// Takes the outcome of a write: an error if it was not made, or if that is not known. What it has told is lost where it was
    /// not on all replicas in time.
    pub(super) fn keep<T>(&mut self, outcome: Result<T, String>) -> Result<Option<T>, String> {
        match outcome {
            Err(text) if Outcome::is_made(text.as_bytes()) => {
                self.durability.acks = Acks::Majority;
                self.broken.get_or_insert(text);
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// All is written. The error is what the client is told if not all replicas had it in time.
    pub(super) fn end(self) -> Result<(), String> {
        self.broken.map_or(Ok(()), Err)
    }
}

/// SWAPDB: two databases exchange the slots that their keys are in. No key moves.
fn swap(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    match swapped(store, args) {
        Ok(()) => reply.ok(),
        Err(text) => reply.error(&text),
    }
}

fn swapped(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<(), String> {
    let database = |arg: &[u8], which: &str| {
        let number = parse_integer(arg).ok_or_else(|| format!("ERR invalid {which} DB index"))?;
        let number = u64::try_from(number).ok().filter(|number| *number < store.config.databases());
        number.and_then(Database::of_number).ok_or_else(|| "ERR DB index is out of range".to_owned())
    };
    let (one, other) = (database(args[1], "first")?, database(args[2], "second")?);
    if one == other {
        return Ok(());
    }
    change(store, |databases| {
        databases.swap(one, other);
        Ok(())
    })
}

/// Changes what is set for single databases, and waits until all nodes that can be reached know it. The error is the text of a
/// reply.
pub(crate) fn change(
    store: &Arc<NodeShared>,
    make: impl Fn(&mut Databases) -> Result<(), String>,
) -> Result<(), String> {
    let made = change_setting(store, make)?;
    let until = Instant::now() + KNOWN_WITHIN;
    let is_known_here =
        || made.is_in(store.known().map.as_ref().map(|map| map.epoch.0), &store.known().databases.to_string());
    while !is_known_here() {
        if Instant::now() > until {
            return Err("TRYAGAIN the change is made, and this node does not know it yet".to_owned());
        }
        std::thread::sleep(KNOWN_PAUSE);
    }
    exchange::settle(store);
    knows_setting(store, DATABASES_SETTING, &made, until);
    Ok(())
}

/// A setting that was changed.
pub(super) struct Made {
    /// What it is.
    pub(super) value: String,
    /// The epoch of the map from which on it is so, where that is known.
    pub(super) epoch: Option<u64>,
}

impl Made {
    /// Whether a node knows it whose map is of that epoch and has that value.
    fn is_in(&self, epoch: Option<u64>, value: &str) -> bool {
        // Others may have changed it since.
        value == self.value || self.epoch.is_some_and(|from| epoch.is_some_and(|epoch| epoch >= from))
    }
}

/// Changes the setting of databases from what the metadata group has. Of two nodes that change it at once, one begins anew.
fn change_setting(
    store: &Arc<NodeShared>,
    make: impl Fn(&mut Databases) -> Result<(), String>,
) -> Result<Made, String> {
    let settings = |words: &[&str]| admin::admin(store, &[&["SETTINGS"][..], words].concat());
    let until = Instant::now() + KNOWN_WITHIN;
    loop {
        let value = settings(&["GET", DATABASES_SETTING]).map_err(|e| e.reply())?;
        let was = value["value"].as_str().unwrap_or_default();
        let mut databases = was.parse::<Databases>().map_err(|text| format!("ERR {text}"))?;
        make(&mut databases).map_err(|text| format!("ERR {text}"))?;
        let text = databases.to_string();
        match settings(&["SET", DATABASES_SETTING, &text, "WAS", was]) {
            Ok(answer) => return Ok(Made { value: text, epoch: answer["epoch"].as_u64() }),
            // Another node's change came first, and perhaps one more that has brought back what was.
            Err(AdminError::Stale(_)) if Instant::now() < until => {}
            Err(AdminError::Stale(_)) => {
                return Err("TRYAGAIN others change the databases all the time: nothing was changed".to_owned());
            }
            // A leader of a release before compares nothing, or says in these words what it found.
            Err(AdminError::Refused(text)) if text.ends_with(" by now") && Instant::now() < until => {}
            Err(AdminError::Usage(_)) => {
                settings(&["SET", DATABASES_SETTING, &text]).map_err(|e| e.reply())?;
                return Ok(Made { value: text, epoch: None });
            }
            Err(error) => return Err(error.reply()),
        }
    }
}

/// Waits until all other nodes that can be reached know a setting.
pub(super) fn knows_setting(store: &Arc<NodeShared>, setting: &str, made: &Made, until: Instant) {
    for node in store.peers.nodes() {
        while Instant::now() < until && store.peers.is_up(node) && !knows(store, node, setting, made) {
            std::thread::sleep(KNOWN_PAUSE);
        }
    }
}

/// Whether another node knows a setting. One that cannot be asked learns it when it is back; one of a release before does not tell.
fn knows(store: &Arc<NodeShared>, node: NodeId, setting: &str, made: &Made) -> bool {
    let asked = ask(store, node, &[b"KV.ADMIN", b"SETTINGS", b"KNOWN", setting.as_bytes()]);
    let known = asked.ok().and_then(|answer| admin::decode(&answer).ok());
    known.is_none_or(|known| made.is_in(known["epoch"].as_u64(), known["value"].as_str().unwrap_or_default()))
}

/// MOVE, and COPY to another database, whose shards are two.
fn transfer(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    match transferred(store, args, durability) {
        Ok(is_done) => reply.int(i64::from(is_done)),
        Err(text) => reply.error(&text),
    }
}

/// Whether there was a key to copy, and the target was free.
fn transferred(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability) -> Result<bool, String> {
    let [_, source, destination, word, options @ ..] = args else { return Err("ERR syntax error".to_owned()) };
    let moves = word.eq_ignore_ascii_case(b"MOVE");
    let replaces = options.iter().any(|option| option.eq_ignore_ascii_case(b"REPLACE"));
    for _ in 0..MOVES_MAX {
        let Some(dumped) = dumped(store, source)? else { return Ok(false) };
        let copied = restored(store, destination, &dumped, replaces, durability);
        // A copy that is not on all replicas in time is made: of a move that is half.
        let is_half = |text: &String| moves && Outcome::is_made(text.as_bytes());
        let copied = copied.map_err(|text| if is_half(&text) { half_made(text) } else { text });
        let Some(copy) = copied? else { return Ok(false) };
        // The key is removed only if it is still what was read: no write by another client is lost.
        if !moves || ended(store, source, dumped.version, durability).map_err(whole_or_half)? {
            return Ok(true);
        }
        // The copy is out of date: it is removed, unless another client has changed it.
        ended(store, destination, copy, Durability { acks: Acks::Majority, ..durability }).map_err(half_made)?;
    }
    Err("TRYAGAIN others changed the key all the time: it was not moved".to_owned())
}

/// The version of a key; none if it does not exist.
pub(super) fn version_of(store: &Arc<NodeShared>, key: &[u8]) -> Result<Option<i64>, String> {
    match run_at_leader(store, key, &[b"KV.VERSION", key])? {
        Value::Int(version) => Ok(Some(version)),
        Value::Null => Ok(None),
        Value::Error(text) => Err(text),
        _ => Err(LATE.to_owned()),
    }
}

/// Removes a key if it has that version; answers whether it had.
pub(super) fn ended(store: &Arc<NodeShared>, key: &[u8], version: i64, durability: Durability) -> Result<bool, String> {
    let version = version.to_string();
    match write_at(store, slot_of(key), durability, &[b"KV.DEL", key, b"IFVERSION", version.as_bytes()])? {
        Value::Int(removed) => Ok(removed > 0),
        Value::Null => Ok(false),
        Value::Error(text) => Err(text),
        _ => Err(LATE.to_owned()),
    }
}

/// Why it is not known what has become of a command, the first part of which was made.
fn half_made(text: String) -> String {
    format!("{OUTCOME_UNKNOWN}: the key was copied, and perhaps not removed: {text}")
}

/// The error of a move whose last part has one: that part may be made.
fn whole_or_half(text: String) -> String {
    if Outcome::is_made(text.as_bytes()) { text } else { half_made(text) }
}

/// A key as RESTORE takes it.
pub(super) struct Dumped {
    /// Which of its writes it is of.
    pub(super) version: i64,
    /// What DUMP answers.
    pub(super) dump: Vec<u8>,
    /// When the key expires, in ms since the epoch.
    pub(super) expire_at_ms: Option<u64>,
}

/// Reads a key as of one moment, if it exists.
pub(super) fn dumped(store: &Arc<NodeShared>, key: &[u8]) -> Result<Option<Dumped>, String> {
    for _ in 0..MOVES_MAX {
        let Some(version) = version_of(store, key)? else { return Ok(None) };
        let Some(dumped) = dumped_at(store, key, version)? else { continue };
        // A write between the parts has given it another version.
        if version_of(store, key)? == Some(version) {
            return Ok(Some(dumped));
        }
    }
    Err("TRYAGAIN others changed the key all the time: it was not read as of one moment".to_owned())
}

/// Reads a key of that version, if it exists.
fn dumped_at(store: &Arc<NodeShared>, key: &[u8], version: i64) -> Result<Option<Dumped>, String> {
    // The expiry first: a key that expires meanwhile is then not found, rather than found without an expiry.
    let expire_at_ms = match run_at_leader(store, key, &[b"PEXPIRETIME", key])? {
        Value::Int(at_ms) => u64::try_from(at_ms).ok(),
        Value::Error(text) => return Err(text),
        _ => return Err(LATE.to_owned()),
    };
    match run_at_leader(store, key, &[b"DUMP", key])? {
        Value::Bulk(dump) => Ok(Some(Dumped { version, dump, expire_at_ms })),
        Value::Null => Ok(None),
        Value::Error(text) => Err(text),
        _ => Err(LATE.to_owned()),
    }
}

/// Writes a key with its expiry in another shard. Answers which version it has there; none if the target was not free.
fn restored(
    store: &Arc<NodeShared>,
    key: &[u8],
    of: &Dumped,
    replaces: bool,
    durability: Durability,
) -> Result<Option<i64>, String> {
    let expiry = of.expire_at_ms.unwrap_or_default().to_string();
    let mut restore: Vec<&[u8]> = vec![b"RESTORE", key, expiry.as_bytes(), &of.dump, b"ABSTTL"];
    if replaces {
        restore.push(b"REPLACE");
    }
    // Asked for in the same entry: the version of whatever is there later might be another client's.
    let commands: [&[&[u8]]; 2] = [&restore, &[b"KV.VERSION", key]];
    let slot = slot_of(key);
    let answer = patiently(store, slot, |shard, leader| match leader {
        Some(leader) => ask_transaction(store, leader, durability, &commands),
        None => {
            let commands = commands.map(EncodedCommand::new).to_vec();
            let mut writer = ShardWriter::new(store.clone());
            let write = Write::Transaction { watches: Vec::new(), commands };
            writer.submit_write(ShardWrite::of_shard(shard, write).at(slot), durability)?;
            writer.await_answer().ok_or_else(|| LATE.to_owned())
        }
    })?;
    match resp::decode(&answer) {
        Ok(Some((Value::Array(answers), _))) => match <[Value; 2]>::try_from(answers) {
            Ok([Value::Error(text), _]) if text.starts_with("BUSYKEY") => Ok(None),
            Ok([Value::Error(text), _]) => Err(text),
            Ok([_, Value::Int(version)]) => Ok(Some(version)),
            // It had expired.
            Ok([_, Value::Null]) => Ok(Some(0)),
            _ => Err(LATE.to_owned()),
        },
        Ok(Some((Value::Error(text), _))) => Err(text),
        _ => Err(LATE.to_owned()),
    }
}

/// Runs a command that reads a key on the node that leads its shard.
fn run_at_leader(store: &Arc<NodeShared>, key: &[u8], args: &[&[u8]]) -> Result<Value, String> {
    run_at(store, slot_of(key), args)
}

/// Runs a command that reads keys of a slot on the node that leads its shard.
pub(super) fn run_at(store: &Arc<NodeShared>, slot: Slot, args: &[&[u8]]) -> Result<Value, String> {
    let answer = patiently(store, slot, |_, leader| match leader {
        Some(leader) => ask(store, leader, args),
        None => Ok((store.own_command)(store, args, None)),
    })?;
    decoded(&answer)
}

/// Runs a command that writes keys of a slot on the node that leads its shard, with that promise.
pub(super) fn write_at(
    store: &Arc<NodeShared>,
    slot: Slot,
    durability: Durability,
    args: &[&[u8]],
) -> Result<Value, String> {
    let answer = patiently(store, slot, |_, leader| match leader {
        Some(leader) => ask_to_write(store, leader, durability, args),
        None => Ok((store.own_command)(store, args, Some(durability))),
    })?;
    decoded(&answer)
}

fn decoded(answer: &[u8]) -> Result<Value, String> {
    match resp::decode(answer) {
        Ok(Some((value, _))) => Ok(value),
        _ => Err(LATE.to_owned()),
    }
}

/// Calls `ask` with the leader of a slot, once there is one: the node, or none if it is this one. If it refuses because it does not
/// lead, the next leader is asked.
fn patiently(
    store: &Arc<NodeShared>,
    slot: Slot,
    mut ask_leader: impl FnMut(ShardId, Option<NodeId>) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, String> {
    let until = Instant::now() + LEADER_WITHIN;
    loop {
        let known = store.known();
        let shard = known.shard_of(slot).ok_or_else(|| Refusal::NoStore.to_string())?;
        let leads = known.handle(shard).is_some_and(|handle| handle.leading());
        drop(known);
        let answer = match store.leader_of(shard).filter(|leader| *leader != store.node()) {
            _ if leads => Some(ask_leader(shard, None)?),
            Some(leader) => Some(ask_leader(shard, Some(leader))?),
            None => None,
        };
        match answer {
            Some(answer) if !answer.starts_with(b"-MOVED ") && !answer.starts_with(b"-CLUSTERDOWN ") => {
                return Ok(answer);
            }
            answer if Instant::now() >= until => return answer.ok_or_else(|| Refusal::NoLeader.to_string()),
            _ => std::thread::sleep(LEADER_PAUSE),
        }
    }
}

fn empty_one(
    store: &Arc<NodeShared>,
    spec: &'static CommandSpec,
    database: Database,
    durability: Durability,
) -> Result<(), String> {
    let slot = database.slot();
    let prefix = database.prefix();
    let args: [&[u8]; 2] = [spec.name.as_bytes(), &prefix];
    let answer = patiently(store, slot, |shard, leader| {
        if let Some(leader) = leader {
            return ask_to_write(store, leader, durability, &args);
        }
        let mut writer = ShardWriter::new(store.clone());
        writer.submit_write(ShardWrite::command(shard, slot, EncodedCommand::of(spec, &args)), durability)?;
        writer.await_answer().ok_or_else(|| LATE.to_owned())
    })?;
    match answer.strip_prefix(b"-") {
        Some(text) => Err(String::from_utf8_lossy(text).trim_end().to_owned()),
        None => Ok(()),
    }
}

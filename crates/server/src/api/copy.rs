//! COPY, the commands that store a combination of sets, and ZREMRANGEBY* of many members: what is small by one write, what is
//! large in slices, other clients in between.
//!
//! The result is as of one version of what it is made of, and visible from the moment at which all of it is there.

use super::handlers::{PoolWriter, Takes};
use super::writer::{ShardWrite, ShardWriter};
use crate::os::{now_ms, steady_us};
use crate::shared::NodeShared;
use node::command::{Error, SetCopy, SortedSetCopy, copy_options};
use node::read::{Attempt, Finish, ReadRequest, Refusal};
use node::session::{Acks, Consistency, Durability, Host, Keyspace};
use node::{
    CollectionCopy, EncodedCommand, Fault, ReadSpace, RequestKeys, ShardHandle, SliceSource, SnapshotSpace, StagedAt,
    Type,
};
use resp::Reply;
use resp::table;
use std::sync::Arc;
use vocab::limits::REMOVED_MEMBERS_MAX;
use vocab::{ShardId, Slot, SlotSpan, slot_of};

/// Slices that are on their way to the log at a time.
const SLICES_UNDER_WAY: usize = 4;

pub(super) fn handler(name: &str) -> Option<PoolWriter> {
    match name {
        "COPY" => Some(copy as PoolWriter),
        "SINTERSTORE" | "SUNIONSTORE" | "SDIFFSTORE" => Some(store_set as PoolWriter),
        "ZINTERSTORE" | "ZUNIONSTORE" | "ZDIFFSTORE" | "ZRANGESTORE" | "GEOSEARCHSTORE" => {
            Some(store_sorted_set as PoolWriter)
        }
        "GEORADIUS" | "GEORADIUSBYMEMBER" => Some(store_found as PoolWriter),
        "ZREMRANGEBYRANK" | "ZREMRANGEBYSCORE" | "ZREMRANGEBYLEX" => Some(remove_range as PoolWriter),
        _ => None,
    }
}

/// Which requests of the command with that name go to the pool.
pub(super) fn takes(name: &str) -> Option<Takes> {
    match name {
        "GEORADIUS" | "GEORADIUSBYMEMBER" => Some(Takes::With(&["STORE", "STOREDIST"])),
        "ZREMRANGEBYRANK" | "ZREMRANGEBYSCORE" | "ZREMRANGEBYLEX" => {
            Some(Takes::Larger(Type::SortedSet, REMOVED_MEMBERS_MAX))
        }
        _ => None,
    }
}

fn copy(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    answer(reply, Copying::begin(store, args, 2, durability).and_then(|copying| copying.copy(store, args)));
}

fn store_set(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    answer(reply, Copying::begin(store, args, 1, durability).and_then(|copying| copying.store_set(store, args)));
}

fn store_sorted_set(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    answer(reply, Copying::begin(store, args, 1, durability).and_then(|copying| copying.store_sorted_set(store, args)));
}

fn store_found(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    // The last key is the one that is written.
    let to = table::resolve(args).ok().and_then(|spec| spec.keys(args).ok()?.max()).unwrap_or(1);
    answer(
        reply,
        Copying::begin(store, args, to, durability).and_then(|copying| copying.store_sorted_set(store, args)),
    );
}

fn remove_range(store: &Arc<NodeShared>, args: &[&[u8]], durability: Durability, reply: &mut Reply) {
    let remove = || Copying::begin(store, args, 1, durability)?.store_sorted_set(store, args);
    answer(reply, until_unchanged(remove));
}

/// How often a collection is read that others change all the time.
const READS_MAX: usize = 16;
/// What the error begins with that says that it has changed.
const CHANGED: &str = "TRYAGAIN what is at the key has changed";

/// Makes what holds only if a collection has not changed since it was read; where it has, anew, a few times.
pub(super) fn until_unchanged(mut make: impl FnMut() -> Result<Vec<u8>, String>) -> Result<Vec<u8>, String> {
    let mut made = make();
    for _ in 1..READS_MAX {
        let text = match &made {
            Ok(answer) => answer.strip_prefix(b"-").unwrap_or_default(),
            Err(text) => text.as_bytes(),
        };
        if !text.starts_with(CHANGED.as_bytes()) {
            break;
        }
        made = make();
    }
    made
}

/// The encoded reply, or the text of an error.
pub(super) fn answer(reply: &mut Reply, made: Result<Vec<u8>, String>) {
    match made {
        Ok(answer) => reply.raw(&answer),
        Err(text) => reply.error(&text),
    }
}

/// A command whose keys are of one shard, which this node leads, and may be read as of one moment.
pub(super) struct Copying {
    /// The command as it came.
    plain: EncodedCommand,
    pub(super) attempt: Attempt,
    shard: Target,
}

impl Copying {
    /// `to`: the argument that is the key that is written.
    pub(super) fn begin(
        store: &Arc<NodeShared>,
        args: &[&[u8]],
        to: usize,
        durability: Durability,
    ) -> Result<Self, String> {
        let spec = table::resolve(args)?;
        let slot = slot_of(args[to]);
        let keys = RequestKeys::within(spec, args, |span| store.share_shard(span, Keyspace::Cluster))?;
        let asked = ReadRequest::new(slot, Consistency::Absolute, steady_us()).over(keys.wider);
        let attempt = store.access().begin_read(asked)?;
        let writer = ShardWriter::new(store.clone());
        let (shard, key) = (attempt.handle().id(), args[to].to_vec());
        let shard = Target { writer, shard, slot, wider: keys.wider, key, durability };
        Ok(Self { plain: EncodedCommand::of(spec, args), attempt, shard })
    }

    fn copy(mut self, store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<Vec<u8>, String> {
        let (from, to) = (args[1], args[2]);
        let replaces = copy_options(&args[3..]).map_err(text_of)?;
        let handle = self.attempt.handle().clone();
        let is_taken = || SnapshotSpace::new(&handle, now_ms(), 0).get(to).map(|record| record.is_some() && !replaces);
        if from == to || is_taken().map_err(|fault| text_of(fault.into()))? {
            return self.shard.write(self.plain);
        }
        let source = CollectionCopy::begin(&handle, from, replaces, now_ms()).map_err(text_of)?;
        self.make(store, source)
    }

    fn store_set(self, store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<Vec<u8>, String> {
        let handle = self.attempt.handle().clone();
        let source = SetCopy::begin(&handle, args, now_ms()).map_err(text_of)?;
        self.make(store, source)
    }

    fn store_sorted_set(self, store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<Vec<u8>, String> {
        let view = self.attempt.handle().clone();
        let source = SortedSetCopy::begin(&view, args, now_ms()).map_err(text_of)?;
        self.make(store, source)
    }

    /// By the command as it came.
    pub(super) fn write_plain(mut self) -> Result<Vec<u8>, String> {
        self.shard.write(self.plain)
    }

    /// By that command, on the condition that what was read counts.
    pub(super) fn write(mut self, store: &Arc<NodeShared>, command: EncodedCommand) -> Result<Vec<u8>, String> {
        self.check_read(store)?;
        self.shard.write(command)
    }

    /// An error if what was read does not count.
    pub(super) fn check_read(&self, store: &Arc<NodeShared>) -> Result<(), String> {
        match store.access().finish_read(&self.attempt) {
            Finish::Answer => Ok(()),
            Finish::Again(_) => Err(Refusal::NoLeader.to_string()),
        }
    }

    /// In slices, if there is a source of them; by one write otherwise.
    pub(super) fn make(mut self, store: &Arc<NodeShared>, source: Option<impl SliceSource>) -> Result<Vec<u8>, String> {
        let Some(source) = source else {
            return self.shard.write(self.plain);
        };
        self.check_read(store)?;
        let answer = self.shard.prepare(CollectionCopy::first(&self.shard.key))?;
        match StagedAt::of_answer(&answer) {
            Some(place) => copy_slices(source, &mut self.shard, self.attempt.handle(), &place),
            // Nodes of an earlier release hold replicas: all at once, as they do it.
            None => self.shard.write(self.plain),
        }
    }
}

fn copy_slices(
    mut source: impl SliceSource,
    shard: &mut Target,
    handle: &ShardHandle,
    place: &StagedAt,
) -> Result<Vec<u8>, String> {
    let mut under_way = 0;
    while let Some(slice) = source.next(&shard.key, place).map_err(text_of)? {
        if !handle.owns(shard.slot) {
            return Err("TRYAGAIN the slot is another shard's now: nothing was written".to_owned());
        }
        shard.submit_part(slice)?;
        under_way += 1;
        if under_way == SLICES_UNDER_WAY {
            under_way -= shard.await_ok()?;
        }
    }
    while under_way > 0 {
        under_way -= shard.await_ok()?;
    }
    let answer = shard.write(source.last(&shard.key, place))?;
    if answer.starts_with(b"-OOM ") {
        // Otherwise it would lie there until it is found to be too late.
        shard.prepare(place.dropped(&shard.key))?;
    }
    Ok(answer)
}

/// The shard that the copy is made in, which this node leads.
struct Target {
    writer: ShardWriter,
    shard: ShardId,
    slot: Slot,
    /// Where all keys of the command are, if they are of several slots.
    wider: Option<SlotSpan>,
    /// What is written.
    key: Vec<u8>,
    /// What the client is promised.
    durability: Durability,
}

impl Target {
    fn submit(&mut self, command: EncodedCommand, durability: Durability) -> Result<(), String> {
        self.writer.submit_write(ShardWrite::command(self.shard, self.slot, command).over(self.wider), durability)
    }

    /// Submits a write that no client sees before the last one is made. Where that one is to be on all replicas, so are those
    /// before it in the log: a majority is enough for them.
    fn submit_part(&mut self, command: EncodedCommand) -> Result<(), String> {
        self.submit(command, Durability { acks: Acks::Majority, ..self.durability })
    }

    /// Makes one of these and answers its reply.
    fn prepare(&mut self, command: EncodedCommand) -> Result<Vec<u8>, String> {
        self.submit_part(command)?;
        self.writer.await_answer().ok_or_else(late)
    }

    /// Makes the write that the client waits for and answers its reply.
    fn write(&mut self, command: EncodedCommand) -> Result<Vec<u8>, String> {
        self.submit(command, self.durability)?;
        self.writer.await_answer().ok_or_else(late)
    }

    /// Waits for writes under way; answers how many have been made. One that fails is an error.
    fn await_ok(&mut self) -> Result<usize, String> {
        let answers = self.writer.await_answers();
        if answers.is_empty() {
            return Err(late());
        }
        match answers.iter().find(|answer| !answer.starts_with(b"+OK")) {
            Some(failed) => Err(String::from_utf8_lossy(failed).trim_start_matches('-').trim_end().to_owned()),
            None => Ok(answers.len()),
        }
    }
}

fn late() -> String {
    "TIMEOUT the copy was not confirmed in time: it may be made later, or never".to_owned()
}

pub(super) fn text_of(error: Error) -> String {
    match error {
        Error::Reply(text) => text.into_owned(),
        Error::Fault(Fault::Storage(e)) => format!("ERR {e}"),
        Error::Fault(Fault::Remote(text)) => text,
        Error::Fault(Fault::Writes { .. }) => "ERR a read of the copy writes".to_owned(),
        Error::Fault(Fault::WouldBlock) => "ERR the copy would wait for the disk without end".to_owned(),
    }
}

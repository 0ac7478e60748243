//! COPY: small values by one write, large collections in slices, other clients in between.
//!
//! A copy of a large collection shows the collection as of one version, from the moment at which all of it is there.

use super::handlers::PoolHandler;
use super::writer::ShardWriter;
use crate::os::{now_ms, steady_us};
use crate::shared::NodeShared;
use node::command::{Error, copy_options};
use node::read::{Finish, ReadRequest, Refusal};
use node::session::Consistency;
use node::{CollectionCopy, EncodedCommand, Fault, ReadSpace, ShardView, SnapshotSpace, StagedAt, request};
use resp::Reply;
use resp::table;
use std::sync::Arc;
use vocab::{ShardId, Slot, slot_of};

/// Slices that are on their way to the log at a time.
const SLICES_UNDER_WAY: usize = 4;

pub(super) fn handler(name: &str) -> Option<PoolHandler> {
    (name == "COPY").then_some(copy as PoolHandler)
}

fn copy(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    match make(store, args) {
        Ok(answer) => reply.raw(&answer),
        Err(text) => reply.error(&text),
    }
}

/// Answers the encoded reply; the error is the text of one.
fn make(store: &Arc<NodeShared>, args: &[&[u8]]) -> Result<Vec<u8>, String> {
    let spec = table::resolve(args)?;
    request::check(spec, args)?;
    let (from, to) = (args[1], args[2]);
    let slot = slot_of(from);
    if slot_of(to) != slot {
        return Err(request::CROSSSLOT.to_owned());
    }
    let replaces = copy_options(&args[3..]).map_err(text_of)?;
    let attempt = store.access().begin_read(ReadRequest::new(slot, Consistency::Absolute, steady_us()))?;
    let view = attempt.handle();
    let mut shard = Target { writer: ShardWriter::new(store.clone()), shard: view.id(), slot };
    let plain = EncodedCommand::of(spec, args);
    let is_taken = || SnapshotSpace::new(view, now_ms(), 0).get(to).map(|record| record.is_some() && !replaces);
    if from == to || is_taken().map_err(|fault| text_of(fault.into()))? {
        return shard.write(plain);
    }
    let Some(source) = CollectionCopy::begin(view, from, now_ms()).map_err(text_of)? else {
        return shard.write(plain);
    };
    if store.access().finish_read(&attempt) != Finish::Answer {
        return Err(Refusal::NoLeader.to_string());
    }
    let answer = shard.write(CollectionCopy::first(to))?;
    match StagedAt::of_answer(&answer) {
        Some(place) => copy_slices(source, &mut shard, view, to, &place, replaces),
        // Nodes of an earlier release hold replicas: all at once, as they do it.
        None => shard.write(plain),
    }
}

fn copy_slices(
    mut source: CollectionCopy<'_>,
    shard: &mut Target,
    view: &ShardView,
    to: &[u8],
    place: &StagedAt,
    replaces: bool,
) -> Result<Vec<u8>, String> {
    let mut under_way = 0;
    while let Some(slice) = source.next(to, place).map_err(text_of)? {
        if !view.owns(shard.slot) {
            return Err("TRYAGAIN the slot is another shard's now: nothing was written".to_owned());
        }
        shard.submit(slice)?;
        under_way += 1;
        if under_way == SLICES_UNDER_WAY {
            under_way -= shard.await_ok()?;
        }
    }
    while under_way > 0 {
        under_way -= shard.await_ok()?;
    }
    shard.write(source.last(to, place, replaces))
}

/// The shard that the copy is made in, which this node leads.
struct Target {
    writer: ShardWriter,
    shard: ShardId,
    slot: Slot,
}

impl Target {
    fn submit(&mut self, command: EncodedCommand) -> Result<(), String> {
        self.writer.submit_command(self.shard, self.slot, command)
    }

    /// Makes one write and answers its reply.
    fn write(&mut self, command: EncodedCommand) -> Result<Vec<u8>, String> {
        self.submit(command)?;
        self.writer.await_answers().into_iter().next().ok_or_else(late)
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

fn text_of(error: Error) -> String {
    match error {
        Error::Reply(text) => text.into_owned(),
        Error::Fault(Fault::Storage(e)) => format!("ERR {e}"),
        Error::Fault(Fault::Remote(text)) => text,
        Error::Fault(Fault::WouldBlock) => "ERR the copy would wait for the disk without end".to_owned(),
    }
}

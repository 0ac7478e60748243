//! One command under way: what it is given, what runs it, and how it ends.

use super::cursors::ScanCursors;
use crate::{Fault, ReadSpace, ShardSpace, Shards, WriteSpace};
use resp::Reply;
use std::borrow::Cow;

/// One command under way on one shard. What the space is decides what the command can do: see `crate::space`.
pub struct Call<'a, S: ?Sized> {
    /// The request, `args[0]` being the command's name. Arity has been checked against the command table.
    pub args: &'a [&'a [u8]],
    /// The shard that owns the keys.
    pub space: &'a mut S,
    /// Where the reply goes; what stands there before is not this command's. On `Err` the caller takes back what
    /// the handler wrote and writes the error.
    pub reply: &'a mut Reply,
}

/// A command that reads the keys that it names.
pub type ReadCall<'a> = Call<'a, dyn ReadSpace + 'a>;

/// A command that may write the keys that it names: it exists in an entry alone.
pub type WriteCall<'a> = Call<'a, dyn WriteSpace + 'a>;

/// A question to one shard about any of its keys.
pub type ShardCall<'a> = Call<'a, dyn ShardSpace + 'a>;

/// One command under way on the whole store (KV.RANGE, SCAN, KEYS, DBSIZE, RANDOMKEY).
pub struct StoreCall<'a> {
    /// As in `Call`.
    pub args: &'a [&'a [u8]],
    /// All shards.
    pub shards: &'a mut dyn Shards,
    /// Where the scans under way on this node stand.
    pub cursors: &'a ScanCursors,
    /// As in `Call`.
    pub reply: &'a mut Reply,
}

/// How a command fails. An error never leaves part of a command's writes behind.
#[derive(Debug)]
pub enum Error {
    /// The text of the error reply, its code first: `ERR syntax error`.
    Reply(Cow<'static, str>),
    /// The space could not be read.
    Fault(Fault),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<&'static str> for Error {
    fn from(text: &'static str) -> Self {
        Self::Reply(Cow::Borrowed(text))
    }
}

/// A handler's result.
pub type Outcome = Result<(), Error>;

/// Runs a command that may write.
pub type WriteHandler = fn(&mut WriteCall<'_>) -> Outcome;

/// Runs a command on the whole store.
pub type StoreHandler = fn(&mut StoreCall<'_>) -> Outcome;

/// Runs a command that writes nothing, on one shard: on any replica that may answer.
#[derive(Clone, Copy, Debug)]
pub enum ReadHandler {
    /// It reads the keys that it names.
    Keys(fn(&mut ReadCall<'_>) -> Outcome),
    /// It may look at any key of the shard.
    Shard(fn(&mut ShardCall<'_>) -> Outcome),
}

impl ReadHandler {
    /// Runs it.
    #[inline]
    pub fn run(self, args: &[&[u8]], space: &mut dyn ShardSpace, reply: &mut Reply) -> Outcome {
        match self {
            Self::Keys(run) => run(&mut Call { args, space, reply }),
            Self::Shard(run) => run(&mut Call { args, space, reply }),
        }
    }
}

/// What runs a command over data.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// On one shard; it writes nothing.
    Read(ReadHandler),
    /// On one shard, in an entry.
    Write(WriteHandler),
    /// On the whole store.
    Store(StoreHandler),
}

/// Tells a write's answer from its arguments, where nothing that the shard holds can change it.
pub(super) type KnownAnswer = fn(&[&[u8]]) -> Option<&'static [u8]>;

/// A row of a family: the name of a command in the command table, and what runs it.
#[derive(Clone, Copy)]
pub(crate) struct HandlerRow {
    pub(super) name: &'static str,
    pub(super) handler: Handler,
    pub(super) known_answer: Option<KnownAnswer>,
}

/// A command that reads the keys that it names.
pub(super) const fn read(name: &'static str, run: fn(&mut ReadCall<'_>) -> Outcome) -> HandlerRow {
    HandlerRow { name, handler: Handler::Read(ReadHandler::Keys(run)), known_answer: None }
}

/// A question to one shard about any of its keys.
pub(crate) const fn shard(name: &'static str, run: fn(&mut ShardCall<'_>) -> Outcome) -> HandlerRow {
    HandlerRow { name, handler: Handler::Read(ReadHandler::Shard(run)), known_answer: None }
}

/// A command that may write.
pub(super) const fn write(name: &'static str, run: WriteHandler) -> HandlerRow {
    HandlerRow { name, handler: Handler::Write(run), known_answer: None }
}

/// A command over the whole store.
pub(super) const fn store(name: &'static str, run: StoreHandler) -> HandlerRow {
    HandlerRow { name, handler: Handler::Store(run), known_answer: None }
}

impl HandlerRow {
    /// The write's answer may be known beforehand.
    pub(super) const fn answers(mut self, known: KnownAnswer) -> Self {
        self.known_answer = Some(known);
        self
    }
}

//! One command under way: what it is given, and how it ends.

use super::cursors::ScanCursors;
use crate::{Fault, Shards, Space};
use resp::Reply;
use std::borrow::Cow;

/// One command under way on one shard.
pub struct Call<'a> {
    /// The request, `args[0]` being the command's name. Arity has been checked against the command table.
    pub args: &'a [&'a [u8]],
    /// The shard that owns the keys.
    pub space: &'a mut dyn Space,
    /// Where the reply goes; what stands there before is not this command's. On `Err` the caller takes back what
    /// the handler wrote and writes the error.
    pub reply: &'a mut Reply,
}

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

/// Runs one command on one shard.
pub type Handler = fn(&mut Call<'_>) -> Outcome;

/// Runs one command on the whole store.
pub type StoreHandler = fn(&mut StoreCall<'_>) -> Outcome;

/// Tells a write's answer from its arguments, where nothing that the shard holds can change it.
pub(crate) type Foretells = fn(&[&[u8]]) -> Option<&'static [u8]>;

//! What carries requests to a store of the Redis kind: a socket, or a call within the process.

use std::io;
use std::time::Instant;

use client::{Access, Answer};

/// A request about to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    /// What its answer bears.
    pub(super) lane: u32,
    /// The key that it is about; none = it is about many, and any node can do it.
    pub(super) key: Option<&'a [u8]>,
    /// What it does.
    pub(super) access: Access,
    /// How many arguments it has.
    pub(super) arguments: usize,
}

/// Takes a request's arguments one by one.
pub(super) trait ArgumentSink {
    /// The next argument.
    fn arg(&mut self, bytes: &[u8]);
    /// The next argument: a number in decimal.
    fn number(&mut self, number: u64);
}

/// Carries requests and brings their answers, in any order.
pub(super) trait Transport {
    /// A request being written.
    type Request<'a>: ArgumentSink
    where
        Self: 'a;

    /// Begins a request.
    fn request(&mut self, about: About<'_>) -> Self::Request<'_>;

    /// The request that was begun last is complete.
    fn finish(&mut self);

    /// Sends what was asked and hands over what has come, by `until` or earlier.
    fn wait(&mut self, until: Option<Instant>, each: &mut dyn FnMut(u32, Answer<'_>, Instant)) -> io::Result<()>;
}

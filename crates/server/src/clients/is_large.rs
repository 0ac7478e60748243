//! Whether a request is too large for an event loop.

use node::Write;
use vocab::limits::{LARGE_REQUEST_ARGUMENTS, LARGE_REQUEST_BYTES};

/// Whether a request of so many arguments in so many bytes, or so many letters for a client, are for the thread.
#[inline]
pub(super) fn is_large(arguments: usize, bytes: usize) -> bool {
    arguments > LARGE_REQUEST_ARGUMENTS || bytes > LARGE_REQUEST_BYTES
}

/// A write on its way to its shard: a large one is encoded where a thread has the time for it, which is not so where its client may
/// wait for an element.
pub(super) fn prepared_by(is_thread: bool, write: Write, may_wait: bool) -> Write {
    if is_thread && !may_wait && is_large(write.arguments(), write.bytes()) { write.prepared() } else { write }
}

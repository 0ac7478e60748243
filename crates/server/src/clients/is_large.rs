//! What is too large for an event loop.

use vocab::limits::{LARGE_REQUEST_ARGUMENTS, LARGE_REQUEST_BYTES};

/// Whether a request of so many arguments in so many bytes, or so many letters for a client, are for the thread.
#[inline]
pub(super) fn is_large(arguments: usize, bytes: usize) -> bool {
    arguments > LARGE_REQUEST_ARGUMENTS || bytes > LARGE_REQUEST_BYTES
}

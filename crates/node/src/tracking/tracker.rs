//! A client that has tracking on.

use crate::subscriber::Subscriber;

/// A client that is told of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracker {
    /// The client.
    pub client: Subscriber,
    /// It is not told of its own changes.
    pub no_loop: bool,
}

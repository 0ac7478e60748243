//! A request of a connection, while it runs.

use resp::table::CommandSpec;

/// A request of a connection.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    /// The connection.
    pub(super) id: usize,
    pub(super) spec: &'static CommandSpec,
    pub(super) args: &'a [&'a [u8]],
}

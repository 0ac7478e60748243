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

/// A request that is looked at for the first time.
pub(super) struct Incoming<'a> {
    /// It names keys as they are stored.
    pub(super) args: &'a [&'a [u8]],
    /// What it took in its connection's input.
    pub(super) bytes: usize,
    /// What its client has sent, if it is a client of a database: another command may be run for it.
    pub(super) sent: Option<Sent<'a>>,
}

/// A request as a client of a database has sent it.
#[derive(Clone, Copy)]
pub(super) struct Sent<'a> {
    /// The number of the database.
    pub(super) database: u16,
    pub(super) spec: &'static CommandSpec,
    pub(super) args: &'a [&'a [u8]],
}

//! What the command table says of a request.

use resp::table::CommandSpec;

/// A request's row of the command table, or the error that says why it has none.
pub type Resolved = Result<&'static CommandSpec, String>;

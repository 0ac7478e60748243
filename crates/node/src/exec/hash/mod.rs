//! The hash commands.

use super::Handler;

/// The handler of a hash command, by its upper-case name.
pub(super) fn handler(_name: &str) -> Option<Handler> {
    None
}

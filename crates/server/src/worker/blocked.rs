//! Submits what `node::blocking` proposes for clients that wait.

use crate::mailbox::Submission;
use node::Write;
use node::blocking::Attempt;

/// A command for a client that waits, on its way to its shard.
pub(super) fn submission_of(attempt: Attempt) -> Submission {
    let Attempt { shard, ticket, command, keys, waits_in } = attempt;
    Submission { shard, write: Write::Command(command), keys, ticket, waits_in }
}

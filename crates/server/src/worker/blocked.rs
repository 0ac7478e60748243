//! Submits what `node::blocking` proposes for clients that wait.

use crate::mailbox::Submission;
use node::blocking::Attempt;
use node::{KeyHashes, Write, key_hash};

/// A command for a client that waits, on its way to its shard.
pub(super) fn submission_of(attempt: Attempt) -> Submission {
    let Attempt { shard, ticket, command } = attempt;
    let keys: KeyHashes = match command.spec() {
        Some(spec) => {
            let args = command.args();
            spec.keys(&args).into_iter().flatten().map(|at| key_hash(args[at])).collect()
        }
        None => KeyHashes::new(),
    };
    Submission { shard, write: Write::Command(command), keys, ticket }
}

//! What an import has done, and what went wrong.

use super::checkpoints;
use crate::problems::Problems;
use crate::store_writer::{Kind, Listener, Write};
use client::Frame;
use serde::{Deserialize, Serialize};

/// What an import has done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Outcome {
    /// Keys that were read of the source's copy.
    pub(super) keys: u64,
    /// Those that were written.
    pub(super) written: u64,
    /// Libraries of functions that were loaded.
    pub(super) libraries: u64,
    /// Those that were there, and were left.
    pub(super) present: u64,
    /// Those that had expired.
    pub(super) expired: u64,
    /// Those of other databases.
    pub(super) other_databases: u64,
    /// Commands of the source that were repeated after the copy.
    pub(super) commands: u64,
    /// Keys that were read from the source again, instead of repeating a command.
    pub(super) read_again: u64,
    /// Keys that were compared at the end.
    pub(super) compared: u64,
    /// Things that are not as they should be.
    #[serde(flatten)]
    pub(super) problems: Problems,
}

impl Outcome {
    /// Takes in what another part of the import has done.
    pub(super) fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.written += other.written;
        self.libraries += other.libraries;
        self.present += other.present;
        self.expired += other.expired;
        self.other_databases += other.other_databases;
        self.commands += other.commands;
        self.read_again += other.read_again;
        self.compared += other.compared;
        self.problems.add(other.problems);
    }

    /// What a bar shows of it.
    pub(super) fn progress(&self) -> String {
        format!("{} keys, {} problems", self.keys, self.problems.count())
    }

    /// The result for people.
    pub(super) fn text(&self, dry_run: bool) -> String {
        let mut text = if dry_run {
            format!("{} keys would be written; nothing was", self.keys - self.expired)
        } else {
            format!("{} of {} keys written", self.written, self.keys)
        };
        for (count, what) in [
            (self.libraries, "libraries of functions were loaded"),
            (self.present, "were there and were left (--replace writes them)"),
            (self.expired, "had expired"),
            (self.other_databases, "are of other databases (--database imports them)"),
            (self.commands, if dry_run { "commands would follow" } else { "commands followed" }),
            (self.read_again, "keys were read again"),
            (self.compared, "keys were compared"),
        ] {
            if count > 0 {
                text.push_str(&format!("; {count} {what}"));
            }
        }
        format!("{text}\n{}", self.problems)
    }
}

impl Listener for Outcome {
    fn done(&mut self, write: &Write, reply: &Frame<'_>) {
        match write.kind {
            Kind::Once | Kind::InOrder => self.commands += 1,
            // SET … NX of a key that is there.
            Kind::Free if matches!(reply, Frame::Null) => self.present += 1,
            Kind::Free if write.args[0] == b"FUNCTION" => self.libraries += 1,
            Kind::Free => self.written += 1,
        }
    }

    fn refused(&mut self, write: &Write, why: &str) {
        if write.kind == Kind::Free && why.starts_with("BUSYKEY") {
            self.present += 1;
            return;
        }
        // It was deleted before an interruption.
        if write.args[0].eq_ignore_ascii_case(b"FUNCTION") && why.starts_with("ERR Library not found") {
            self.commands += 1;
            return;
        }
        let name = if write.kind == Kind::InOrder { checkpoints::BEFORE } else { 0 };
        let (name, key) = (write.args[name].escape_ascii(), shown(&write.args[write.key]));
        self.problems.note(format!("{name} of {key}: {why}"));
    }
}

/// A key as it is shown: by the name that clients use.
pub(super) fn shown(key: &[u8]) -> String {
    const SHOWN_MAX: usize = 80;
    let key = vocab::client_key(key);
    let text = key[..key.len().min(SHOWN_MAX)].escape_ascii().to_string();
    if key.len() > SHOWN_MAX { format!("\"{text}…\"") } else { format!("\"{text}\"") }
}

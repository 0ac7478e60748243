//! What an import has done, and what went wrong.

use serde::Serialize;

/// Problems that are told one by one.
const TOLD_MAX: usize = 20;

/// What an import has done.
#[derive(Debug, Default, Serialize)]
pub(super) struct Outcome {
    /// Keys that were read of the source's copy.
    pub(super) keys: u64,
    /// Those that were written.
    pub(super) written: u64,
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
    pub(super) problems: u64,
    /// The first of them.
    pub(super) first_problems: Vec<String>,
}

impl Outcome {
    /// Notes that something is not as it should be.
    pub(super) fn problem(&mut self, text: String) {
        self.problems += 1;
        if self.first_problems.len() < TOLD_MAX {
            self.first_problems.push(text);
        }
    }

    /// The result for people.
    pub(super) fn text(&self, dry_run: bool) -> String {
        let mut text = if dry_run {
            format!("{} keys would be written; nothing was", self.keys - self.expired)
        } else {
            format!("{} of {} keys written", self.written, self.keys)
        };
        for (count, what) in [
            (self.present, "were there and were left (--replace writes them)"),
            (self.expired, "had expired"),
            (self.other_databases, "are of other databases (--database imports them)"),
            (self.commands, "commands followed"),
            (self.read_again, "keys were read again"),
            (self.compared, "keys were compared"),
        ] {
            if count > 0 {
                text.push_str(&format!("; {count} {what}"));
            }
        }
        text.push('\n');
        for problem in &self.first_problems {
            text.push_str(&format!("problem: {problem}\n"));
        }
        let untold = self.problems - self.first_problems.len() as u64;
        if untold > 0 {
            text.push_str(&format!("and {untold} more problems\n"));
        }
        text
    }
}

/// A key as it is shown.
pub(super) fn shown(key: &[u8]) -> String {
    const SHOWN_MAX: usize = 80;
    let text = key[..key.len().min(SHOWN_MAX)].escape_ascii().to_string();
    if key.len() > SHOWN_MAX { format!("\"{text}…\"") } else { format!("\"{text}\"") }
}

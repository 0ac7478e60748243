//! ACL LOG: what a node has refused for lack of rights.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::VecDeque;

/// For how long the same refusal counts as one, in ms.
const GROUPED_WITHIN_MS: u64 = 60_000;
/// So many of the newest are looked through for the same refusal, as in Redis.
const LOOKED_THROUGH: usize = 10;
/// What is kept of an object or a name, in bytes: clients choose both, and they may be as long as a request.
const NOTED_BYTES_MAX: usize = 1024;

/// An object or a name as it is noted: what is long is cut, between characters.
pub(crate) fn noted(text: &[u8]) -> Cow<'_, [u8]> {
    if text.len() <= NOTED_BYTES_MAX {
        return text.into();
    }
    // A character's bytes behind its first are 10xxxxxx, at most three.
    let is_between = |end: &usize| text[*end] & 0xC0 != 0x80;
    let end = (NOTED_BYTES_MAX - 3..=NOTED_BYTES_MAX).rev().find(is_between).unwrap_or(NOTED_BYTES_MAX);
    [&text[..end], "…".as_bytes()].concat().into()
}

/// Why it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialReason {
    /// The command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// The password, or the user.
    Auth,
    /// The database.
    Database,
}

impl DenialReason {
    /// As ACL LOG shows it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Auth => "auth",
            Self::Database => "database",
        }
    }
}

/// Where the request stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// By itself.
    Toplevel,
    /// Within MULTI.
    Multi,
    /// In a script.
    Lua,
}

impl Where {
    /// As ACL LOG shows it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Toplevel => "toplevel",
            Self::Multi => "multi",
            Self::Lua => "lua",
        }
    }
}

/// One refusal, or several alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedDenial {
    /// Its number.
    pub id: u64,
    /// How often.
    pub count: u64,
    /// Why.
    pub reason: DenialReason,
    /// Where the request stood.
    pub place: Where,
    /// The command, key or channel, cut if it is long.
    pub object: Vec<u8>,
    /// The user.
    pub user: String,
    /// The first time, in ms since the epoch.
    pub first_ms: u64,
    /// The last time, in ms since the epoch.
    pub last_ms: u64,
    /// The client's line of CLIENT LIST, at the last time.
    pub client: String,
}

impl LoggedDenial {
    fn is_like(&self, other: &Self) -> bool {
        self.reason == other.reason
            && self.place == other.place
            && self.object == other.object
            && self.user == other.user
            && other.last_ms.abs_diff(self.last_ms) <= GROUPED_WITHIN_MS
    }
}

/// The newest refusals of a node.
#[derive(Debug, Default)]
pub struct DenialLog {
    state: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The newest first.
    denials: VecDeque<LoggedDenial>,
    next_id: u64,
}

impl DenialLog {
    /// Adds one, whose number and count are given here, and keeps at most so many.
    pub fn add(&self, denial: LoggedDenial, kept_max: usize) {
        let mut state = self.state.lock();
        let alike = state.denials.iter().take(LOOKED_THROUGH).position(|known| known.is_like(&denial));
        let newest = match alike.and_then(|at| state.denials.remove(at)) {
            Some(known) => LoggedDenial { id: known.id, count: known.count + 1, first_ms: known.first_ms, ..denial },
            None => {
                let id = state.next_id;
                state.next_id += 1;
                LoggedDenial { id, count: 1, ..denial }
            }
        };
        state.denials.push_front(newest);
        state.denials.truncate(kept_max);
    }

    /// The newest, at most so many.
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<LoggedDenial> {
        self.state.lock().denials.iter().take(count).cloned().collect()
    }

    /// Forgets them all.
    pub fn clear(&self) {
        self.state.lock().denials.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_characters() {
        let long = |start: &str, end: &str| [start, &"x".repeat(NOTED_BYTES_MAX - start.len()), end].concat();
        for (text, kept) in [
            ("key".to_owned(), "key".to_owned()),
            (long("", ""), long("", "")),
            (long("", "y"), long("", "…")),
            // The last character ends behind the bound.
            (format!("{}äy", "x".repeat(NOTED_BYTES_MAX - 1)), format!("{}…", "x".repeat(NOTED_BYTES_MAX - 1))),
            (format!("{}😀", "x".repeat(NOTED_BYTES_MAX - 3)), format!("{}…", "x".repeat(NOTED_BYTES_MAX - 3))),
        ] {
            assert_eq!(String::from_utf8_lossy(&noted(text.as_bytes())), kept);
        }
        // No text: it is cut all the same.
        assert_eq!(noted(&[0x80; 2 * NOTED_BYTES_MAX]).len(), NOTED_BYTES_MAX + "…".len());
    }
}

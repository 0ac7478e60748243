//! ACL LOG: what a node has refused for lack of rights.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// For how long the same refusal counts as one, in ms.
const GROUPED_WITHIN_MS: u64 = 60_000;
/// So many of the newest are looked through for the same refusal, as in Redis.
const LOOKED_THROUGH: usize = 10;

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
    /// The command, key or channel.
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

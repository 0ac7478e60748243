//! When a write is answered: what has to have happened by then.

use crate::config::Config;

/// How many replicas must hold a write before it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// A majority: an acknowledged write outlives the loss of any minority.
    #[default]
    Majority,
    /// Every voting replica.
    All,
    /// None but the leader: the answer does not wait for the commit. It may be lost with the leader.
    None,
}

impl Acks {
    /// In the order of the setting's words.
    const ALL: [Self; 3] = [Self::Majority, Self::All, Self::None];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Majority => "majority",
            Self::All => "all",
            Self::None => "none",
        }
    }
}

/// What an acknowledged write has behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durability {
    /// Whether the replicas that count have it on disk, or only in the memory of their machines.
    pub sync: bool,
    /// Which replicas count.
    pub acks: Acks,
}

impl Default for Durability {
    fn default() -> Self {
        Self { sync: true, acks: Acks::Majority }
    }
}

impl Durability {
    /// The settings `durability` and `acks`.
    #[must_use]
    pub fn of_settings(config: &Config) -> Self {
        Self { sync: config.sync_writes(), acks: Acks::ALL[config.acks_word().min(Acks::ALL.len() - 1)] }
    }

    /// The word for `sync`.
    #[must_use]
    pub fn sync_word(self) -> &'static str {
        if self.sync { "sync" } else { "nosync" }
    }
}

/// What a connection has chosen for itself; the rest is the store's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChosenDurability {
    sync: Option<bool>,
    acks: Option<Acks>,
}

impl ChosenDurability {
    /// Each word says one thing; nothing may be said twice. `None` if a word says nothing.
    pub(super) fn with(mut self, words: &[&[u8]]) -> Option<Self> {
        let (mut syncs, mut counts) = (0, 0);
        for word in words {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if let Some(acks) = Acks::ALL.into_iter().find(|acks| is(acks.word())) {
                self.acks = Some(acks);
                counts += 1;
            } else if is("sync") || is("nosync") {
                self.sync = Some(is("sync"));
                syncs += 1;
            } else {
                return None;
            }
        }
        (syncs < 2 && counts < 2).then_some(self)
    }

    pub(super) fn or(self, store: Durability) -> Durability {
        Durability { sync: self.sync.unwrap_or(store.sync), acks: self.acks.unwrap_or(store.acks) }
    }
}

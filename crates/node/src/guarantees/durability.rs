//! When a write is answered: what has to have happened by then.

use crate::config::Config;
use resp::table::{CommandSpec, behaviour};

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

/// What a connection, or a request, has chosen for itself; the rest is the store's, or the connection's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChosenDurability {
    sync: Option<bool>,
    acks: Option<Acks>,
}

impl ChosenDurability {
    /// Each word says one thing; nothing may be said twice. `None` if a word says nothing.
    pub(crate) fn with(mut self, words: &[&[u8]]) -> Option<Self> {
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

    /// Takes `DURABILITY word [word]` off the end of a request's words, of which `own` at least are something else. The
    /// second is `None` if it says nothing that can be read.
    pub(crate) fn split<'w, 'a>(words: &'w [&'a [u8]], own: usize) -> (&'w [&'a [u8]], Option<Self>) {
        for said in 1..=2 {
            let Some(at) = words.len().checked_sub(said + 1).filter(|at| *at >= own) else { break };
            if words[at].eq_ignore_ascii_case(b"DURABILITY") {
                return (&words[..at], Self::default().with(&words[at + 1..]));
            }
        }
        (words, Some(Self::default()))
    }

    pub(crate) fn or(self, store: Durability) -> Durability {
        Durability { sync: self.sync.unwrap_or(store.sync), acks: self.acks.unwrap_or(store.acks) }
    }
}

/// What a request asks for by itself: `… DURABILITY word [word]` behind a KV.PUT, KV.DEL or KV.EXEC. What cannot be read
/// asks for nothing; its handler says so.
pub(crate) fn durability_of(spec: &CommandSpec, args: &[&[u8]]) -> ChosenDurability {
    if !spec.does(behaviour::TAKES_DURABILITY) {
        return ChosenDurability::default();
    }
    let args = match args {
        [rest @ .., word, _, _] if word.eq_ignore_ascii_case(b"REQUEST") => rest,
        args => args,
    };
    // The words that the command cannot do without are none of these.
    ChosenDurability::split(args, usize::from(spec.arity.unsigned_abs())).1.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_what_it_needs() {
        let (sync, nosync) = (Some(true), Some(false));
        for (request, expected) in [
            ("KV.PUT k v", (None, None)),
            ("KV.PUT k v DURABILITY nosync", (nosync, None)),
            ("KV.PUT k v TTL 5 durability ALL sync", (sync, Some(Acks::All))),
            ("KV.PUT k v DURABILITY none REQUEST c 1", (None, Some(Acks::None))),
            ("KV.DEL k DURABILITY sync", (sync, None)),
            ("KV.EXEC 1 2 DEL k DURABILITY nosync all request c 1", (nosync, Some(Acks::All))),
            ("KV.PUT k DURABILITY sync", (None, None)),
            ("KV.DEL DURABILITY", (None, None)),
            ("KV.PUT k v DURABILITY most", (None, None)),
            ("SET DURABILITY sync", (None, None)),
        ] {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let spec = resp::table::lookup(args[0]).expect("a command");
            let chosen = durability_of(spec, &args);
            assert_eq!((chosen.sync, chosen.acks), expected, "{request}");
        }
    }
}

//! What a client is promised: of a write, what it has behind it when it is answered (`Durability`); of a read, how old
//! its answer may be (`Consistency`).

use crate::config::Config;
use resp::parse_integer;
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

    /// What `sync_word` and the word of `acks` say, in any order; none if both are not said.
    #[must_use]
    pub fn of_words(words: &[&[u8]]) -> Option<Self> {
        let ChosenDurability { sync, acks } = ChosenDurability::default().with(words)?;
        sync.zip(acks).map(|(sync, acks)| Self { sync, acks })
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

/// How far behind its leader a replica may be that a copy of all databases reads, in ms.
const COPY_LAG_MS: u64 = 2000;

/// How old the answer to a read may be. What cannot be met is an error, never a weaker read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Linearizable: what was written before the read began is seen. Only leaders answer.
    #[default]
    Absolute,
    /// Whatever this node's replica has applied.
    Any,
    /// This node's replica, if it knows that it is not further behind than that.
    Lag {
        /// In ms, at least 1.
        ms: u64,
    },
    /// This node's replica, once it has applied this version: reading one's own writes.
    ///
    /// A token is a version (as KV.PUT answers it) of the shard of the key that is read. Versions of different shards
    /// have nothing to do with each other.
    Version {
        /// The version.
        token: u64,
    },
}

impl Consistency {
    /// The setting `consistency`.
    #[must_use]
    pub fn of_settings(config: &Config) -> Self {
        if config.any_replica_reads() { Self::Any } else { Self::Absolute }
    }

    /// Reads `ABSOLUTE | ANY | LAG ms | VERSION token`; the error is the text of the reply.
    pub fn parse(words: &[&[u8]]) -> Result<Self, &'static str> {
        let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match words {
            [word] if is(word, "ABSOLUTE") => Ok(Self::Absolute),
            [word] if is(word, "ANY") => Ok(Self::Any),
            [word, ms] if is(word, "LAG") => match parse_integer(ms).and_then(|ms| u64::try_from(ms).ok()) {
                Some(ms) if ms > 0 => Ok(Self::Lag { ms }),
                _ => Err("ERR lag is not a positive number of milliseconds"),
            },
            [word, token] if is(word, "VERSION") => {
                let token = parse_integer(token).and_then(|token| u64::try_from(token).ok());
                token.map(|token| Self::Version { token }).ok_or("ERR version is not an integer or out of range")
            }
            _ => Err("ERR syntax error"),
        }
    }

    /// Whether a follower may answer.
    #[must_use]
    pub fn allows_followers(self) -> bool {
        self != Self::Absolute
    }

    /// The error for a read that this node's replica cannot answer so.
    #[must_use]
    pub fn refusal(self) -> String {
        match self {
            Self::Absolute => "CLUSTERDOWN Hash slot not served".to_owned(),
            Self::Any => "STALE this node's replica of the shard holds nothing that can be read yet".to_owned(),
            Self::Lag { ms } => format!("STALE this node's replica may be more than {ms} ms behind its leader"),
            Self::Version { token } => {
                format!("STALE this node's replica has not reached version {token} of the shard")
            }
        }
    }
}

/// The consistency that a request asks for by itself. `None` if it asks for none, or cannot be read (its handler says
/// so): then the connection's counts.
#[must_use]
pub fn consistency_of(spec: &CommandSpec, args: &[&[u8]]) -> Option<Consistency> {
    if spec.does(behaviour::READS_REPLICAS) {
        // On a database, arguments name it.
        return (args.len() > 1).then_some(Consistency::Lag { ms: COPY_LAG_MS });
    }
    if args.len() <= 2 || !spec.does(behaviour::TAKES_CONSISTENCY) {
        return None;
    }
    Consistency::parse(&args[2..]).ok()
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

    #[test]
    fn words_say_what_is_promised() {
        for acks in Acks::ALL {
            for sync in [true, false] {
                let durability = Durability { sync, acks };
                let words = [durability.sync_word().as_bytes(), acks.word().as_bytes()];
                assert_eq!(Durability::of_words(&words), Some(durability));
            }
        }
        for words in [&[&b"sync"[..]][..], &[b"all"], &[b"sync", b"most"], &[b"sync", b"nosync"], &[]] {
            assert_eq!(Durability::of_words(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_request_says_how_old_its_answer_may_be() {
        for (request, expected) in [
            ("KV.GET k", None),
            ("kv.get k any", Some(Consistency::Any)),
            ("KV.GET k ABSOLUTE", Some(Consistency::Absolute)),
            ("KV.GET k LAG 5", Some(Consistency::Lag { ms: 5 })),
            ("KV.GET k VERSION 0", Some(Consistency::Version { token: 0 })),
            ("KV.GET k LAG 0", None),
            ("KV.GET k VERSION", None),
            ("MGET any any any", None),
        ] {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let spec = resp::table::resolve(&args).expect("a command");
            assert_eq!(consistency_of(spec, &args), expected, "{request}");
        }
    }
}

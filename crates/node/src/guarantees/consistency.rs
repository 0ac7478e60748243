//! How old the answer to a read may be.

use crate::config::Config;
use resp::parse_integer;
use resp::table::{CommandSpec, behaviour};

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

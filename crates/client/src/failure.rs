//! What became of a request, and whether it may be made again.

use resp::Frame;

/// Why a request got no reply, or one that says that it was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The server could not be reached.
    Unreachable,
    /// The connection broke.
    Disconnected,
    /// No reply in time.
    TimedOut,
    /// The node has been silent for longer than others would take.
    Stalled,
    /// What came was no reply.
    Protocol,
    /// Another node leads the slot.
    Moved,
    /// The slot has no leader, or the leader has no quorum.
    Down,
    /// The node is not ready yet.
    Loading,
}

impl Failure {
    /// Every one.
    pub const ALL: [Self; 8] = [
        Self::Unreachable,
        Self::Disconnected,
        Self::TimedOut,
        Self::Stalled,
        Self::Protocol,
        Self::Moved,
        Self::Down,
        Self::Loading,
    ];

    /// In one word, for counters: the error's own where there is one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Disconnected => "disconnected",
            Self::TimedOut => "timeout",
            Self::Stalled => "stalled",
            Self::Protocol => "protocol",
            Self::Moved => "MOVED",
            Self::Down => "CLUSTERDOWN",
            Self::Loading => "LOADING",
        }
    }

    /// What an error reply says that refuses a request before anything was done.
    pub(crate) fn of_refusal(line: &[u8]) -> Option<Self> {
        let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        match word {
            b"MOVED" | b"ASK" => Some(Self::Moved),
            b"CLUSTERDOWN" | b"MASTERDOWN" => Some(Self::Down),
            b"LOADING" | b"TRYAGAIN" => Some(Self::Loading),
            _ => None,
        }
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'a> {
    /// The reply, errors that concern the request itself included.
    Reply(Frame<'a>),
    /// It may be made once more: it was surely not done, or doing it twice does no harm.
    Again(Failure),
    /// It may have been done.
    Failed(Failure),
}

/// What doing a request means to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing changes: it may be made again whatever became of it, and any replica may do it.
    Read,
    /// Nothing changes, but a write depends on it: only the leader may do it.
    LeaderRead,
    /// It must not be done twice: when its connection dies, it may have been done.
    Write,
    /// Doing it twice is the same as once: the caller knows, or it bears a request id.
    Repeatable,
}

/// Where reads go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// To the leader: linearizable.
    #[default]
    Leader,
    /// To the nearest replica: it may be behind.
    Any,
}

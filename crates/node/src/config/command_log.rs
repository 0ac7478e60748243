//! The logs of COMMANDLOG, each of which has its settings.

/// Which of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandLogKind {
    /// Commands that took long: SLOWLOG. Their values are µs.
    Slow,
    /// Large requests. Their values are bytes.
    LargeRequest,
    /// Commands with large replies. Their values are bytes.
    LargeReply,
}

impl CommandLogKind {
    /// All of them, as COMMANDLOG names them.
    pub const NAMES: [(&'static str, Self); 3] =
        [("slow", Self::Slow), ("large-request", Self::LargeRequest), ("large-reply", Self::LargeReply)];
}

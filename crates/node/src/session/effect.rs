//! What the shell does after a command of the session.

use resp::table::CommandId;

/// What the shell does once the reply is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Holds this connection's reply, and its later requests, back for so long. Other connections go on.
    ReplyAfter {
        /// How long, in µs.
        us: u64,
        /// The command that asked for it.
        command: CommandId,
    },
    /// Holds this connection's reply back until the other nodes know what this node's clients have subscribed to.
    ReplyOnceKnown {
        /// The command that asked for it.
        command: CommandId,
    },
    /// Holds this connection's reply back until the store has the value that this node has of a setting.
    ReplyOnceStored {
        /// The command that asked for it.
        command: CommandId,
        /// The setting.
        setting: &'static str,
    },
    /// Ends the process; nothing is answered.
    Shutdown {
        /// Without waiting for what is under way.
        now: bool,
        /// Even if something cannot be finished.
        force: bool,
    },
}

impl Effect {
    /// Whether the reply is for later.
    pub(super) fn is_later(self) -> bool {
        matches!(self, Self::ReplyAfter { .. } | Self::ReplyOnceKnown { .. } | Self::ReplyOnceStored { .. })
    }

    /// Both, as far as there are two.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, effect) | (effect, Self::None) => effect,
            (Self::ReplyAfter { us: a, command }, Self::ReplyAfter { us: b, .. }) => {
                Self::ReplyAfter { us: a.saturating_add(b), command }
            }
            (
                stored @ Self::ReplyOnceStored { .. },
                Self::ReplyAfter { .. } | Self::ReplyOnceKnown { .. } | Self::ReplyOnceStored { .. },
            )
            | (Self::ReplyAfter { .. } | Self::ReplyOnceKnown { .. }, stored @ Self::ReplyOnceStored { .. }) => stored,
            (known @ Self::ReplyOnceKnown { .. }, Self::ReplyAfter { .. } | Self::ReplyOnceKnown { .. })
            | (Self::ReplyAfter { .. }, known @ Self::ReplyOnceKnown { .. }) => known,
            (shutdown @ Self::Shutdown { .. }, _) | (_, shutdown @ Self::Shutdown { .. }) => shutdown,
        }
    }
}

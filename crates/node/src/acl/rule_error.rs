//! Why a rule is refused.

/// Why a rule of a user is refused; `text` words it as Redis does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// It names no command or category.
    Unknown,
    /// It cannot be read.
    Syntax,
    /// It adds a pattern of keys to all keys.
    AllKeys,
    /// It adds a pattern of channels to all channels.
    AllChannels,
    /// It removes a password that is none of the user's.
    NoSuchPassword,
    /// It has a hash that is none.
    BadHash,
    /// It allows the first argument of a subcommand.
    ArgumentOfSubcommand,
    /// The user would have more rules than a user may.
    TooLong,
}

impl RuleError {
    /// Its text in an error reply.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::AllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::AllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Self::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::ArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Self::TooLong => "The user would have more rules than a user may",
        }
    }
}

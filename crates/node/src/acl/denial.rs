//! Why a user may not run a request.

use super::denial_log::{DenialReason, noted};
use resp::table::CommandSpec;

/// What of a request its user has no right to. The order is that in which one of several is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The database that it is about.
    Database,
    /// The command.
    Command,
    /// The key at that place among its arguments.
    Key(usize),
    /// The channel at that place among its arguments.
    Channel(usize),
    /// The pattern of SORT's option BY, at that place: it names any keys.
    SortBy(usize),
    /// The pattern of SORT's option GET, at that place.
    SortGet(usize),
}

/// A refusal: what of which command.
#[derive(Clone, Copy, Debug)]
pub struct Denial {
    /// The command.
    pub spec: &'static CommandSpec,
    /// What of it.
    pub subject: Subject,
}

impl Denial {
    /// The text of the error reply.
    #[must_use]
    pub fn text(&self) -> String {
        match self.subject {
            Subject::Command => {
                format!("NOPERM this user has no permissions to run the '{}' command", self.spec.shown_name())
            }
            Subject::Key(_) => {
                "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
            }
            Subject::Channel(_) => {
                "NOPERM this user has no permissions to access one of the channels used as arguments".to_owned()
            }
            Subject::Database => "NOPERM No permissions to access database".to_owned(),
            Subject::SortBy(_) => "ERR BY option of SORT denied due to insufficient ACL permissions.".to_owned(),
            Subject::SortGet(_) => "ERR GET option of SORT denied due to insufficient ACL permissions.".to_owned(),
        }
    }

    /// What EXEC answers for a command that was allowed when it was queued.
    #[must_use]
    pub fn text_at_exec(&self) -> String {
        let why = match self.subject {
            Subject::Command => "no permission to execute the command or subcommand",
            Subject::Key(_) | Subject::SortBy(_) | Subject::SortGet(_) => "no permission to touch the specified keys",
            Subject::Channel(_) => "no permission to access one of the channels used as arguments",
            Subject::Database => "no permission to access the database",
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
             is no longer allowed for the following reason: {why}"
        )
    }

    /// What a script is told whose command is refused.
    #[must_use]
    pub fn text_in_script(&self) -> String {
        let why = match self.subject {
            Subject::Command => "can't run this command or subcommand",
            Subject::Key(_) | Subject::SortBy(_) | Subject::SortGet(_) => {
                "can't access at least one of the keys mentioned in the command arguments"
            }
            Subject::Channel(_) => "can't publish to the channel mentioned in the command",
            Subject::Database => "can't access the database",
        };
        format!("ERR The user executing the script {why}")
    }

    /// What ACL DRYRUN answers.
    #[must_use]
    pub fn text_of_trial(&self, args: &[&[u8]]) -> String {
        let arg = |at: usize| String::from_utf8_lossy(args.get(at).copied().unwrap_or_default()).into_owned();
        match self.subject {
            Subject::Command => {
                format!("This user has no permissions to run the '{}' command", self.spec.shown_name())
            }
            Subject::Key(at) | Subject::SortBy(at) | Subject::SortGet(at) => {
                format!("This user has no permissions to access the '{}' key", arg(at))
            }
            Subject::Channel(at) => format!("This user has no permissions to access the '{}' channel", arg(at)),
            Subject::Database => "This user has no permissions to access the database".to_owned(),
        }
    }

    /// What ACL LOG has of it: the reason, and the object, cut if it is long.
    #[must_use]
    pub fn logged(&self, args: &[&[u8]]) -> (DenialReason, Vec<u8>) {
        let arg = |at: usize| noted(vocab::client_key(args.get(at).copied().unwrap_or_default())).into_owned();
        match self.subject {
            Subject::Command => (DenialReason::Command, self.spec.shown_name().into_bytes()),
            Subject::Key(at) | Subject::SortBy(at) | Subject::SortGet(at) => (DenialReason::Key, arg(at)),
            Subject::Channel(at) => (DenialReason::Channel, arg(at)),
            Subject::Database => (DenialReason::Database, self.spec.shown_name().into_bytes()),
        }
    }
}

//! One command of the session under way: what it is given, and how it ends.

use crate::session::{Effect, Host, Session};
use crate::stats::WorkerStats;
use resp::Reply;
use resp::table::CommandSpec;
use std::borrow::Cow;

/// One command under way.
pub(in crate::session) struct Ask<'a> {
    pub(in crate::session) session: &'a mut Session,
    pub(in crate::session) host: &'a dyn Host,
    pub(in crate::session) spec: &'static CommandSpec,
    /// The request; its length has been checked.
    pub(in crate::session) args: &'a [&'a [u8]],
    pub(in crate::session) reply: &'a mut Reply,
}

impl Ask<'_> {
    /// The time, in ms since the epoch.
    pub(super) fn now_ms(&self) -> u64 {
        self.host.now_us() / 1000
    }

    /// The counters of the worker that the connection belongs to.
    pub(in crate::session) fn stats(&self) -> &WorkerStats {
        self.host.stats().worker(self.session.entry().worker)
    }
}

/// The text of an error reply, its code first.
pub(super) type Refusal = Cow<'static, str>;

pub(super) type Outcome = Result<Effect, Refusal>;

/// Runs a command of the session.
pub(in crate::session) type SessionHandler = fn(&mut Ask<'_>) -> Outcome;

/// A command's name in the command table, and what runs it.
pub(super) type Row = (&'static str, SessionHandler);

pub(super) const SYNTAX: Refusal = Cow::Borrowed("ERR syntax error");
pub(super) const NOT_INTEGER: Refusal = Cow::Borrowed("ERR value is not an integer or out of range");

/// Whether `arg` is the option `word` (upper case), in any case.
pub(super) fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The error about a subcommand that is not known so, or not at all.
pub(super) fn wrong_arguments(ask: &Ask<'_>, container: &str) -> Refusal {
    let word = ask.args[1];
    let word = shown(&word[..word.len().min(128)]);
    format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try {container} HELP.").into()
}

/// The client's bytes in an error text.
pub(super) fn shown(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

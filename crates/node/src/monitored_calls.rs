//! What is told of the commands that scripts run: to monitors, to the counters of commands, and to the logs of refusals.

use crate::acl::{Denial, DenialReason};
use crate::monitors::monitored;
use crate::stats::EndedCall;
use resp::table::CommandSpec;
use vocab::limits::{DENIED_CALLS_MAX, MONITORED_CALLS_MAX};

/// How much of it there is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallsLen {
    lines: usize,
    ended: usize,
    denied: usize,
}

/// A command of a script that its user may not run.
#[derive(Clone, Debug)]
pub struct DeniedCall {
    /// Which item of its entry the script is; none where it is a read.
    pub(crate) item: Option<usize>,
    /// The command.
    pub(crate) spec: &'static CommandSpec,
    /// What of it was refused.
    pub(crate) reason: DenialReason,
    /// The command, key or channel.
    pub(crate) object: Vec<u8>,
}

/// A command of a script, as monitors are shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCall {
    /// Which item of its entry the script is; none where it is a read.
    pub item: Option<usize>,
    /// The line.
    pub line: Vec<u8>,
}

/// Lines for monitors, one a command, in the order in which the commands ran, empty where no client monitors; and how the commands ended.
/// The budget of a script bounds how many there are.
#[derive(Debug, Default)]
pub struct MonitoredCalls {
    is_shown: bool,
    is_counted: bool,
    lines: Vec<ShownCall>,
    ended: Vec<EndedCall>,
    item: Option<usize>,
    denied: Vec<DeniedCall>,
}

impl MonitoredCalls {
    /// Commands are counted, and shown if a client monitors.
    pub(crate) fn new(is_shown: bool) -> Self {
        Self { is_shown, is_counted: true, ..Self::default() }
    }

    /// A script runs a command at that time, in the database that it has chosen, by the number that clients use. Those behind the first
    /// `MONITORED_CALLS_MAX` are left out.
    pub(crate) fn note(&mut self, now_ms: u64, database: u16, spec: &CommandSpec, args: &[&[u8]]) {
        if self.is_shown && self.lines.len() < MONITORED_CALLS_MAX {
            let item = self.item;
            let line = monitored(now_ms.saturating_mul(1000), (database, "lua"), spec, args);
            self.lines.extend(line.map(|line| ShownCall { item, line }));
        }
    }

    /// The command has ended.
    pub(crate) fn ended(&mut self, call: EndedCall) {
        if self.is_counted {
            self.ended.push(call);
        }
    }

    /// What runs from here on is of that item of the entry.
    pub(crate) fn of_item(&mut self, item: Option<usize>) {
        self.item = item;
    }

    /// A command was refused. Those behind the first `DENIED_CALLS_MAX` are left out.
    pub(crate) fn denied(&mut self, denial: &Denial, args: &[&[u8]]) {
        if self.is_counted && self.denied.len() < DENIED_CALLS_MAX {
            let (reason, object) = denial.logged(args);
            self.denied.push(DeniedCall { item: self.item, spec: denial.spec, reason, object });
        }
    }

    /// The refusals, which are taken out.
    pub fn take_denied(&mut self) -> Vec<DeniedCall> {
        std::mem::take(&mut self.denied)
    }

    /// How much is noted.
    pub(crate) fn len(&self) -> CallsLen {
        CallsLen { lines: self.lines.len(), ended: self.ended.len(), denied: self.denied.len() }
    }

    /// What is behind `len` did not happen.
    pub(crate) fn truncate(&mut self, len: CallsLen) {
        self.lines.truncate(len.lines);
        self.ended.truncate(len.ended);
        self.denied.truncate(len.denied);
    }

    /// All of it, which is taken out.
    pub(crate) fn take(&mut self) -> Self {
        let (is_shown, is_counted, item) = (self.is_shown, self.is_counted, self.item);
        std::mem::replace(self, Self { is_shown, is_counted, item, ..Self::default() })
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.ended.is_empty() && self.denied.is_empty()
    }

    /// How the commands ended.
    #[must_use]
    pub fn all_ended(&self) -> &[EndedCall] {
        &self.ended
    }

    /// What monitors are shown, in its order.
    #[must_use]
    pub fn into_lines(self) -> Vec<ShownCall> {
        self.lines
    }
}

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
    item: Option<usize>,
    /// Behind a pointer: every entry has one of these with it, and few have a script.
    noted: Option<Box<Noted>>,
}

/// What was noted.
#[derive(Debug, Default)]
struct Noted {
    lines: Vec<ShownCall>,
    ended: Vec<EndedCall>,
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
        if self.is_shown && self.len().lines < MONITORED_CALLS_MAX {
            let item = self.item;
            let line = monitored(now_ms.saturating_mul(1000), (database, "lua"), spec, args);
            self.noted().lines.extend(line.map(|line| ShownCall { item, line }));
        }
    }

    /// The command has ended.
    pub(crate) fn ended(&mut self, call: EndedCall) {
        if self.is_counted {
            self.noted().ended.push(call);
        }
    }

    /// What runs from here on is of that item of the entry.
    pub(crate) fn of_item(&mut self, item: Option<usize>) {
        self.item = item;
    }

    /// A command was refused. Those behind the first `DENIED_CALLS_MAX` are left out.
    pub(crate) fn denied(&mut self, denial: &Denial, args: &[&[u8]]) {
        if self.is_counted && self.len().denied < DENIED_CALLS_MAX {
            let (item, (reason, object)) = (self.item, denial.logged(args));
            self.noted().denied.push(DeniedCall { item, spec: denial.spec, reason, object });
        }
    }

    /// The refusals, which are taken out.
    pub fn take_denied(&mut self) -> Vec<DeniedCall> {
        self.noted.as_mut().map(|noted| std::mem::take(&mut noted.denied)).unwrap_or_default()
    }

    /// How much is noted.
    pub(crate) fn len(&self) -> CallsLen {
        self.noted.as_ref().map_or_else(CallsLen::default, |noted| CallsLen {
            lines: noted.lines.len(),
            ended: noted.ended.len(),
            denied: noted.denied.len(),
        })
    }

    /// What is behind `len` did not happen.
    pub(crate) fn truncate(&mut self, len: CallsLen) {
        if let Some(noted) = &mut self.noted {
            noted.lines.truncate(len.lines);
            noted.ended.truncate(len.ended);
            noted.denied.truncate(len.denied);
        }
    }

    /// All of it, which is taken out.
    pub(crate) fn take(&mut self) -> Self {
        let (is_shown, is_counted, item) = (self.is_shown, self.is_counted, self.item);
        std::mem::replace(self, Self { is_shown, is_counted, item, ..Self::default() })
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let of = |noted: &Noted| noted.lines.is_empty() && noted.ended.is_empty() && noted.denied.is_empty();
        self.noted.as_deref().is_none_or(of)
    }

    /// How the commands ended.
    #[must_use]
    pub fn all_ended(&self) -> &[EndedCall] {
        self.noted.as_ref().map_or(&[], |noted| &noted.ended)
    }

    /// What monitors are shown, in its order.
    #[must_use]
    pub fn into_lines(self) -> Vec<ShownCall> {
        self.noted.map(|noted| noted.lines).unwrap_or_default()
    }

    fn noted(&mut self) -> &mut Noted {
        self.noted.get_or_insert_default()
    }
}

//! What is told of the commands that scripts run: to monitors, and to the counters of commands.

use crate::monitors::monitored;
use crate::stats::EndedCall;
use resp::table::CommandSpec;
use vocab::limits::MONITORED_CALLS_MAX;

/// How much of it there is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallsLen {
    lines: usize,
    ended: usize,
}

/// Lines for monitors, one a command, in the order in which the commands ran, empty where no client monitors; and how the commands ended.
/// The budget of a script bounds how many there are.
#[derive(Debug, Default)]
pub struct MonitoredCalls {
    is_shown: bool,
    is_counted: bool,
    lines: Vec<Vec<u8>>,
    ended: Vec<EndedCall>,
}

impl MonitoredCalls {
    /// Commands are counted, and shown if a client monitors.
    pub(crate) fn new(is_shown: bool) -> Self {
        Self { is_shown, is_counted: true, lines: Vec::new(), ended: Vec::new() }
    }

    /// A script runs a command at that time. Those behind the first `MONITORED_CALLS_MAX` are left out.
    pub(crate) fn note(&mut self, now_ms: u64, spec: &CommandSpec, args: &[&[u8]]) {
        if self.is_shown && self.lines.len() < MONITORED_CALLS_MAX {
            self.lines.extend(monitored(now_ms.saturating_mul(1000), "lua", spec, args));
        }
    }

    /// The command has ended.
    pub(crate) fn ended(&mut self, call: EndedCall) {
        if self.is_counted {
            self.ended.push(call);
        }
    }

    /// How much is noted.
    pub(crate) fn len(&self) -> CallsLen {
        CallsLen { lines: self.lines.len(), ended: self.ended.len() }
    }

    /// What is behind `len` did not happen.
    pub(crate) fn truncate(&mut self, len: CallsLen) {
        self.lines.truncate(len.lines);
        self.ended.truncate(len.ended);
    }

    /// All of it, which is taken out.
    pub(crate) fn take(&mut self) -> Self {
        Self { lines: std::mem::take(&mut self.lines), ended: std::mem::take(&mut self.ended), ..*self }
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.ended.is_empty()
    }

    /// How the commands ended.
    #[must_use]
    pub fn all_ended(&self) -> &[EndedCall] {
        &self.ended
    }

    /// The lines.
    #[must_use]
    pub fn into_lines(self) -> Vec<Vec<u8>> {
        self.lines
    }
}

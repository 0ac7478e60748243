//! What monitors are to see of the commands that scripts run.

use crate::monitors::monitored;
use resp::table::CommandSpec;
use vocab::limits::MONITORED_CALLS_MAX;

/// Lines for monitors, one a command, in the order in which the commands ran; empty where no client monitors.
#[derive(Debug, Default)]
pub struct MonitoredCalls {
    is_wanted: bool,
    lines: Vec<Vec<u8>>,
}

impl MonitoredCalls {
    /// What is noted of commands, if a client monitors.
    pub(crate) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, lines: Vec::new() }
    }

    /// A script runs a command at that time. Those behind the first `MONITORED_CALLS_MAX` are left out.
    pub(crate) fn note(&mut self, now_ms: u64, spec: &CommandSpec, args: &[&[u8]]) {
        if self.is_wanted && self.lines.len() < MONITORED_CALLS_MAX {
            self.lines.extend(monitored(now_ms.saturating_mul(1000), "lua", spec, args));
        }
    }

    /// How many are noted.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Those behind the first `len` did not happen.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.lines.truncate(len);
    }

    /// The lines, which are taken out.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.lines)
    }
}

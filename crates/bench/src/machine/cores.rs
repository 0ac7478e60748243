//! How busy a machine is, with all of its processes.

use std::fs;

/// What the cores had done by some moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CoreTime {
    all: f64,
    idle: f64,
    stolen: f64,
}

/// Linux counts in hundredths of a second, whatever the kernel's own tick.
pub(crate) const TICKS_PER_S: f64 = 100.0;

impl CoreTime {
    /// As of now; none where the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// As of now, where this process may use all of the machine's cores: else others may be busy beside it.
    pub(crate) fn of_ours() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let ours = std::thread::available_parallelism().map_or(0, usize::from);
        Self::parse(&stat).filter(|_| cores(&stat) == ours)
    }

    /// From the text of /proc/stat. Waiting for a disk is idling.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times: Vec<f64> = line.split_whitespace().map_while(|time| time.parse().ok()).collect();
        let idle = times.get(3)? + times.get(4)?;
        // Guests' time is in their users' already.
        Some(Self { all: times.iter().take(8).sum(), idle, stolen: times.get(7).copied().unwrap_or(0.0) })
    }

    /// Seconds that all cores together have been busy for this machine since `before`.
    pub(crate) fn busy_s_since(self, before: Self) -> f64 {
        let busy = |time: Self| time.all - time.idle - time.stolen;
        (busy(self) - busy(before)).max(0.0) / TICKS_PER_S
    }

    /// Seconds since `before` in which this machine had something to do on a core and its host gave the core to another.
    pub(crate) fn stolen_s_since(self, before: Self) -> f64 {
        (self.stolen_s() - before.stolen_s()).max(0.0)
    }

    /// Seconds that the host has given to others since the machine came up.
    pub(crate) fn stolen_s(self) -> f64 {
        self.stolen / TICKS_PER_S
    }

    /// The share of the time since `before` in which the cores were busy, or not to be had.
    pub(crate) fn busy_since(self, before: Self) -> Option<f64> {
        let all = self.all - before.all;
        (all > 0.0).then(|| (1.0 - (self.idle - before.idle) / all).clamp(0.0, 1.0))
    }
}

/// How many cores /proc/stat tells of.
fn cores(stat: &str) -> usize {
    let is_core =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    stat.lines().filter(is_core).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_stat() {
        let before = CoreTime::parse("cpu  10 0 10 70 10 0 0 10 5 0\ncpu0 1 2 3\n");
        let after = CoreTime::parse("cpu  30 0 20 120 20 0 0 20 5 0\n");
        let busy = after.zip(before).and_then(|(after, before)| after.busy_since(before));
        assert_eq!(busy, Some(0.4));
        assert_eq!(after.zip(before).map(|(after, before)| after.busy_s_since(before)), Some(0.3));
        assert_eq!(after.zip(before).map(|(after, before)| after.stolen_s_since(before)), Some(0.1));
        assert_eq!(CoreTime::parse("intr 5"), None);
        assert_eq!(cores("cpu  1 2\ncpu0 1 2\ncpu1 1 2\nintr 5\n"), 2);
    }
}

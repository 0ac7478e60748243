//! How busy a machine is, whoever uses it.

use std::fs;

/// What the cores had done by some moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CoreTime {
    all: f64,
    idle: f64,
}

impl CoreTime {
    /// As of now; none where the system does not tell.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// From the text of /proc/stat. Waiting for a disk is idling.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times: Vec<f64> = line.split_whitespace().map_while(|time| time.parse().ok()).collect();
        let idle = times.get(3)? + times.get(4)?;
        // Guests' time is in their users' already.
        Some(Self { all: times.iter().take(8).sum(), idle })
    }

    /// The share of the time since `before` in which the cores were busy.
    pub(super) fn busy_since(self, before: Self) -> Option<f64> {
        let all = self.all - before.all;
        (all > 0.0).then(|| (1.0 - (self.idle - before.idle) / all).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_stat() {
        let before = CoreTime::parse("cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1 2 3\n");
        let after = CoreTime::parse("cpu  40 0 20 120 20 0 0 0 5 0\n");
        let busy = after.zip(before).and_then(|(after, before)| after.busy_since(before));
        assert_eq!(busy, Some(0.4));
        assert_eq!(CoreTime::parse("intr 5"), None);
    }
}

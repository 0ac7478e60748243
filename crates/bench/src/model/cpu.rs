//! Who used how much of the cores while a phase was measured.

use serde::{Deserialize, Serialize};

/// CPU time by whose it is. Client and server apart when they are two processes, `process` when they are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// The load generator's, when the store is another process.
    pub client: Option<CpuTime>,
    /// The store's, when it is another process that tells.
    pub server: Option<CpuTime>,
    /// Client and embedded store together.
    pub process: Option<CpuTime>,
    /// Seconds in which this machine's cores were busy, with any process; none where all of the load came from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_s: Option<f64>,
    /// What a host took from this machine's cores for others while it had something to do; none where `machine_s` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_s: Option<f64>,
}

/// CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Seconds in user mode.
    pub user_s: f64,
    /// Seconds in the kernel.
    pub system_s: f64,
}

impl CpuTime {
    /// User and kernel together.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

impl CpuUse {
    /// A host that takes more than this share of the machine's cores for others takes part in the figures: it comes in
    /// bursts, in which the disk is slower too.
    pub const STOLEN_SHARE_MAX: f64 = 0.03;

    /// The share of the time of `cores` cores in `duration_s` that a host took for others; 0 where it is not known.
    #[must_use]
    pub fn stolen_share(&self, duration_s: f64, cores: u32) -> f64 {
        self.stolen_s.map_or(0.0, |stolen| stolen / (duration_s.max(1e-9) * f64::from(cores.max(1))))
    }

    /// All CPU time that is known: the process's, or client's and server's together.
    #[must_use]
    pub fn total_s(&self) -> Option<f64> {
        let known = [self.client, self.server, self.process];
        known.iter().flatten().map(CpuTime::total_s).reduce(|sum, next| sum + next)
    }

    /// What others used of this machine meanwhile, the kernel's own threads among them. None where the store's part is not
    /// known, or not all of it was here.
    #[must_use]
    pub fn others_s(&self) -> Option<f64> {
        let ours = match (self.process, self.client, self.server) {
            (Some(process), _, _) => process.total_s(),
            (None, Some(client), Some(server)) => client.total_s() + server.total_s(),
            _ => return None,
        };
        self.machine_s.map(|machine| (machine - ours).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_what_is_left_of_the_machine() {
        let time = |user_s| Some(CpuTime { user_s, system_s: 0.5 });
        let known = CpuUse { client: time(1.0), server: time(2.0), machine_s: Some(6.0), ..CpuUse::default() };
        assert_eq!(known.others_s(), Some(2.0));
        assert_eq!(CpuUse { machine_s: Some(1.0), ..known }.others_s(), Some(0.0));
        assert_eq!(CpuUse { server: None, ..known }.others_s(), None);
        assert_eq!(CpuUse { process: time(5.0), machine_s: Some(6.0), ..CpuUse::default() }.others_s(), Some(0.5));
    }
}

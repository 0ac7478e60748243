//! What a coordinator and an agent tell each other. Times are nanoseconds of the agent's own clock, which only runs
//! forward and begins when its process does.

use serde::{Deserialize, Serialize};

use super::job::Job;
use crate::driver::{ShareFigures, SyncPoint};

/// What every hello begins with, so that another program that listens there is recognised.
pub(crate) const MAGIC: &str = "basalt bench";
/// It grows by one when the two sides would misunderstand each other.
pub(crate) const PROTOCOL: u32 = 3;

/// What both sides say first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) magic: String,
    pub(crate) protocol: u32,
    /// The program's version.
    pub(crate) version: String,
    /// Random, and never used again.
    pub(crate) nonce: [u8; 32],
}

/// From the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToAgent {
    /// Who I am.
    Hello(Hello),
    /// I know the secret.
    Proof([u8; 32]),
    /// What time is it?
    Ping(u64),
    /// Get ready to do this.
    Prepare(Box<Job>),
    /// The phase begins at this time.
    Begin { at_ns: u64 },
    /// All are here: go on.
    Go(SyncPoint),
    /// End it.
    Stop,
}

/// From the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FromAgent {
    /// Who I am.
    Hello(Hello),
    /// I know the secret, too.
    Welcome([u8; 32]),
    /// No, and why.
    Refused(String),
    /// The time.
    Pong { token: u64, at_ns: u64, unix_ns: u64 },
    /// The target answers, and everything is planned.
    Ready { threads: u32, cores: u32 },
    /// All my threads are here.
    At(SyncPoint),
    /// How far I am.
    Told { done: u64, settled: u64 },
    /// What happened in one second: one kind of operation.
    Second {
        second: u64,
        op: String,
        failures: u64,
        #[serde(with = "crate::as_base64")]
        histogram: [Vec<u8>; 1],
    },
    /// It is over.
    Done(Box<Done>),
}

/// What came of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    /// When the phase began.
    pub(crate) start_ns: u64,
    /// When its measured part began, if it came so far.
    pub(crate) measured_ns: Option<u64>,
    /// When its last operation ended.
    pub(crate) end_ns: u64,
    /// How busy all cores of the machine were meanwhile, 0 to 1, where it tells.
    pub(crate) machine_busy: Option<f64>,
    pub(crate) figures: ShareFigures,
}

//! What this node reports to the director.

use crate::os::{now_ms, process_facts};
use crate::shared::NodeShared;
use crate::snapshots::{Direction, TransferStatus};
use node::peer_protocol::{NodeFigures, NodeReport, ReplicaReport, TransferReport};
use replica::DiskState;
use vocab::limits::{REPORT_REPLICAS_MAX, REPORT_TRANSFERS_MAX};

/// Makes reports, each of some of the replicas.
#[derive(Default)]
pub(super) struct Reporter {
    /// The shard that comes next.
    next: u32,
    /// Bytes of the trees that were reported since the first shard.
    counted: u64,
    /// Bytes of all trees, as of the last time that all were reported.
    trees: u64,
}

impl Reporter {
    pub(super) fn next(&mut self, store: &NodeShared) -> NodeReport {
        let known = store.known();
        let mut replicas: Vec<ReplicaReport> = Vec::new();
        let from = known.replicas().filter(|(_, handle)| handle.id().0 >= self.next).take(REPORT_REPLICAS_MAX);
        replicas.extend(from.map(|(id, handle)| handle.report(id)));
        self.counted += replicas.iter().map(|replica| replica.bytes).sum::<u64>();
        self.next = match replicas.last() {
            Some(last) if replicas.len() == REPORT_REPLICAS_MAX => last.shard.0 + 1,
            _ => {
                self.trees = std::mem::take(&mut self.counted);
                0
            }
        };
        let room = REPORT_REPLICAS_MAX - replicas.len().min(REPORT_REPLICAS_MAX);
        let damaged = store.reconcile.all_damaged().into_iter().take(room);
        replicas.extend(damaged.map(|damaged| ReplicaReport::broken(damaged.shard, damaged.replica, damaged.why)));
        NodeReport { figures: self.figures(store), replicas, transfers: transfers(store) }
    }

    fn figures(&self, store: &NodeShared) -> NodeFigures {
        let process = process_facts();
        let free = rustix::fs::statvfs(store.dir.root()).map_or(0, |device| device.f_bavail * device.f_frsize);
        NodeFigures {
            started_ms: store.started_ms,
            disk_bytes: self.trees + store.log.disk_bytes(),
            disk_free_bytes: free,
            can_write: store.health.state() == DiskState::Healthy,
            clock_skew_ms: store.clock.skew_ms(),
            clock_is_off: store.clock.is_off(),
            wants_rebuild: store.reconcile.wants_rebuild(),
            rss_bytes: process.rss_bytes.unwrap_or(0),
            cpu_us: process.cpu_user_us.unwrap_or(0) + process.cpu_system_us.unwrap_or(0),
            commands: store.stats.totals().commands,
            errors: store.stats.errors().values().sum(),
            clients: store.clients.count() as u64,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            problems: store.tls.problems((now_ms() / 1000) as i64),
        }
    }
}

fn transfers(store: &NodeShared) -> Vec<TransferReport> {
    let all = store.snapshots.get().map(|snapshots| snapshots.transfers()).unwrap_or_default();
    let report = |of: &TransferStatus| TransferReport {
        shard: of.shard,
        peer: of.peer,
        inbound: of.direction == Direction::In,
        bytes: of.bytes,
        bytes_approx: of.bytes_approx,
        rate: of.rate,
    };
    all.iter().take(REPORT_TRANSFERS_MAX).map(report).collect()
}

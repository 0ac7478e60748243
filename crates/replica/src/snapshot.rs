//! A replica that takes its rows from another one, and the log that begins after them.

use crate::error::{Error, Result};
use crate::log_store::{GroupState, LogStore};
use crate::log_write::{Install, LogWrite};
use crate::ready::SnapshotPoint;
use vocab::ShardId;

/// A snapshot that raft-rs has accepted and whose rows are on their way into the tree.
pub(crate) struct Installing {
    pub(crate) point: SnapshotPoint,
    /// The turn that said so.
    pub(crate) number: u64,
    /// The tree has them.
    pub(crate) done: bool,
}

/// Brings the log in step with a tree into which a snapshot was installed right before a crash.
pub(crate) fn restart_after(
    log: &dyn LogStore,
    shard: ShardId,
    state: &mut GroupState,
    applied: u64,
    point: &SnapshotPoint,
) -> Result<()> {
    let (first, last) = state.bounds;
    let held = match point.index {
        index if index < state.truncated.0 => true,
        index if index == state.truncated.0 => state.truncated.1 == point.term,
        index if (first..=last).contains(&index) => {
            log.fetch(shard, index, index + 1, 1)?.first().is_some_and(|entry| entry.term == point.term)
        }
        _ => false,
    };
    if held {
        return Ok(());
    }
    if applied != point.index {
        return Err(Error::Corrupt(format!(
            "the tree of shard {shard} holds a snapshot of entry {} and entries up to {applied}, the log has not got \
             that far: log files are missing",
            point.index
        )));
    }
    let mut hard_state = state.hard_state.clone();
    hard_state.commit = point.index;
    hard_state.term = hard_state.term.max(point.term);
    let conf_state = point.conf_state.clone();
    let install = Install { replica: state.replica, index: point.index, term: point.term, conf_state, hard_state };
    *state = GroupState {
        replica: install.replica,
        hard_state: install.hard_state.clone(),
        conf_state: install.conf_state.clone(),
        conf_index: install.index,
        truncated: (install.index, install.term),
        bounds: (install.index + 1, install.index),
    };
    let mut write = LogWrite::default();
    write.install(shard, install);
    log.write(write, true)
}

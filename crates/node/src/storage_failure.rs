//! What a storage call that has failed means for its node: the same for a server's threads and for the simulator.

use crate::ShardHandle;
use replica::DiskHealth;
use storage::Error;

/// Whether a call failed for want of room, descriptors or memory: nothing was written, and it may be made again. What
/// lacks is noted: writes are refused until it is there.
pub fn note_lack(health: &DiskHealth, error: &Error) -> bool {
    match error {
        Error::Full { .. } => health.set_full(&error.to_string()),
        passing if passing.is_passing() => health.set_short(&error.to_string()),
        _ => return false,
    }
    true
}

/// A flush, a compaction or the like has failed. Only what leaves in doubt what the disk holds poisons the node.
pub fn note_failure(handle: &ShardHandle, health: &DiskHealth, error: &Error) {
    if note_lack(health, error) {
        return;
    }
    match error {
        // Reads of damaged data answer errors by themselves; the rest of the store goes on.
        Error::Corrupt { .. } => handle.damage().note(handle.id(), error),
        Error::Mismatch { .. } | Error::ManyRemovals => log::error!("{error}"),
        Error::Full { .. } | Error::Io { .. } | Error::Poisoned { .. } => health.poison(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replica::DiskState;
    use std::io;

    #[test]
    fn what_passes_is_told_from_what_a_disk_says() {
        let path = || "shards/3".into();
        let io = |number: i32| Error::Io { path: path(), source: io::Error::from_raw_os_error(number) };
        // ENOMEM, ENFILE, EMFILE, EINTR, EAGAIN; EIO.
        for (error, state) in [
            (Error::Full { path: path() }, Some(DiskState::Full)),
            (io(12), Some(DiskState::Short)),
            (io(23), Some(DiskState::Short)),
            (io(24), Some(DiskState::Short)),
            (io(4), Some(DiskState::Short)),
            (io(11), Some(DiskState::Short)),
            (io(5), None),
            (Error::Poisoned { detail: "an fsync failed".to_owned() }, None),
        ] {
            let health = DiskHealth::default();
            assert_eq!(note_lack(&health, &error), state.is_some(), "{error}");
            assert_eq!(health.state(), state.unwrap_or(DiskState::Healthy), "{error}");
        }
    }
}

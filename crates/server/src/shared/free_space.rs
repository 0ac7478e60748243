//! The free space of the data directory's device, and the reserve that is kept of it.

use std::path::Path;
use storage::Room;

/// The most that is kept in reserve, so that what is in memory can still go to files.
const RESERVE_BYTES: u64 = 64 << 20;
/// On a small device the reserve is this part of it.
const RESERVE_PART: u64 = 16;

/// The free space of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeSpace {
    pub(crate) free_bytes: u64,
    /// Below so many free bytes writes are refused.
    pub(crate) reserve_bytes: u64,
}

impl FreeSpace {
    /// The free space of the device of `root`.
    pub(crate) fn of(root: &Path) -> rustix::io::Result<Self> {
        let device = rustix::fs::statvfs(root)?;
        Ok(Self::new(device.f_bavail * device.f_frsize, device.f_blocks * device.f_frsize))
    }

    fn new(free_bytes: u64, device_bytes: u64) -> Self {
        Self { free_bytes, reserve_bytes: RESERVE_BYTES.min(device_bytes / RESERVE_PART) }
    }

    /// Less is free than what is kept in reserve.
    pub(crate) fn is_short(&self) -> bool {
        self.free_bytes < self.reserve_bytes
    }

    /// So much is free that writes can be taken again. The gap to `is_short` keeps the state from flapping.
    pub(crate) fn is_ample(&self) -> bool {
        self.free_bytes > self.reserve_bytes + self.reserve_bytes / 4
    }

    /// What rewrites of trees may take of it. While writes are refused, that is half of the reserve too: what is in memory grows no
    /// more then, and rewrites are what makes room.
    pub(crate) fn room(&self, refuses_writes: bool) -> Room {
        let half_bytes = self.reserve_bytes / 2;
        let kept_bytes = if refuses_writes { half_bytes } else { self.reserve_bytes };
        Room {
            spare_bytes: self.free_bytes.saturating_sub(kept_bytes),
            is_short: refuses_writes,
            is_exhausted: self.free_bytes < half_bytes,
        }
    }

    /// More is free than `times` the reserve.
    pub(crate) fn exceeds_reserve_times(&self, times: u64) -> bool {
        self.free_bytes / times > self.reserve_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ample_and_between() {
        const GB: u64 = 1 << 30;
        const MB: u64 = 1 << 20;
        for (free, device, short, ample, eight_times) in [
            (100 * GB, 200 * GB, false, true, true),
            (64 * MB - 1, 200 * GB, true, false, false),
            (64 * MB, 200 * GB, false, false, false),
            (80 * MB, 200 * GB, false, false, false),
            (80 * MB + 1, 200 * GB, false, true, false),
            // A sixteenth of a small device.
            (9 * MB, 160 * MB, true, false, false),
            (81 * MB, 160 * MB, false, true, true),
        ] {
            let space = FreeSpace::new(free, device);
            let is = (space.is_short(), space.is_ample(), space.exceeds_reserve_times(8));
            assert_eq!(is, (short, ample, eight_times), "{free} of {device}");
        }
    }

    #[test]
    fn rewrites_have_what_is_not_kept_and_half_of_that_while_writes_are_refused() {
        const MB: u64 = 1 << 20;
        for (free, refuses_writes, spare, is_exhausted) in [
            (1000 * MB, false, 936 * MB, false),
            (64 * MB, false, 0, false),
            (40 * MB, false, 0, false),
            (40 * MB, true, 8 * MB, false),
            (32 * MB - 1, true, 0, true),
            (0, false, 0, true),
        ] {
            let room = FreeSpace::new(free, 1 << 40).room(refuses_writes);
            let expected = Room { spare_bytes: spare, is_short: refuses_writes, is_exhausted };
            assert_eq!(room, expected, "{free} {refuses_writes}");
        }
    }
}

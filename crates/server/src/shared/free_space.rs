//! The free space of the data directory's device, and the reserve that is kept of it.

use std::path::Path;

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
}

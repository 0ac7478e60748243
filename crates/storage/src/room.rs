//! The room that rewrites may take of the device, shared by all trees of a node.
//!
//! A rewrite frees what it has read once all that it writes is there. So it claims what it needs at the most before it begins: what
//! finds no room only when it has filled the device takes the room of the log and of flushes, gives it back, and begins again.
//!
//! Invariant: what is claimed was spare when it was claimed. What a rewrite has written already counts twice until it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// What a device has room for. The node looks now and then, and says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that rewrites may take, all together.
    pub spare_bytes: u64,
    /// Writes are refused for want of room: only a rewrite that has claimed what it needs begins.
    pub is_short: bool,
    /// What is left is the log's and flushes': rewrites under way end.
    pub is_exhausted: bool,
}

impl Default for Room {
    /// As long as nothing is said: writing tells.
    fn default() -> Self {
        Self { spare_bytes: u64::MAX, is_short: false, is_exhausted: false }
    }
}

/// The room, and what is claimed of it.
#[derive(Default)]
pub(crate) struct SharedRoom {
    state: Mutex<RoomState>,
    is_exhausted: AtomicBool,
}

#[derive(Default)]
struct RoomState {
    room: Room,
    claimed_bytes: u64,
}

/// Room that one rewrite may take, until this is dropped.
pub(crate) struct RoomClaim<'a> {
    room: &'a SharedRoom,
    bytes: u64,
}

impl SharedRoom {
    pub(crate) fn set(&self, room: Room) {
        self.state().room = room;
        self.is_exhausted.store(room.is_exhausted, Ordering::Relaxed);
    }

    /// Whether a rewrite of so many bytes could begin.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        self.state().fits(bytes)
    }

    /// Room for a rewrite of so many bytes; `None` if there is none.
    pub(crate) fn claim(&self, bytes: u64) -> Option<RoomClaim<'_>> {
        let mut state = self.state();
        if !state.fits(bytes) {
            return None;
        }
        state.claimed_bytes += bytes;
        Some(RoomClaim { room: self, bytes })
    }

    /// Whether a rewrite that has claimed nothing is not to begin.
    pub(crate) fn is_short(&self) -> bool {
        self.state().room.is_short
    }

    /// Whether rewrites are to end. Cheap: asked for each row.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, RoomState> {
        self.state.lock().expect("nothing panics while it is held")
    }
}

impl RoomState {
    fn fits(&self, bytes: u64) -> bool {
        self.claimed_bytes.checked_add(bytes).is_some_and(|bytes| bytes <= self.room.spare_bytes)
    }
}

impl Drop for RoomClaim<'_> {
    fn drop(&mut self) {
        self.room.state().claimed_bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_share_what_is_spare_and_give_it_back() {
        let room = SharedRoom::default();
        assert!(room.fits(u64::MAX) && !room.is_short() && !room.is_exhausted());
        room.set(Room { spare_bytes: 100, is_short: true, is_exhausted: false });
        let first = room.claim(60);
        assert!(first.is_some() && room.is_short());
        assert!(room.claim(41).is_none() && !room.fits(41) && room.fits(40) && !room.fits(u64::MAX));
        let second = room.claim(40);
        assert!(second.is_some() && room.fits(0) && !room.fits(1));
        drop(first);
        assert!(room.fits(60) && !room.fits(61));
        // Less is spare than is claimed: what has begun goes on, unless it is told to end.
        room.set(Room { spare_bytes: 10, is_short: true, is_exhausted: true });
        assert!(!room.fits(0) && room.is_exhausted());
        drop(second);
        assert!(room.fits(10));
    }
}

//! Work that nobody waits for: flushes, compaction, cutting the log, watching the disk.

use crate::inbox::Message;
use crate::store::{Store, now_ms};
use node::ShardView;
use replica::{DiskState, LogStore};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often each thread looks around without being woken.
const PAUSE: Duration = Duration::from_millis(200);
/// For every tree that it looks at, a thread that found nothing to do waits so much longer.
const PAUSE_EACH: Duration = Duration::from_micros(100);
/// Free space below which writes are refused, so that what is in memory can still go to files.
const RESERVE_BYTES: u64 = 64 << 20;
/// The same, as a part of a small device.
const RESERVE_PART: u64 = 16;
/// Free space below this many times the reserve is left to what has to be written.
const LOG_ROOM_PART: u64 = 8;

/// How background threads are woken, and what they have done.
#[derive(Default)]
pub(crate) struct Background {
    wakes: Mutex<u64>,
    changed: Condvar,
    pub(crate) flushes: AtomicU64,
    /// 1 while a flush is under way.
    pub(crate) flushing: AtomicU64,
    pub(crate) compactions: AtomicU64,
    /// 1 while there may be something to compact.
    pub(crate) compacting: AtomicU64,
}

impl Background {
    /// There may be something to do.
    pub(crate) fn wake(&self) {
        *self.wakes.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Whether the last look around found nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.compacting.load(Ordering::Acquire) == 0
    }

    /// Waits until woken since `seen`, or for a pause after a look at so many trees; answers what has been seen now.
    fn wait(&self, seen: u64, trees: usize) -> u64 {
        let wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        if *wakes != seen {
            return *wakes;
        }
        let pause = PAUSE + PAUSE_EACH * trees as u32;
        let (wakes, _) = self.changed.wait_timeout(wakes, pause).unwrap_or_else(PoisonError::into_inner);
        *wakes
    }
}

/// Starts the threads; they end when the store stops.
pub(crate) fn start(store: &Arc<Store>) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
    let spawn = |name: &str, run: fn(&Store)| {
        let store = store.clone();
        crate::vital::spawn(name, move || run(&store))
    };
    let held = store.clone();
    let holdings = crate::vital::spawn("holdings", move || crate::holdings::run(&held))?;
    Ok(vec![
        spawn("flush", flush_thread)?,
        spawn("compact", compact_thread)?,
        spawn("disk", disk_thread)?,
        spawn("purge", purge_thread)?,
        spawn("log-spare", log_spare_thread)?,
        holdings,
    ])
}

fn flush_thread(store: &Store) {
    let mut seen = 0;
    while !store.is_stopping() {
        let mut flushed = false;
        for view in store.known().all_views() {
            if view.engine().needs_flush() && store.health.state() != DiskState::Poisoned {
                flushed |= flush(store, view);
            }
        }
        if flushed || seen % 8 == 0 {
            purge(store);
        }
        if flushed {
            // There may be something to compact.
            store.background.wake();
        }
        seen = store.background.wait(seen, 0);
    }
}

fn flush(store: &Store, view: &ShardView) -> bool {
    let shard = view.id().0 as usize;
    // A tree never holds what the log could still lose: it would begin where the log has not come to.
    if let Err(e) = store.log.sync() {
        log::error!("{e}");
        return false;
    }
    store.background.flushing.store(1, Ordering::Release);
    let begun = Instant::now();
    let flushed = view.engine().flush();
    store.stats.took("flush", begun.elapsed(), now_ms(), &store.config);
    store.background.flushing.store(0, Ordering::Release);
    match flushed {
        Ok(()) => {
            store.background.flushes.fetch_add(1, Ordering::Relaxed);
            if let Some(inbox) = store.inbox(store.owner_of(shard)) {
                inbox.send(Message::Flushed(shard as u32));
            }
            true
        }
        Err(e) => {
            refuse(store, &e);
            false
        }
    }
}

/// Writes what is left in memory to files when the store stops: the next start has nothing to replay. If it cannot, the
/// log has it.
pub(crate) fn flush_rest(store: &Store) {
    if store.health.state() != DiskState::Healthy {
        return;
    }
    for view in store.known().all_views() {
        if let Err(e) = view.engine().flush() {
            log::warn!("not written to files, the next start replays it from the log: {e}");
            return;
        }
    }
}

/// Deletes log files that nothing needs; shards that keep old ones alive are to flush.
fn purge(store: &Store) {
    match store.log.purge() {
        Ok(shards) => {
            for shard in shards {
                if let Some(inbox) = store.inbox(store.owner_of(shard.0 as usize)) {
                    inbox.send(Message::Seal(shard.0));
                }
            }
        }
        Err(e) => log::error!("old log files cannot be deleted: {e}"),
    }
}

fn compact_thread(store: &Store) {
    let mut seen = 0;
    while !store.is_stopping() {
        let (mut more, mut trees) = (false, 0);
        let mut begun = Instant::now();
        for view in store.known().all_views() {
            if store.is_stopping() || store.health.state() != DiskState::Healthy {
                break;
            }
            trees += 1;
            match view.engine().compact() {
                // The clock is not asked for trees that have nothing to compact: there may be thousands.
                Ok(false) => {}
                Ok(true) => {
                    store.stats.took("compaction", begun.elapsed(), now_ms(), &store.config);
                    more = true;
                    store.background.compactions.fetch_add(1, Ordering::Relaxed);
                    begun = Instant::now();
                }
                Err(e) => refuse(store, &e),
            }
        }
        store.background.compacting.store(u64::from(more), Ordering::Release);
        if !more {
            seen = store.background.wait(seen, trees);
        }
    }
}

/// Removes rows that shards have given away: on a thread of its own, for it may take minutes.
fn purge_thread(store: &Store) {
    crate::vital::give_way(crate::vital::SOME_TIME);
    let mut seen = 0;
    while !store.is_stopping() {
        let mut more = false;
        // Nobody is kept from giving up a replica until its turn has come.
        let views: Vec<_> = store.known().views().map(Arc::downgrade).collect();
        for view in views.iter().filter_map(Weak::upgrade) {
            if store.is_stopping() || store.health.state() != DiskState::Healthy {
                break;
            }
            match view.engine().purge() {
                Ok(stepped) => more |= stepped,
                Err(e) => refuse(store, &e),
            }
        }
        if !more {
            seen = store.background.wait(seen, views.len());
        }
    }
}

/// Makes log files ahead, and frees the page cache of what will be written over. Not on a device that is filling up: what
/// has no other place needs the room.
fn log_spare_thread(store: &Store) {
    let has_room = || room(store.dir.root()).is_ok_and(|(free, reserve)| free / LOG_ROOM_PART > reserve);
    while !store.is_stopping() {
        let go_on = || !store.is_stopping() && store.health.state() == DiskState::Healthy && has_room();
        if let Err(e) = store.log.prepare(go_on) {
            log::debug!("no log file is made ahead: {e}");
        }
        std::thread::sleep(PAUSE);
    }
}

fn refuse(store: &Store, error: &storage::Error) {
    match error {
        storage::Error::Full { .. } => store.health.set_full(&error.to_string()),
        // Reads of damaged data answer errors by themselves; the rest of the store goes on.
        storage::Error::Corrupt { .. } | storage::Error::Mismatch { .. } => log::error!("{error}"),
        storage::Error::Io { .. } | storage::Error::Poisoned { .. } => store.health.poison(&error.to_string()),
    }
    std::thread::sleep(PAUSE);
}

/// Bytes that are free on the device of the data directory, if that can be told.
pub(crate) fn free_bytes(store: &Store) -> Option<u64> {
    room(store.dir.root()).ok().map(|(free, _)| free)
}

/// Bytes that are free on the device of `root`, and how many are kept in reserve.
fn room(root: &Path) -> rustix::io::Result<(u64, u64)> {
    let device = rustix::fs::statvfs(root)?;
    let reserve = RESERVE_BYTES.min(device.f_blocks * device.f_frsize / RESERVE_PART);
    Ok((device.f_bavail * device.f_frsize, reserve))
}

/// Whether a write of the log might have to wait for room: then no event loop may make it. Asked before each, because
/// a device can fill up faster than the thread that watches it looks.
pub(crate) fn is_short_of_room(store: &Store) -> bool {
    store.health.state() != DiskState::Healthy || room(store.dir.root()).is_ok_and(|(free, reserve)| free < reserve)
}

fn disk_thread(store: &Store) {
    let root = store.dir.root();
    while !store.is_stopping() {
        match room(root) {
            Ok((free, reserve)) => {
                if free < reserve {
                    let root = root.display();
                    store.health.set_full(&format!("{root}: {free} bytes are free, {reserve} are kept in reserve"));
                } else if free > reserve + reserve / 4 {
                    store.health.set_room();
                }
            }
            Err(e) => log::warn!("the free space of {} cannot be told: {e}", root.display()),
        }
        std::thread::sleep(PAUSE);
    }
}

//! Work that no client waits for: flushes, compaction, cutting the log, watching the disk.

use super::tls_files::watch_tls_files;
use crate::mailbox::WorkerMessage;
use crate::os::{NICE_IDLE, now_ms, set_niceness, spawn_critical};
use crate::replicas::reconcile_thread;
use crate::shared::{BACKGROUND_PAUSE, FreeSpace, NodeShared};
use node::ShardHandle;
use parking_lot::Mutex;
use replica::{DiskState, LogStore};
use std::cmp::Reverse;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Free space below this many times the reserve is left to what has to be written.
const LOG_ROOM_PART: u64 = 8;

/// The nice level of flushes beside the first: a large one must not cost the event loops their signs of life.
const NICE_FLUSH: i32 = 5;

/// Most threads that flush, and most that compact.
const TREE_THREADS_MAX: usize = 4;

/// Starts the threads; they end when the store stops.
pub(crate) fn start(store: &Arc<NodeShared>) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
    let spawn = |name: &str, run: fn(&NodeShared)| {
        let store = store.clone();
        spawn_critical(name, move || run(&store))
    };
    let held = store.clone();
    let reconcile = spawn_critical("reconcile", move || reconcile_thread(&held))?;
    let kept = store.clone();
    let evict = spawn_critical("evict", move || super::eviction::evict(&kept))?;
    let mut threads = vec![
        evict,
        spawn("flush", |store| flush_thread(store, true))?,
        spawn("compact", compact_thread)?,
        spawn("disk", free_space_thread)?,
        spawn("purge", purge_thread)?,
        spawn("log-spare", log_spare_thread)?,
        spawn("tls-files", watch_tls_files)?,
        reconcile,
    ];
    // The shards with the most debt come first, each with one thread at a time.
    let others = std::thread::available_parallelism().map_or(0, |count| count.get().min(TREE_THREADS_MAX) - 1);
    for number in 1..=others {
        threads.push(spawn(&format!("flush-{number}"), |store| {
            set_niceness(NICE_FLUSH);
            flush_thread(store, false);
        })?);
        threads.push(spawn(&format!("compact-{number}"), |store| {
            // It has the processor time that is left over, so that it never costs the event loops theirs.
            set_niceness(NICE_IDLE);
            compact_thread(store);
        })?);
    }
    Ok(threads)
}

/// The replicas of this node, those whose trees have the most debt first. They are not held: who gives up a replica waits
/// for none of the others' turns.
fn by_debt(store: &NodeShared) -> Vec<Weak<ShardHandle>> {
    let known = store.known();
    most_first(known.handles().map(|handle| (handle.engine().debt(), Arc::downgrade(handle))).collect())
}

fn most_first<V>(mut debts: Vec<(f64, V)>) -> Vec<V> {
    debts.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    debts.into_iter().map(|(_, handle)| handle).collect()
}

/// Flushes what is sealed, and puts what is in memory in order for scans; one of these threads also deletes log files.
fn flush_thread(store: &NodeShared, deletes_log_files: bool) {
    let (mut seen, mut flushes) = (0, 0);
    while !store.is_stopping() {
        let mut flushed = false;
        for handle in by_debt(store).iter().filter_map(Weak::upgrade) {
            if store.is_stopping() {
                // All trees are sealed then: several threads flush those that are worth it.
                return;
            }
            handle.engine().prepare_scans();
            if handle.engine().needs_flush()
                && store.health.state() != DiskState::Poisoned
                && let Some(_claim) = store.background.flush_claims.claim(handle.id())
            {
                flushed |= flush(store, &handle);
            }
        }
        let before = std::mem::replace(&mut flushes, store.background.flushes.load(Ordering::Relaxed));
        if deletes_log_files && (before != flushes || seen % 8 == 0) {
            delete_log_files(store);
        }
        if flushed {
            // There may be something to compact.
            store.background.wake();
        }
        seen = store.background.wait(seen, 0);
    }
}

fn flush(store: &NodeShared, handle: &ShardHandle) -> bool {
    // A tree never holds what the log could still lose: it would begin where the log has not come to. What is sealed while
    // the log is fsynced waits for the next flush.
    let sealed = handle.engine().sealed_index();
    if let Err(e) = store.log.sync() {
        log::error!("{e}");
        return false;
    }
    store.background.flushing.fetch_add(1, Ordering::Release);
    let begun = Instant::now();
    let flushed = handle.engine().flush_to(sealed);
    store.stats.took("flush", begun.elapsed(), now_ms(), &store.config);
    store.background.flushing.fetch_sub(1, Ordering::Release);
    match flushed {
        Ok(()) => {
            store.background.flushes.fetch_add(1, Ordering::Relaxed);
            store.mailboxes.tell_owner(handle.id(), WorkerMessage::Flushed(handle.id()));
            true
        }
        // The tree has to be compacted first; the others go on.
        Err(e) if e.is_busy() => {
            log::debug!("shard {}: flushed later: {e}", handle.id());
            false
        }
        Err(e) => {
            refuse(store, handle, &e);
            false
        }
    }
}

/// Threads that write what is left in memory to files when the store stops: they wait for the device, not for processors.
const STOP_THREADS: usize = 8;
/// A tree with less in memory is left to the log: the next start replays it in no more time than its files would take now.
const STOP_FLUSH_BYTES: u64 = 1 << 20;
/// For how long such trees are written to files all the same, the largest first.
const STOP_FLUSH_TIME: Duration = Duration::from_millis(500);

/// How often a tree is tried that lacks room, descriptors or memory.
const STOP_FLUSH_TRIES: usize = 3;

/// Something that was not written to files, and why.
struct Unwritten<T> {
    item: T,
    error: storage::Error,
}

/// Writes what is left in memory to files when the store stops, so that the next start has little to replay. What is not
/// written, the log has. An error is of one shard: the others go on.
pub(crate) fn flush_rest(store: &NodeShared) {
    let known = store.known();
    let mut left: Vec<&ShardHandle> =
        known.handles().map(|handle| &**handle).filter(|handle| handle.engine().needs_flush()).collect();
    // A tree never holds what the log could still lose.
    let synced = store.log.sync().map_err(|e| e.to_string());
    let reason = match store.health.state() {
        DiskState::Healthy => synced.err(),
        _ => Some(store.health.reason()),
    };
    if let Some(reason) = reason {
        return tell_unwritten(left.len(), &reason);
    }
    left.sort_by_cached_key(|handle| Reverse(handle.engine().stats().memtable_bytes));
    let (begun, mut lost) = (Instant::now(), 0);
    let flush = |handle: &ShardHandle| {
        let is_small = handle.engine().stats().memtable_bytes < STOP_FLUSH_BYTES;
        if is_small && begun.elapsed() > STOP_FLUSH_TIME { Ok(()) } else { handle.engine().flush() }
    };
    for tries in 1..=STOP_FLUSH_TRIES {
        let unwritten = flush_side_by_side(&left, flush);
        left.clear();
        for Unwritten { item: handle, error } in unwritten {
            log::warn!("shard {}: not written to files: {error}", handle.id());
            if error.is_lack() && tries < STOP_FLUSH_TRIES {
                left.push(handle);
            } else {
                lost += 1;
            }
        }
        if left.is_empty() {
            break;
        }
        std::thread::sleep(BACKGROUND_PAUSE);
    }
    tell_unwritten(lost, "see above");
}

/// Says what has become of the data of shards that were not written to files.
fn tell_unwritten(shards: usize, reason: &str) {
    if shards > 0 {
        log::warn!("{shards} shards are not written to files ({reason}): the next start replays them from the log");
    }
}

/// Writes each by itself, several at a time, in their order; hands back those that could not be written.
fn flush_side_by_side<T: Copy + Send + Sync>(
    left: &[T],
    flush: impl Fn(T) -> storage::Result<()> + Sync,
) -> Vec<Unwritten<T>> {
    let (next, unwritten) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let flush_next = || {
        while let Some(&item) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = flush(item) {
                unwritten.lock().push(Unwritten { item, error });
            }
        }
    };
    std::thread::scope(|scope| {
        // This thread, and those beside it that can be started.
        for _ in 1..STOP_THREADS.min(left.len()) {
            let _ = std::thread::Builder::new().spawn_scoped(scope, flush_next);
        }
        flush_next();
    });
    unwritten.into_inner()
}

/// Deletes log files that nothing needs; shards that keep old ones alive are to flush.
fn delete_log_files(store: &NodeShared) {
    match store.log.purge() {
        Ok(shards) => {
            for shard in shards {
                store.mailboxes.tell_owner(shard, WorkerMessage::Seal(shard));
            }
        }
        Err(e) => log::error!("old log files cannot be deleted: {e}"),
    }
}

/// Whether trees may be rewritten. On a full device they may: what frees room without taking any does so, and what has to take some
/// first begins only where that is there.
fn may_rewrite(state: DiskState) -> bool {
    match state {
        DiskState::Healthy | DiskState::Full => true,
        DiskState::Short | DiskState::Poisoned => false,
    }
}

fn compact_thread(store: &NodeShared) {
    let (mut seen, mut was_busy) = (0, false);
    while !store.is_stopping() {
        let (mut more, mut trees) = (false, 0);
        let mut begun = Instant::now();
        for handle in by_debt(store).iter().filter_map(Weak::upgrade) {
            if store.is_stopping() || !may_rewrite(store.health.state()) {
                break;
            }
            trees += 1;
            let Some(_claim) = store.background.compaction_claims.claim(handle.id()) else { continue };
            match handle.engine().compact() {
                // The clock is not asked for trees that have nothing to compact: there may be thousands.
                Ok(false) => {}
                Ok(true) => {
                    store.stats.took("compaction", begun.elapsed(), now_ms(), &store.config);
                    more = true;
                    store.background.compactions.fetch_add(1, Ordering::Relaxed);
                    begun = Instant::now();
                }
                Err(e) => refuse(store, &handle, &e),
            }
        }
        if more && !was_busy {
            store.background.compacting.fetch_add(1, Ordering::Release);
        } else if was_busy && !more {
            store.background.compacting.fetch_sub(1, Ordering::Release);
        }
        was_busy = more;
        if !more {
            seen = store.background.wait(seen, trees);
        }
    }
}

/// Removes rows that shards have given away: on a thread of its own, for it may take minutes.
fn purge_thread(store: &NodeShared) {
    set_niceness(NICE_IDLE);
    let mut seen = 0;
    while !store.is_stopping() {
        let mut more = false;
        // Weak: a replica can be closed before the purge reaches it.
        let handles: Vec<_> = store.known().data_handles().map(Arc::downgrade).collect();
        for handle in handles.iter().filter_map(Weak::upgrade) {
            if store.is_stopping() || !may_rewrite(store.health.state()) {
                break;
            }
            match handle.engine().purge() {
                Ok(stepped) => more |= stepped,
                Err(e) => refuse(store, &handle, &e),
            }
        }
        if !more {
            seen = store.background.wait(seen, handles.len());
        }
    }
}

/// Makes log files ahead, and frees the page cache of what will be written over. Not on a device that is filling up: what
/// has no other place needs the room.
fn log_spare_thread(store: &NodeShared) {
    let has_room = || FreeSpace::of(store.dir.root()).is_ok_and(|space| space.exceeds_reserve_times(LOG_ROOM_PART));
    while !store.is_stopping() {
        let go_on = || !store.is_stopping() && store.health.state() == DiskState::Healthy && has_room();
        if let Err(e) = store.log.prepare(go_on) {
            log::debug!("no log file is made ahead: {e}");
        }
        std::thread::sleep(BACKGROUND_PAUSE);
    }
}

fn refuse(store: &NodeShared, handle: &ShardHandle, error: &storage::Error) {
    node::note_failure(handle, &store.health, error);
    std::thread::sleep(BACKGROUND_PAUSE);
}

fn free_space_thread(store: &NodeShared) {
    let root = store.dir.root();
    while !store.is_stopping() {
        let space = FreeSpace::of(root);
        match &space {
            Ok(space) if space.is_short() => {
                let FreeSpace { free_bytes, reserve_bytes } = *space;
                let root = root.display();
                store
                    .health
                    .set_full(&format!("{root}: {free_bytes} bytes are free, {reserve_bytes} are kept in reserve"));
            }
            Ok(space) if space.is_ample() => store.health.set_room(),
            Ok(_) => {}
            Err(e) => log::warn!("the free space of {} cannot be told: {e}", root.display()),
        }
        if let Ok(space) = space {
            store.resources.set_room(space.room(store.health.state() == DiskState::Full));
        }
        if store.health.state() == DiskState::Short && File::open(root).is_ok() {
            store.health.set_supplied();
        }
        std::thread::sleep(BACKGROUND_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::{STOP_THREADS, flush_side_by_side, most_first};
    use crate::shared::BackgroundState;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, Mutex};
    use storage::Error;
    use vocab::ShardId;

    #[test]
    fn what_cannot_be_written_keeps_no_other_from_it() {
        const ITEMS: usize = 5 * STOP_THREADS;
        let (items, tried): (Vec<usize>, _) = ((0..ITEMS).collect(), AtomicUsize::new(0));
        let unwritten = flush_side_by_side(&items, |item| {
            tried.fetch_add(1, Ordering::Relaxed);
            if item % 4 == 0 { Err(Error::Full { path: item.to_string().into() }) } else { Ok(()) }
        });
        let mut found: Vec<usize> = unwritten.iter().map(|one| one.item).collect();
        found.sort_unstable();
        assert_eq!((tried.into_inner(), found), (ITEMS, (0..ITEMS).step_by(4).collect()));
        let is_its_own = |path: &std::path::Path, item: usize| path.as_os_str() == item.to_string().as_str();
        assert!(unwritten.iter().all(|one| matches!(&one.error, Error::Full { path } if is_its_own(path, one.item))));
        assert!(flush_side_by_side(&[] as &[usize], |_| Ok(())).is_empty());
    }

    /// As flush and compaction threads do: those with the most debt first, each by one thread at a time. Two threads are
    /// at work at the same moment, or the barrier lets none of them go on.
    #[test]
    fn two_threads_share_many_shards_by_debt() {
        const SHARDS: u32 = 16;
        const UNBROKEN: &str = "no thread panics while it holds it";
        let debt = |shard: u32| f64::from(shard * 7 % SHARDS);
        let (background, both) = (BackgroundState::default(), Barrier::new(2));
        let at_work: Vec<AtomicUsize> = (0..SHARDS).map(|_| AtomicUsize::new(0)).collect();
        let done = Mutex::new(Vec::<u32>::new());
        let work = || {
            for shard in most_first((0..SHARDS).map(|shard| (debt(shard), shard)).collect()) {
                let Some(_claim) = background.flush_claims.claim(ShardId(shard)) else { continue };
                if done.lock().expect(UNBROKEN).contains(&shard) {
                    continue;
                }
                assert_eq!(at_work[shard as usize].fetch_add(1, Ordering::SeqCst), 0, "one thread a shard");
                both.wait();
                done.lock().expect(UNBROKEN).push(shard);
                both.wait();
                at_work[shard as usize].fetch_sub(1, Ordering::SeqCst);
            }
        };
        std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(work)));
        let done = done.into_inner().expect("no thread has panicked");
        assert_eq!(done.len(), SHARDS as usize);
        let mut first = [debt(done[0]), debt(done[1])];
        first.sort_by(f64::total_cmp);
        assert_eq!(first, [f64::from(SHARDS - 2), f64::from(SHARDS - 1)], "those with the most debt");
    }
}

//! Slows compaction: lsm-tree has no rate limit, but shows every value it moves to a filter. It also tells the filter when
//! all is written and not yet in the manifest. Rows that a forked tree does not want, and rows of dropped
//! prefixes, end here: all versions of their keys are to go, so their order does not matter. A purge has a limit of its own, which it
//! heeds until its tree is in a hurry. No limit holds while flushes lack room in the first level, or soon would. A rewrite ends
//! here, too, when the device has room for nothing but the log and flushes.

use super::blob_dir_sync::BlobDirSync;
use crate::Keep;
use crate::dropped::DroppedPrefixes;
use crate::room::SharedRoom;
use crate::throttle::Throttle;
use arc_swap::{ArcSwap, ArcSwapOption};
use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, RefUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes between two looks at the bucket.
const STEP_BYTES: u64 = 256 * 1024;
/// What a value kept elsewhere costs the level: its handle.
const HANDLE_BYTES: u64 = 24;

/// How a tree's rewriting under way goes.
#[derive(Default)]
pub(super) struct Pace {
    /// It is a purge, which no client waits for.
    pub(super) purging: AtomicBool,
    /// It is a rewrite of the whole tree that was asked for: ordinary compaction of it waits.
    pub(super) asked: AtomicBool,
    /// Compaction waits for it to end.
    pub(super) hurried: AtomicBool,
    /// Flushes wait for it to end.
    pub(super) urgent: AtomicBool,
    /// The tree is to be removed, or was replaced: it is to end.
    pub(super) abandoned: AtomicBool,
}

/// Makes a filter for every compaction.
pub(super) struct Brake(AssertUnwindSafe<Parts>);

#[derive(Clone)]
pub(super) struct Parts {
    pub(super) throttle: Arc<Throttle>,
    pub(super) purge_throttle: Arc<Throttle>,
    pub(super) room: Arc<SharedRoom>,
    pub(super) pace: Arc<Pace>,
    pub(super) blob_dir: Arc<BlobDirSync>,
    pub(super) keep: Arc<ArcSwapOption<Keep>>,
    pub(super) dropped: Arc<ArcSwap<DroppedPrefixes<u64>>>,
}

struct BrakeFilter {
    parts: Parts,
    /// As it was when the compaction began.
    keep: Option<Arc<Keep>>,
    dropped: Arc<DroppedPrefixes<u64>>,
    /// The folder of value files, for the end.
    blob_dir: io::Result<File>,
    bytes: u64,
}

impl Brake {
    pub(super) fn new(parts: Parts) -> Self {
        Self(AssertUnwindSafe(parts))
    }
}

const fn assert_unwind_safe<T: RefUnwindSafe>() {}
const _: () = assert_unwind_safe::<Brake>();

impl Parts {
    /// Whether this is to end for want of room. A flush that waits for it needs its room as well.
    fn lacks_room(&self) -> bool {
        self.room.is_exhausted() && !self.pace.urgent.load(Ordering::Relaxed)
    }

    /// Waits as long as so many bytes are to take; false if this is to end, with the node or with the tree.
    fn take(&self, bytes: u64) -> bool {
        let is_abandoned = || self.pace.abandoned.load(Ordering::Relaxed);
        let is_urgent = || self.pace.urgent.load(Ordering::Relaxed);
        if is_urgent() {
            // As a flush: other trees are not to pay for all of it.
            self.throttle.charge(bytes);
            return !self.throttle.is_stopped() && !is_abandoned();
        }
        let is_let_go = || is_urgent() || is_abandoned();
        let is_hurried = || self.pace.hurried.load(Ordering::Relaxed) || is_let_go();
        let is_purge = self.pace.purging.load(Ordering::Relaxed);
        let paced = !is_purge || self.purge_throttle.take_unless(bytes, is_hurried);
        paced && self.throttle.take_unless(bytes, is_let_go) && !is_abandoned()
    }
}

impl Factory for Brake {
    fn name(&self) -> &str {
        "brake"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        let parts = self.0.0.clone();
        Box::new(BrakeFilter {
            keep: parts.keep.load_full(),
            dropped: parts.dropped.load_full(),
            blob_dir: parts.blob_dir.open(),
            parts,
            bytes: 0,
        })
    }
}

impl CompactionFilter for BrakeFilter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        // An error is the only way to end a compaction.
        if let Err(error) = &self.blob_dir {
            return Err(error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error).into());
        }
        // Asked for each row: a value that is moved may be large.
        if self.parts.lacks_room() {
            return Err(io::Error::from(io::ErrorKind::StorageFull).into());
        }
        let value = if item.is_indirection() { HANDLE_BYTES } else { item.value()?.len() as u64 };
        self.bytes += item.key().len() as u64 + value;
        if self.bytes >= STEP_BYTES {
            if !self.parts.take(self.bytes) {
                return Err(io::Error::from(io::ErrorKind::Interrupted).into());
            }
            self.bytes = 0;
        }
        // What begins with byte 0 is storage's own.
        let is_own = item.key().first().is_none_or(|&byte| byte == 0);
        let is_unwanted = || self.keep.as_ref().is_some_and(|keep| !keep(item.key()));
        let is_rubbish = !is_own && (is_unwanted() || self.dropped.covers(item.key()));
        Ok(if is_rubbish { Verdict::Destroy } else { Verdict::Keep })
    }

    fn finish(self: Box<Self>) {
        // Else there was no row, and no file is new.
        if let Ok(folder) = &self.blob_dir {
            self.parts.blob_dir.sync_later_checked(folder);
        }
    }
}

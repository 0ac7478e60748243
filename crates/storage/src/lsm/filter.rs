//! Slows compaction: lsm-tree has no rate limit, but shows every value it moves to a filter. It also tells the filter when
//! all is written and not yet in the manifest. Rows that a forked tree does not want end here: all versions of their
//! keys are unwanted, so that it does not matter which of them comes by first.

use super::names::BlobNames;
use crate::Keep;
use crate::throttle::Throttle;
use arc_swap::ArcSwapOption;
use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};
use std::panic::{AssertUnwindSafe, RefUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes between two looks at the bucket.
const STEP_BYTES: u64 = 256 * 1024;
/// What a value kept elsewhere costs the level: its handle.
const HANDLE_BYTES: u64 = 24;
/// A compaction that nobody waits for rests so many times as long as it works: it takes its part of the processors and the
/// disk for longer, and requests that come meanwhile have the rest.
const REST_TIMES: u32 = 3;
/// The longest rest at a time: where it works slowly, others are in its way already.
const REST_MAX: Duration = Duration::from_millis(100);

/// How a tree's compaction that is under way is to go about it.
#[derive(Default)]
pub(super) struct Pace {
    unhurried: AtomicBool,
}

impl Pace {
    /// Nobody waits for what comes now.
    pub(super) fn slow_down(&self) {
        self.unhurried.store(true, Ordering::Relaxed);
    }

    /// Whether nobody waits for it.
    pub(super) fn is_unhurried(&self) -> bool {
        self.unhurried.load(Ordering::Relaxed)
    }

    /// Somebody waits for it, or will.
    pub(super) fn hurry(&self) {
        self.unhurried.store(false, Ordering::Relaxed);
    }
}

/// Makes a filter for every compaction.
pub(super) struct Brake(AssertUnwindSafe<Parts>);

#[derive(Clone)]
struct Parts {
    throttle: Arc<Throttle>,
    pace: Arc<Pace>,
    blob_names: Arc<BlobNames>,
    keep: Arc<ArcSwapOption<Keep>>,
}

struct BrakeFilter {
    throttle: Arc<Throttle>,
    pace: Arc<Pace>,
    /// When it last went on.
    since: Instant,
    blob_names: Arc<BlobNames>,
    keep: Option<Arc<Keep>>,
    bytes: u64,
}

impl Brake {
    pub(super) fn new(
        throttle: Arc<Throttle>,
        pace: Arc<Pace>,
        blob_names: Arc<BlobNames>,
        keep: Arc<ArcSwapOption<Keep>>,
    ) -> Self {
        Self(AssertUnwindSafe(Parts { throttle, pace, blob_names, keep }))
    }
}

const fn assert_unwind_safe<T: RefUnwindSafe>() {}
const _: () = assert_unwind_safe::<Brake>();

impl Factory for Brake {
    fn name(&self) -> &str {
        "brake"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        let Parts { throttle, pace, blob_names, keep } = self.0.0.clone();
        Box::new(BrakeFilter { throttle, pace, since: Instant::now(), blob_names, keep: keep.load_full(), bytes: 0 })
    }
}

impl BrakeFilter {
    /// Waits for as long as it is to; false if the node is being stopped.
    fn wait(&mut self) -> bool {
        let rest = match self.pace.is_unhurried() {
            true => (self.since.elapsed() * REST_TIMES).min(REST_MAX),
            false => Duration::ZERO,
        };
        let goes_on = self.throttle.take(self.bytes) && self.throttle.rest(rest);
        (self.bytes, self.since) = (0, Instant::now());
        goes_on
    }
}

impl CompactionFilter for BrakeFilter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        let value = if item.is_indirection() { HANDLE_BYTES } else { item.value()?.len() as u64 };
        self.bytes += item.key().len() as u64 + value;
        if self.bytes >= STEP_BYTES && !self.wait() {
            // The node is stopping: an error is the only way to end a compaction.
            return Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into());
        }
        // What begins with byte 0 is storage's own.
        let unwanted = |keep: &Arc<Keep>| item.key().first().is_some_and(|&byte| byte != 0) && !keep(item.key());
        Ok(if self.keep.as_ref().is_some_and(unwanted) { Verdict::Destroy } else { Verdict::Keep })
    }

    fn finish(self: Box<Self>) {
        self.blob_names.sync_later_checked();
    }
}

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

/// Bytes between two looks at the bucket.
const STEP_BYTES: u64 = 256 * 1024;
/// What a value kept elsewhere costs the level: its handle.
const HANDLE_BYTES: u64 = 24;

/// Makes a filter for every compaction.
pub(super) struct Brake(AssertUnwindSafe<Parts>);

#[derive(Clone)]
struct Parts {
    throttle: Arc<Throttle>,
    blob_names: Arc<BlobNames>,
    keep: Arc<ArcSwapOption<Keep>>,
}

struct BrakeFilter {
    throttle: Arc<Throttle>,
    blob_names: Arc<BlobNames>,
    keep: Option<Arc<Keep>>,
    bytes: u64,
}

impl Brake {
    pub(super) fn new(throttle: Arc<Throttle>, blob_names: Arc<BlobNames>, keep: Arc<ArcSwapOption<Keep>>) -> Self {
        Self(AssertUnwindSafe(Parts { throttle, blob_names, keep }))
    }
}

const fn assert_unwind_safe<T: RefUnwindSafe>() {}
const _: () = assert_unwind_safe::<Brake>();

impl Factory for Brake {
    fn name(&self) -> &str {
        "brake"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        let Parts { throttle, blob_names, keep } = self.0.0.clone();
        Box::new(BrakeFilter { throttle, blob_names, keep: keep.load_full(), bytes: 0 })
    }
}

impl CompactionFilter for BrakeFilter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        let value = if item.is_indirection() { HANDLE_BYTES } else { item.value()?.len() as u64 };
        self.bytes += item.key().len() as u64 + value;
        if self.bytes >= STEP_BYTES {
            if !self.throttle.take(self.bytes) {
                // The node is stopping: an error is the only way to end a compaction.
                return Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into());
            }
            self.bytes = 0;
        }
        // What begins with byte 0 is storage's own.
        let unwanted = |keep: &Arc<Keep>| item.key().first().is_some_and(|&byte| byte != 0) && !keep(item.key());
        Ok(if self.keep.as_ref().is_some_and(unwanted) { Verdict::Destroy } else { Verdict::Keep })
    }

    fn finish(self: Box<Self>) {
        self.blob_names.sync_later_checked();
    }
}

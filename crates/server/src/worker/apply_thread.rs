//! Evaluates a large entry on a thread of its own, while the event loop goes on.

use crate::mailbox::WorkerMessage;
use crate::os::{NICE_BESIDE, set_niceness, spawn_critical, steady_us};
use crate::shared::NodeShared;
use node::ApplyTask;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use vocab::limits::SLOW_ENTRY_US;

/// From so many bytes of an entry on the event loop does not free them.
const LONG_ENTRY_BYTES: usize = 2 << 20;

/// How often, and how many times, this thread looks whether it has the last copy of an entry.
const LET_GO_PAUSE: Duration = Duration::from_millis(20);
const LET_GO_TRIES: usize = 500;

/// Has a thread evaluate an entry; the shard's worker is told the outcome. Given back if no thread can be started.
pub(super) fn apply_beside(store: &Arc<NodeShared>, task: ApplyTask) -> Option<ApplyTask> {
    let shard = task.shard();
    let task = Arc::new(Mutex::new(Some(task)));
    let take = |task: &Mutex<Option<ApplyTask>>| task.lock().take();
    let (of_thread, given) = (store.clone(), task.clone());
    let spawned = spawn_critical("apply", move || {
        if let Some(task) = take(&given) {
            // The event loops of this machine's nodes come first: who waits for them is told by a clock.
            set_niceness(NICE_BESIDE);
            let (data, handle, began_us) = (task.data(), task.handle(), steady_us());
            let applied = Box::new(task.run());
            let us = steady_us() - began_us;
            if us >= SLOW_ENTRY_US {
                handle.note_slow_entry(us);
            }
            of_thread.mailboxes.tell_owner(shard, WorkerMessage::AppliedAside(applied));
            // Freeing hundreds of MB takes tens of milliseconds: the last to let go is this thread, not the event loop.
            for _ in 0..LET_GO_TRIES {
                if data.len() < LONG_ENTRY_BYTES || data.is_unique() {
                    break;
                }
                std::thread::sleep(LET_GO_PAUSE);
            }
        }
    });
    match spawned {
        Ok(_) => None,
        Err(e) => {
            log::warn!(
                "no thread can be started for a large entry of shard {shard}, which the event loop evaluates: {e}"
            );
            take(&task)
        }
    }
}

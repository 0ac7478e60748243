//! The calls of this node to other nodes that wait for their answers. The threads of the pool bound their number.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

/// A call that was sent.
pub(crate) struct PendingCall {
    pub(crate) id: u64,
    receiver: Receiver<Vec<u8>>,
}

/// All calls that wait for an answer.
#[derive(Default)]
pub(crate) struct PendingCalls {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, SyncSender<Vec<u8>>>>,
}

impl PendingCalls {
    /// Registers a call that is about to be sent.
    pub(crate) fn begin(&self) -> PendingCall {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = sync_channel(1);
        self.lock().insert(id, sender);
        PendingCall { id, receiver }
    }

    /// Waits for a call's answer; none if it does not come before `until`.
    pub(crate) fn wait(&self, call: &PendingCall, until: Instant) -> Option<Vec<u8>> {
        let answer = call.receiver.recv_timeout(until.saturating_duration_since(Instant::now()));
        self.lock().remove(&call.id);
        answer.ok()
    }

    /// The answer to a call has come.
    pub(crate) fn answered(&self, id: u64, reply: Vec<u8>) {
        let waiting = self.lock().remove(&id);
        if let Some(waiting) = waiting {
            // The caller may have given up.
            let _ = waiting.try_send(reply);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, SyncSender<Vec<u8>>>> {
        self.waiting.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_gets_its_own_answer_and_a_late_one_goes_nowhere() {
        let calls = PendingCalls::default();
        let (first, second) = (calls.begin(), calls.begin());
        calls.answered(second.id, b"two".to_vec());
        calls.answered(first.id, b"one".to_vec());
        calls.answered(first.id, b"one again".to_vec());
        let now = Instant::now();
        assert_eq!(calls.wait(&first, now).as_deref(), Some(&b"one"[..]));
        assert_eq!(calls.wait(&second, now).as_deref(), Some(&b"two"[..]));
        let third = calls.begin();
        assert_eq!(calls.wait(&third, now), None, "its time is over");
        calls.answered(third.id, b"late".to_vec());
        assert!(calls.lock().is_empty());
    }
}

//! A mailbox: a queue with one wake-up for many messages.
//!
//! Its senders bound its length: each has a bounded number of requests, log writes or transfers under way.
//!
//! Invariant: while a message is in the queue and its thread does not run, the thread has been woken.

use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use std::sync::Arc;

/// Wakes the thread that takes the messages.
pub(crate) trait Wake {
    fn wake(&self) -> std::io::Result<()>;
}

impl Wake for mio::Waker {
    fn wake(&self) -> std::io::Result<()> {
        self.wake()
    }
}

/// The mailbox of a worker, or of another thread with an event loop.
pub(crate) struct Queue<T, W> {
    messages: Mutex<Vec<T>>,
    waker: W,
    /// The thread has been woken and has not taken its messages yet.
    armed: AtomicBool,
}

impl<T, W: Wake> Queue<T, W> {
    pub(crate) fn new(waker: W) -> Arc<Self> {
        Arc::new(Self { messages: Mutex::new(Vec::new()), waker, armed: AtomicBool::new(false) })
    }

    /// Puts a message in and wakes the thread, unless it has been woken already.
    pub(crate) fn send(&self, message: T) {
        self.lock().push(message);
        self.wake();
    }

    /// Puts several messages in, with one wake-up.
    pub(crate) fn send_all(&self, messages: impl Iterator<Item = T>) {
        let mut queue = self.lock();
        let before = queue.len();
        queue.extend(messages);
        let grown = queue.len() > before;
        drop(queue);
        if grown {
            self.wake();
        }
    }

    fn wake(&self) {
        if !self.armed.swap(true, Ordering::AcqRel)
            && let Err(e) = self.waker.wake()
        {
            log::error!("a thread cannot be woken: {e}");
        }
    }

    /// Takes all messages; `into` must be empty.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        debug_assert!(into.is_empty());
        // Before the messages are taken: one that comes after them wakes the thread again.
        self.armed.store(false, Ordering::Release);
        std::mem::swap(&mut *self.lock(), into);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.messages.lock()
    }
}

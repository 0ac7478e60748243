//! The callers in this process, and the answers on their way to them.

use node::Ticket;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use slab::Slab;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Answers that have arrived, one after the other in one buffer.
#[derive(Default)]
pub(crate) struct Answers {
    bytes: Vec<u8>,
    /// Token and end of each.
    ends: Vec<(u32, usize)>,
}

impl Answers {
    /// Hands every answer over; none is left afterwards.
    pub(crate) fn drain(&mut self, each: &mut dyn FnMut(u32, &[u8])) {
        let mut from = 0;
        for &(token, to) in &self.ends {
            each(token, &self.bytes[from..to]);
            from = to;
        }
        self.bytes.clear();
        self.ends.clear();
    }
}

/// One caller's answers.
#[derive(Default)]
pub(crate) struct AnswerBox {
    /// Tells the caller from those that had its place before: their answers may still come.
    generation: u32,
    arrived: Mutex<Answers>,
    changed: Condvar,
}

impl AnswerBox {
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Waits until an answer is there or `until` is reached, and takes all that are; `taken` must be empty. False if
    /// there is none.
    pub(crate) fn take(&self, until: Option<Instant>, taken: &mut Answers) -> bool {
        let mut arrived = self.lock();
        while arrived.ends.is_empty() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match left {
                None => self.changed.wait(&mut arrived),
                Some(Duration::ZERO) => return false,
                Some(left) => _ = self.changed.wait_for(&mut arrived, left),
            }
        }
        std::mem::swap(&mut *arrived, taken);
        true
    }

    fn put(&self, token: u32, reply: Cow<'_, [u8]>) {
        let mut arrived = self.lock();
        match reply {
            Cow::Owned(reply) if arrived.bytes.is_empty() => arrived.bytes = reply,
            reply => arrived.bytes.extend_from_slice(&reply),
        }
        let end = arrived.bytes.len();
        arrived.ends.push((token, end));
        let is_first = arrived.ends.len() == 1;
        drop(arrived);
        if is_first {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.arrived.lock()
    }
}

/// All callers of a store.
#[derive(Default)]
pub(crate) struct Callers {
    boxes: RwLock<Slab<Arc<AnswerBox>>>,
    generations: AtomicU32,
}

impl Callers {
    /// Registers a caller; answers its place and its answers.
    pub(crate) fn enter(&self) -> (usize, Arc<AnswerBox>) {
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let answers = Arc::new(AnswerBox { generation, ..AnswerBox::default() });
        let id = self.boxes.write().insert(answers.clone());
        (id, answers)
    }

    /// A caller ends.
    pub(crate) fn leave(&self, id: usize) {
        self.boxes.write().try_remove(id);
    }

    /// Gives a caller the answer to a command.
    pub(crate) fn deliver(&self, ticket: &Ticket, reply: &[u8]) {
        self.deliver_either(ticket, Cow::Borrowed(reply));
    }

    /// The same for an answer that is long: it is not copied, unless others wait before it.
    pub(crate) fn deliver_owned(&self, ticket: &Ticket, reply: Vec<u8>) {
        self.deliver_either(ticket, Cow::Owned(reply));
    }

    fn deliver_either(&self, ticket: &Ticket, reply: Cow<'_, [u8]>) {
        let boxes = self.boxes.read();
        if let Some(answers) = boxes.get(ticket.connection as usize)
            && answers.generation == ticket.generation
        {
            answers.put(ticket.sequence as u32, reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_gets_its_own_answers_and_none_of_its_predecessors() {
        let callers = Callers::default();
        let (id, answers) = callers.enter();
        let ticket =
            |generation: u32, sequence: u64| Ticket { connection: id as u32, generation, sequence, ..Ticket::NONE };
        callers.deliver(&ticket(answers.generation(), 7), b"one");
        callers.deliver(&ticket(answers.generation() + 1, 8), b"another caller's");
        callers.deliver_owned(&ticket(answers.generation(), 9), b"two".to_vec());
        let (mut taken, mut got) = (Answers::default(), Vec::new());
        let now = Some(Instant::now());
        assert!(answers.take(now, &mut taken));
        taken.drain(&mut |token, bytes| got.push((token, bytes.to_vec())));
        assert_eq!(got, [(7, b"one".to_vec()), (9, b"two".to_vec())]);
        assert!(!answers.take(now, &mut taken), "its time is over");
        let long = b"three".to_vec();
        let place = long.as_ptr();
        callers.deliver_owned(&ticket(answers.generation(), 10), long);
        assert!(answers.take(now, &mut taken));
        taken.drain(&mut |token, bytes| assert_eq!((token, bytes, bytes.as_ptr()), (10, &b"three"[..], place)));
        callers.leave(id);
        let (next, others) = callers.enter();
        assert_eq!(next, id, "the place is used again");
        callers.deliver(&ticket(answers.generation(), 11), b"late");
        assert!(!others.take(now, &mut taken));
    }
}

//! Room for answers that were read from disk and that their event loops have not taken yet.
//!
//! A value may have half a gigabyte, and a request for it a few bytes. Many threads read: without a bound, what they have read for
//! clients that take nothing would be in memory before `maxmemory-clients` could close one. A read for which there is no room waits here,
//! and holds no thread.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of such answers beyond which no further read begins.
const BYTES_SOFT: usize = 64 << 20;
/// Shorter answers are not counted.
const COUNTED_BYTES_MIN: usize = 64 << 10;

/// The mean is over about so many.
const LIKELY_OF: usize = 4;

/// What makes a read.
type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Taken {
    bytes: usize,
    /// How long the next answer is taken to be, if nothing else is known: a mean over the last ones.
    likely: usize,
    /// Reads that wait, and how long their answers are taken to be.
    waiting: VecDeque<(usize, Job)>,
}

impl Taken {
    /// Whether a read may begin: one always may.
    fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= BYTES_SOFT
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct AnswerRoom {
    taken: Mutex<Taken>,
}

/// Room that an answer takes until this is dropped.
pub(crate) struct AnswerShare {
    room: Arc<AnswerRoom>,
    bytes: usize,
}

impl AnswerRoom {
    /// Begins `read`, whose answer has about so many bytes, as far as that is known; or keeps what `later` makes of it until there is room.
    pub(crate) fn begin<T>(
        self: &Arc<Self>,
        known_bytes: usize,
        read: T,
        later: impl FnOnce(T) -> Job,
    ) -> Option<(AnswerShare, T)> {
        let mut taken = self.taken.lock();
        let bytes = known_bytes.max(taken.likely);
        if !taken.has_room(bytes) {
            taken.waiting.push_back((bytes, later(read)));
            return None;
        }
        taken.bytes += bytes;
        Some((AnswerShare { room: self.clone(), bytes }, read))
    }

    /// A read that waits and may begin. To be asked whenever room was given back, and again until there is none.
    pub(crate) fn next(&self) -> Option<Job> {
        let mut taken = self.taken.lock();
        let bytes = taken.waiting.front().map(|(bytes, _)| *bytes)?;
        let may_begin = taken.has_room(bytes.min(taken.likely));
        may_begin.then(|| taken.waiting.pop_front().map(|(_, read)| read)).flatten()
    }
}

impl AnswerShare {
    /// The answer was made, and has so many bytes. A short one takes no room.
    pub(crate) fn made(mut self, bytes: usize) -> Option<Self> {
        let bytes = if bytes < COUNTED_BYTES_MIN { 0 } else { bytes };
        let mut taken = self.room.taken.lock();
        taken.bytes = taken.bytes - self.bytes + bytes;
        taken.likely = taken.likely - taken.likely / LIKELY_OF + bytes / LIKELY_OF;
        drop(taken);
        self.bytes = bytes;
        (bytes > 0).then_some(self)
    }
}

impl Drop for AnswerShare {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.room.taken.lock().bytes -= self.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_answers_few_are_in_memory() {
        let room = Arc::new(AnswerRoom::default());
        let begin = |known_bytes| room.begin(known_bytes, (), |()| Box::new(|| {})).map(|(share, ())| share);
        assert!(begin(0).is_some_and(|share| share.made(100).is_none()), "a short one takes no room");
        let first = begin(0).and_then(|share| share.made(BYTES_SOFT));
        assert!(first.is_some(), "one that nothing was known of");
        assert!(begin(0).is_none(), "the next may be long, too, and waits");
        assert!(room.next().is_none(), "there is no room yet");
        drop(first);
        assert!(room.next().is_some() && room.next().is_none(), "it goes on");
        // Ones that are known to be half as long have it together.
        room.taken.lock().likely = 0;
        let halves = [0; 2].map(|_| begin(BYTES_SOFT / 2));
        assert!(halves.iter().all(Option::is_some) && begin(BYTES_SOFT / 2).is_none());
        drop(halves);
        assert!(room.next().is_some());
        (0..100).for_each(|_| drop(begin(0).and_then(|share| share.made(0))));
        let taken = room.taken.lock();
        assert!(taken.bytes == 0 && taken.likely < LIKELY_OF, "long ones are forgotten");
    }
}

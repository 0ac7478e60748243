//! Room for answers that were read from disk and that their event loops have not taken yet.
//!
//! A value may have half a gigabyte, and a request for it a few bytes. Many threads read: without a bound, what they have read for
//! clients that take nothing would be in memory before `maxmemory-clients` could close one. A read that is known to be long and for which
//! there is no room waits here, and holds no thread. So does one of unknown length while the answers that have been made take all of the
//! room. Event loops take them soon.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of such answers beyond which no further read begins.
const BYTES_SOFT: usize = 64 << 20;
/// Shorter answers are not counted.
const COUNTED_BYTES_MIN: usize = 64 << 10;

/// What makes a read that there is room for.
type Waiting = Box<dyn FnOnce(AnswerShare) + Send>;

#[derive(Default)]
struct Taken {
    bytes: usize,
    /// Reads that wait, and how long their answers are taken to be.
    waiting: VecDeque<(usize, Waiting)>,
}

impl Taken {
    /// Whether a read may begin: one always may.
    fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || (self.bytes < BYTES_SOFT && self.bytes + bytes <= BYTES_SOFT)
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
    /// Those that wait come first.
    pub(crate) fn begin<T>(
        self: &Arc<Self>,
        known_bytes: usize,
        read: T,
        later: impl FnOnce(T) -> Waiting,
    ) -> Option<(AnswerShare, T)> {
        let mut taken = self.taken.lock();
        let bytes = counted(known_bytes);
        let is_behind = bytes > 0 && !taken.waiting.is_empty();
        if is_behind || !taken.has_room(bytes) {
            taken.waiting.push_back((bytes, later(read)));
            return None;
        }
        taken.bytes += bytes;
        Some((AnswerShare { room: self.clone(), bytes }, read))
    }

    /// What a read takes that no client waits for.
    pub(crate) fn none(self: &Arc<Self>) -> AnswerShare {
        AnswerShare { room: self.clone(), bytes: 0 }
    }

    /// The read that has waited longest, with its room, if there is any. To be asked whenever room was given back, until there is none.
    pub(crate) fn next(self: &Arc<Self>) -> Option<(AnswerShare, Waiting)> {
        let mut taken = self.taken.lock();
        let bytes = taken.waiting.front().map(|(bytes, _)| *bytes)?;
        if !taken.has_room(bytes) {
            return None;
        }
        let (_, read) = taken.waiting.pop_front()?;
        taken.bytes += bytes;
        Some((AnswerShare { room: self.clone(), bytes }, read))
    }
}

impl AnswerShare {
    /// The answer was made, and has so many bytes. A short one takes no room.
    pub(crate) fn made(mut self, bytes: usize) -> Option<Self> {
        let bytes = counted(bytes);
        let mut taken = self.room.taken.lock();
        taken.bytes = taken.bytes - self.bytes + bytes;
        drop(taken);
        self.bytes = bytes;
        (bytes > 0).then_some(self)
    }
}

/// What an answer of so many bytes takes of the room.
fn counted(bytes: usize) -> usize {
    if bytes < COUNTED_BYTES_MIN { 0 } else { bytes }
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
        let begin = |known_bytes| room.begin(known_bytes, (), |()| Box::new(drop)).map(|(share, ())| share);
        assert!(begin(0).is_some_and(|share| share.made(100).is_none()), "a short one takes no room");
        let first = begin(0).and_then(|share| share.made(BYTES_SOFT));
        assert!(first.is_some(), "one that nothing was known of");
        assert!(begin(BYTES_SOFT / 2).is_none() && room.next().is_none(), "a long one waits");
        assert!(begin(0).is_none(), "nor does one of unknown length begin");
        drop(first);
        assert!(begin(BYTES_SOFT / 2).is_none(), "who came before is first");
        let all = [0; 3].map(|_| room.next().expect("there is room for all"));
        assert!(begin(BYTES_SOFT).is_none() && room.next().is_none());
        drop(all);
        drop(room.next().expect("one that fills the room has it alone"));
        assert!(room.next().is_none() && room.taken.lock().bytes == 0);
    }
}

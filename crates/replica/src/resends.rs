//! Keeps bulk that is on its way to a follower from being sent again at once.
//!
//! A leader that does not know where a follower's log ends sends it the same entries again with each heartbeat that is
//! answered, which reads cause as well. Large entries are still on their way then, and the copies fill the link: a follower
//! that has to catch up with large entries did not, for as long as heartbeats were answered.

use crate::election::ELECTION_TICKS;
use raft::eraftpb::{Message, MessageType};
use std::collections::BTreeMap;

/// Appends of fewer bytes may go out as often as raft-rs wants.
const BULK_BYTES: usize = 16 * 1024;
/// Ticks before the same bulk is sent again; the second time twice as many, up to `WAIT_TICKS_MAX`.
const WAIT_TICKS: u64 = ELECTION_TICKS as u64;
/// Most ticks before the same bulk is sent again.
const WAIT_TICKS_MAX: u64 = 4 * WAIT_TICKS;

/// Bulk that was sent to a follower.
struct Sent {
    /// The index of the entry before it, and the term of its leader.
    after: (u64, u64),
    at: u64,
    wait: u64,
}

/// What bulk each follower was sent last.
#[derive(Default)]
pub(crate) struct Resends {
    ticks: u64,
    sent: BTreeMap<u64, Sent>,
}

impl Resends {
    /// A tick has passed.
    pub(crate) fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Whether a message may go out now. One that may not is not lost for long: raft-rs makes it again.
    pub(crate) fn lets_out(&mut self, message: &Message) -> bool {
        if message.get_msg_type() != MessageType::MsgAppend
            || message.entries.iter().map(|entry| entry.data.len()).sum::<usize>() < BULK_BYTES
        {
            return true;
        }
        let after = (message.index, message.term);
        let wait = match self.sent.get(&message.to) {
            Some(sent) if sent.after == after && self.ticks < sent.at + sent.wait => return false,
            Some(sent) if sent.after == after => (2 * sent.wait).min(WAIT_TICKS_MAX),
            _ => WAIT_TICKS,
        };
        self.sent.insert(message.to, Sent { after, at: self.ticks, wait });
        true
    }

    /// A follower has answered: it has got the bulk, or it lacks what is before.
    pub(crate) fn heard(&mut self, message: &Message) {
        if message.get_msg_type() == MessageType::MsgAppendResponse
            && self.sent.get(&message.from).is_some_and(|sent| match message.reject {
                true => message.index == sent.after.0,
                false => message.index > sent.after.0,
            })
        {
            self.sent.remove(&message.from);
        }
    }

    /// What was sent to a follower may not have arrived.
    pub(crate) fn lost(&mut self, to: u64) {
        self.sent.remove(&to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft::eraftpb::Entry;

    fn append(index: u64, bytes: usize) -> Message {
        let mut message = Message { to: 2, index, term: 3, ..Message::default() };
        message.set_msg_type(MessageType::MsgAppend);
        message.entries = vec![Entry { data: vec![0; bytes].into(), ..Entry::default() }].into();
        message
    }

    fn answer(index: u64, reject: bool) -> Message {
        let mut message = Message { from: 2, index, reject, term: 3, ..Message::default() };
        message.set_msg_type(MessageType::MsgAppendResponse);
        message
    }

    fn pass(resends: &mut Resends, ticks: u64) {
        (0..ticks).for_each(|_| resends.tick());
    }

    #[test]
    fn the_same_bulk_waits_for_an_answer_or_for_its_time() {
        let mut resends = Resends::default();
        let (bulk, small) = (append(7, BULK_BYTES), append(7, BULK_BYTES - 1));
        assert!(resends.lets_out(&bulk) && !resends.lets_out(&bulk));
        assert!(resends.lets_out(&small) && resends.lets_out(&small), "what is small may go out");
        pass(&mut resends, WAIT_TICKS - 1);
        assert!(!resends.lets_out(&bulk));
        pass(&mut resends, 1);
        assert!(resends.lets_out(&bulk), "it may be lost");
        pass(&mut resends, WAIT_TICKS);
        assert!(!resends.lets_out(&bulk), "the second time it waits for longer");
        resends.heard(&answer(7, false));
        resends.heard(&answer(6, true));
        assert!(!resends.lets_out(&bulk), "that is of what was sent before");
        resends.heard(&answer(7, true));
        assert!(resends.lets_out(&bulk));
        resends.heard(&answer(8, false));
        assert!(resends.lets_out(&append(8, BULK_BYTES)), "the next may follow");
        assert!(resends.lets_out(&append(9, BULK_BYTES)));
        resends.lost(2);
        assert!(resends.lets_out(&append(9, BULK_BYTES)));
    }
}

//! The long replies of one connection, and which of them continues next.

use node::Ticket;
use node::read::ReplyStream;
use vocab::limits::STREAM_UNSENT_BYTES_SOFT;

/// A reply whose next part is not asked for yet.
struct Waiting {
    ticket: Ticket,
    stream: ReplyStream,
}

/// The long replies of a connection whose next parts wait until their client has taken more.
///
/// Invariant: the parts of at most one reply are being made at a time for each place here; what waits has none being made.
#[derive(Default)]
pub(super) struct LongReplies(Vec<Waiting>);

impl LongReplies {
    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one reads a replica that another one is to take the place of.
    pub(super) fn is_to_end(&self) -> bool {
        self.0.iter().any(|waiting| waiting.stream.is_to_end())
    }

    /// A reply waits with what makes its next part.
    pub(super) fn wait(&mut self, ticket: Ticket, stream: ReplyStream) {
        self.0.push(Waiting { ticket, stream });
    }

    /// The reply whose next part is to be made now: the one that leaves next, if its client has taken enough.
    pub(super) fn go_on(&mut self, unsent: usize, is_next: impl Fn(u64) -> bool) -> Option<(Ticket, ReplyStream)> {
        if unsent > STREAM_UNSENT_BYTES_SOFT {
            return None;
        }
        let at = self.0.iter().position(|waiting| is_next(waiting.ticket.sequence))?;
        let Waiting { ticket, stream } = self.0.swap_remove(at);
        Some((ticket, stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_that_leaves_next_goes_on_when_its_client_has_taken_enough() {
        let mut replies = LongReplies::default();
        for sequence in [4, 2] {
            replies.wait(Ticket { sequence, ..Ticket::NONE }, ReplyStream::default());
        }
        for (unsent, next, expected) in [
            (0, 3, None),
            (STREAM_UNSENT_BYTES_SOFT + 1, 2, None),
            (STREAM_UNSENT_BYTES_SOFT, 2, Some(2)),
            (0, 2, None),
            (0, 4, Some(4)),
        ] {
            let found = replies.go_on(unsent, |sequence| sequence == next).map(|(ticket, _)| ticket.sequence);
            assert_eq!(found, expected, "{unsent} bytes, {next} is next");
        }
        assert!(replies.is_empty());
    }
}

//! Writes of slots that are between two shards: they wait until it is known which shard has the slot, and who leads it.

use crate::access::Access;
use crate::mailbox::Submission;
use crate::shared::NodeShared;
use node::Ticket;
use node::session::Consistency;

/// How long a write waits for the shard that has its slot now to be led, in µs.
const HELD_WITHIN_US: u64 = 5_000_000;

/// A write that waits.
struct FencedWrite {
    submission: Submission,
    /// Since when, in µs of the steady clock.
    since_us: u64,
}

/// A write that is not made.
pub(super) struct RefusedWrite {
    pub(super) ticket: Ticket,
    /// What its client is told.
    pub(super) text: String,
}

/// The writes of a worker that wait for the new shard of their slot.
#[derive(Default)]
pub(super) struct FencedWrites(Vec<FencedWrite>);

impl FencedWrites {
    /// A write has come to a shard that is giving its slot away, or has given it away.
    pub(super) fn hold(&mut self, submission: Submission, now_us: u64) {
        self.0.push(FencedWrite { submission, since_us: now_us });
    }

    /// Moves writes that can be made now to `writes`, with their slot's shard; the rest waits, or is refused.
    pub(super) fn release(
        &mut self,
        store: &NodeShared,
        now_us: u64,
        writes: &mut Vec<Submission>,
        refused: &mut Vec<RefusedWrite>,
    ) {
        for fenced in std::mem::take(&mut self.0) {
            let known = store.known();
            let ticket = fenced.submission.ticket;
            let shard = known.shard_of(ticket.slot).unwrap_or_default();
            let text = match store.access(&known, shard, ticket.slot, Consistency::Absolute) {
                Access::Leader(_) | Access::Follower(_) => {
                    writes.push(Submission { shard, ..fenced.submission });
                    continue;
                }
                Access::Wait if now_us < fenced.since_us + HELD_WITHIN_US => {
                    self.0.push(fenced);
                    continue;
                }
                Access::Wait => store.no_leader(Consistency::Absolute),
                Access::Refused(text) => text,
            };
            store.write_left(fenced.submission.write.bytes());
            refused.push(RefusedWrite { ticket, text });
        }
    }
}

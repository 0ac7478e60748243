//! Writes of slots that are between two shards: they wait until it is known which shard has the slot, and who leads it.

use crate::mailbox::Submission;
use crate::shared::NodeShared;
use crate::shared::refusal_text;
use node::Ticket;
use node::read::{Hold, NotHere, leader_access};
use node::session::Consistency;

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
    pub(super) fn push(&mut self, submission: Submission, now_us: u64) {
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
            let local = known.local(store.node(), known.shard_of(ticket.slot));
            let text = match leader_access(local, ticket.slot, Hold::for_slot_move(fenced.since_us), now_us) {
                Ok(leader) => {
                    writes.push(Submission { shard: leader.handle().id(), ..fenced.submission });
                    continue;
                }
                Err(NotHere::Wait { .. }) => {
                    self.0.push(fenced);
                    continue;
                }
                Err(why) => refusal_text(&known, ticket.slot, Consistency::Absolute, &why),
            };
            store.write_left(fenced.submission.write.bytes());
            refused.push(RefusedWrite { ticket, text });
        }
    }
}

//! Writes of slots that are between two shards: they wait until it is known which shard has the slot, and who leads it.

use crate::mailbox::Submission;
use crate::shared::NodeShared;
use crate::shared::refusal_text;
use node::Ticket;
use node::read::{Deadline, NotHere, leader_access};
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
            let text = match leader_access(local, ticket.slot, Deadline::for_slot_move(fenced.since_us), now_us) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{IdleNode, TestNode};
    use cluster::NodeInfo;
    use node::{EncodedCommand, KeyHashes, Write};
    use std::sync::Arc;
    use vocab::limits::SLOT_MOVE_WAIT_US_MAX;
    use vocab::{NodeId, ShardId, Slot, StoreId};

    const THERE: NodeId = NodeId(99);
    const SHARD: ShardId = ShardId(1);
    /// The first slot of the last of two shards.
    const SLOT: Slot = Slot(8192);
    const BEGAN_US: u64 = 1_000_000;

    /// A write of `SLOT` that has come to `SHARD`, whose slot that was.
    fn write(store: &NodeShared) -> Submission {
        let write = Write::Command(EncodedCommand::new(&[b"SET", b"k", b"v"]));
        store.write_queued(write.bytes());
        let ticket = Ticket { slot: SLOT, ..Ticket::NONE };
        Submission { shard: SHARD, write, keys: KeyHashes::new(), ticket, waits_in: None }
    }

    /// What becomes of the writes at a time: the shards of those that are made, and what clients are told of the others.
    fn release(fenced: &mut FencedWrites, store: &NodeShared, now_us: u64) -> (Vec<ShardId>, Vec<String>) {
        let (mut writes, mut refused) = (Vec::new(), Vec::new());
        fenced.release(store, now_us, &mut writes, &mut refused);
        let shards = writes.iter().map(|write| write.shard).collect();
        (shards, refused.into_iter().map(|refused| refused.text).collect())
    }

    #[test]
    fn a_write_waits_for_a_leader_and_goes_there_or_is_refused() {
        let node = IdleNode::open();
        let store = &node.store;
        let other = NodeInfo { id: THERE, client_host: "there".to_owned(), client_port: 7, ..store.node_info() };
        let map = cluster::initial_map(StoreId(1), &[store.node_info(), other], 2, 2).unwrap();
        store.routing.set_map(Arc::new(map));
        let known = store.known();
        let leader = &known.place(known.shard_of(SLOT).unwrap()).unwrap().leader;
        let mut fenced = FencedWrites::default();
        fenced.push(write(store), BEGAN_US);
        let end_us = BEGAN_US + SLOT_MOVE_WAIT_US_MAX;
        assert_eq!(release(&mut fenced, store, end_us - 1), (vec![], vec![]), "it waits");
        let (made, told) = release(&mut fenced, store, end_us);
        assert!(made.is_empty() && told.len() == 1 && told[0].starts_with("CLUSTERDOWN "), "{told:?}");
        assert_eq!(store.queued_bytes(), 0, "it is on its way no more");
        fenced.push(write(store), BEGAN_US);
        assert_eq!(release(&mut fenced, store, BEGAN_US), (vec![], vec![]));
        assert!(leader.learn(Some(THERE), 1));
        let moved = (vec![], vec!["MOVED 8192 there:7".to_owned()]);
        assert_eq!(release(&mut fenced, store, BEGAN_US), moved, "another node has the slot");
        assert_eq!((release(&mut fenced, store, end_us), store.queued_bytes()), ((vec![], vec![]), 0), "once");
    }

    #[test]
    fn a_write_is_made_by_the_shard_that_has_its_slot_now() {
        let node = TestNode::start(&[]);
        let store = node.store();
        let shard = store.known().shard_of(SLOT).unwrap();
        assert_ne!(shard, SHARD);
        let mut fenced = FencedWrites::default();
        let (first, second) = (write(store), write(store));
        let bytes = first.write.bytes() + second.write.bytes();
        fenced.push(first, BEGAN_US);
        fenced.push(second, BEGAN_US);
        assert_eq!(release(&mut fenced, store, BEGAN_US), (vec![shard, shard], vec![]));
        assert!(store.queued_bytes() >= bytes, "they are still on their way");
        store.write_left(bytes);
    }
}

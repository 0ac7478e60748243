//! The messages between two nodes. One link carries those of all shards. docs/FORMATS.md has their bytes.

use super::interest::Interest;
use replica::Message;
use std::sync::Arc;
use vocab::{NodeId, ShardId};

/// What one node says to another. Any of them may be lost, and may come twice.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerMessage {
    /// For one replica of a shard, from another: `from` and `to` in it are replica ids.
    Raft {
        /// The shard.
        shard: ShardId,
        /// What raft-rs says.
        message: Message,
    },
    /// The sender leads these shards and has nothing to do in them: their followers need no heartbeats as long as the
    /// sender is heard of, if they hold all that is committed.
    Hibernate {
        /// Shard, term and committed index.
        shards: Vec<(ShardId, u64, u64)>,
    },
    /// The sender follows the receiver in these shards and wants to know how old its replicas are: if they hibernate,
    /// that is over.
    Wake {
        /// The shards.
        shards: Vec<ShardId>,
    },
    /// The sender lives.
    Beat {
        /// The sender's steady clock, in µs.
        sent_us: u64,
        /// The sender's wall clock, in ms; 0 while it does not vouch for it.
        wall_ms: u64,
    },
    /// The answer to a beat.
    BeatAnswer {
        /// What the beat said.
        sent_us: u64,
        /// The answerer's wall clock, in ms; 0 while it does not vouch for it.
        wall_ms: u64,
    },
    /// The shards that the sender leads.
    Leading {
        /// Whether these are all of them, or those that were added.
        full: bool,
        /// Shard and term.
        shards: Vec<(ShardId, u64)>,
    },
    /// The map, encoded.
    Map(Vec<u8>),
    /// Changes of the map, for a node that has an older one.
    MapChanges {
        /// The store.
        store: u64,
        /// The epoch of the map that the first of them makes; each of the others makes the next.
        first: u64,
        /// The changes, encoded, the oldest first.
        changes: Vec<Arc<[u8]>>,
    },
    /// The sender has the map of this epoch, and wants a newer one.
    MapAsked {
        /// The epoch; 0: none.
        epoch: u64,
    },
    /// A change of the map, encoded, for the leader of the metadata group.
    Propose {
        /// The change.
        change: Vec<u8>,
    },
    /// For the leader of a shard.
    Order {
        /// The shard.
        shard: ShardId,
        /// What to do.
        order: Order,
    },
    /// A command to run on the leader of a shard, for a node that does not lead it.
    Call {
        /// Chosen by the caller, for the answer.
        id: u64,
        /// The shard.
        shard: ShardId,
        /// The arguments, encoded.
        command: Vec<u8>,
    },
    /// The answer to a call.
    Answer {
        /// The call's.
        id: u64,
        /// One RESP3 frame.
        reply: Vec<u8>,
    },
    /// The sender belongs to no store yet and wants to.
    Join {
        /// Who it is, encoded.
        node: Vec<u8>,
    },
    /// A store is being made: this is its first map, encoded.
    Bootstrap {
        /// The map.
        map: Vec<u8>,
    },
    /// The sender has kept the first map of that store and serves its part.
    BootstrapDone {
        /// The store.
        store: u64,
    },
    /// What the sender tells the director of itself: a `NodeReport`, encoded.
    Report(Vec<u8>),
    /// What the sender's clients have subscribed to.
    Interest(Interest),
    /// The sender knows the receiver's interest, up to that message.
    InterestKnown {
        /// The number of the message.
        number: u64,
    },
    /// A message for clients that have subscribed to its channel.
    Publish {
        /// Chosen by the sender, for the answer; 0: none is wanted.
        id: u64,
        /// The channel.
        channel: Arc<[u8]>,
        /// What was published.
        message: Arc<[u8]>,
    },
    /// So many clients of the sender got a message.
    Published {
        /// The message's.
        id: u64,
        /// How many.
        receivers: u64,
    },
}

/// Messages that keep their order, whether they go in pieces or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// What replicas of a shard are sent.
    Replicas(ShardId),
    /// What is published, and what subscribers want.
    Subscribers,
}

/// What a shard's leader is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Hand leadership over to the replica on that node.
    Transfer {
        /// The node.
        to: NodeId,
    },
    /// Add a replica, as a learner.
    Add {
        /// The replica's id.
        replica: u64,
        /// Where.
        node: NodeId,
    },
    /// Remove a replica. A leader that is to go itself hands over first.
    Remove {
        /// The replica's id.
        replica: u64,
    },
    /// Give a learner that holds everything a vote.
    Promote {
        /// The replica's id.
        replica: u64,
    },
    /// Go on as the only member, whatever that loses: for a replica whose group has lost its majority for good.
    Recover {
        /// The replica's id.
        replica: u64,
    },
    /// Give some slots to a new shard, on the same nodes.
    Split {
        /// The new shard.
        child: ShardId,
        /// The slots, as ranges of first and last.
        slots: Vec<(u16, u16)>,
    },
}

//! Bugs that are put in on purpose: a checker that finds none of them proves nothing.

use std::str::FromStr;

/// A bug of the shell, of the disk or of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The log says that it is on the disk, and has not fsynced.
    SkipFsync,
    /// A leader answers reads without asking whether it still leads.
    NoLease,
    /// A replica forgets over a restart whom it voted for.
    ForgetVote,
    /// A write is acknowledged when it is proposed.
    EarlyAck,
    /// A node's tree loses a write now and then.
    LoseWrite,
    /// A message changes an entry on its way.
    TwistEntry,
    /// A leader does not ask after a read whether it led all the time.
    LeaseOnce,
    /// A leader does not ask after a read whether the slot is still its shard's.
    OwnerOnce,
    /// A replica that was started again answers before it has applied what it had applied before.
    BeforeReplay,
    /// The shard is not told that the rows which its entries wait for are in memory.
    LostRows,
    /// A read is answered from what the node has, even if another node leads.
    ReadAnywhere,
    /// A replica that does not lead answers whatever was promised, with what it has.
    BlindReplica,
    /// A read goes by a clock that stands an hour back: what has expired is still there.
    OldClock,
    /// A node goes by its own wall clock, whatever those of the others show.
    FollowWall,
    /// What is on disk of a replica stays there when the map has it no more.
    KeepFiles,
    /// The director's orders do not arrive.
    DropOrders,
    /// A request that is sent again is applied again.
    Twice,
    /// A write that was proposed is told to be refused when its client gets impatient.
    RefuseLate,
    /// A shard that is split off lacks what the last entry before the split wrote.
    ForgetLast,
    /// Heartbeats and votes wait behind bulk.
    BulkFirst,
    /// While a log write is under way, heartbeats are neither sent nor answered.
    MuteLog,
    /// What is beyond a limit is proposed.
    NoAdmission,
    /// A lack of descriptors or memory poisons the node.
    PoisonOnLack,
    /// Reads tell what has expired by the machine's own clock.
    LocalExpiry,
    /// A node does not tell its interest again when a link is back.
    ForgetInterest,
    /// Two messages to another node change places.
    SwapMessages,
    /// A message goes to another node twice.
    DoubleMessage,
    /// A subscription is confirmed before other nodes know of it.
    EarlyConfirm,
    /// Subscriptions to channels of a slot stay where another node leads it.
    KeepSubscribers,
    /// What an event loop has done of an entry before it gave it up is in the tree when the entry is evaluated again.
    KeepGivenUp,
}

/// All of them, with their names.
pub const BUGS: &[(&str, Bug)] = &[
    ("skip-fsync", Bug::SkipFsync),
    ("no-lease", Bug::NoLease),
    ("forget-vote", Bug::ForgetVote),
    ("early-ack", Bug::EarlyAck),
    ("lose-write", Bug::LoseWrite),
    ("twist-entry", Bug::TwistEntry),
    ("lease-once", Bug::LeaseOnce),
    ("owner-once", Bug::OwnerOnce),
    ("before-replay", Bug::BeforeReplay),
    ("lost-rows", Bug::LostRows),
    ("read-anywhere", Bug::ReadAnywhere),
    ("blind-replica", Bug::BlindReplica),
    ("old-clock", Bug::OldClock),
    ("follow-wall", Bug::FollowWall),
    ("keep-files", Bug::KeepFiles),
    ("drop-orders", Bug::DropOrders),
    ("twice", Bug::Twice),
    ("refuse-late", Bug::RefuseLate),
    ("forget-last", Bug::ForgetLast),
    ("bulk-first", Bug::BulkFirst),
    ("mute-log", Bug::MuteLog),
    ("no-admission", Bug::NoAdmission),
    ("poison-on-lack", Bug::PoisonOnLack),
    ("local-expiry", Bug::LocalExpiry),
    ("forget-interest", Bug::ForgetInterest),
    ("swap-messages", Bug::SwapMessages),
    ("double-message", Bug::DoubleMessage),
    ("early-confirm", Bug::EarlyConfirm),
    ("keep-subscribers", Bug::KeepSubscribers),
    ("keep-given-up", Bug::KeepGivenUp),
];

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = BUGS.iter().find(|(name, _)| *name == text).map(|(_, bug)| *bug);
        found.ok_or_else(|| {
            let names: Vec<&str> = BUGS.iter().map(|(name, _)| *name).collect();
            format!("no bug is called '{text}': {}", names.join(", "))
        })
    }
}

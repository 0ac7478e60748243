//! CLIENT TRACKING: which clients are told when keys change, because they may have cached them.
//!
//! A client reads at a node, and that node tells it. Each replica applies each write, so the node that has answered the read
//! sees the change, whether or not it leads the shard. What a node remembers of a shard it forgets when it can no longer
//! be sure to see the changes in time: another node leads the shard, the slots are split off, rows come by snapshot, all keys
//! are removed, the replica is closed. Then those clients are told to forget all.
//!
//! Invariant: a client is registered for a key before the key is read for it, or with the entry that has read it, and the change of a key is looked up among the
//! registered clients after the change is visible. So a client that has read an older value is registered by then. The server
//! sends what a client is told behind the replies that were under way.
//!
//! What another node answers for a client of a database is registered at that node, for the connection over which the request has come
//! ([`TrackingElsewhere`]): it is told there, in its place between the answers, and the client's node passes it on. When such a connection
//! is lost, its client is told to forget all.

mod changes;
mod elsewhere;
mod keys_read;
mod listeners;
mod mode;
mod options;
mod prefixes;
mod step_map;
mod table;
mod told_room;
mod tracker;

pub use changes::{ChangedKey, ChangedKeys, Invalidation, Stays, write_broken_redirect};
pub(crate) use changes::{Changes, ChangesLen};
pub use elsewhere::TrackingElsewhere;
pub use keys_read::KeysRead;
pub use mode::TrackingMode;
pub use options::TrackingOptions;
pub use prefixes::Prefix;
pub use table::{TrackedKeys, Tracking};
pub use told_room::ToldRoom;
pub use tracker::{Audience, Registers, Tracker};

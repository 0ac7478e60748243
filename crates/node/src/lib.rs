//! The node: routes, executes and counts; no socket, no clock, no thread.

mod absent_watch;
mod commands;
pub mod config;
pub mod control;
pub mod core;
mod counters;
pub mod director;
mod entry;
mod entry_space;
pub mod exec;
pub mod inspect;
mod keys;
pub mod peer;
mod read_space;
mod record;
mod remote_space;
pub mod session;
mod shard;
mod slots;
mod space;
pub mod stats;
mod view;

pub use absent_watch::AbsentWatch;
pub use commands::{Handlers, handlers};
pub use config::Config;
pub use entry::{EncodedCommand, EntryBuilder, Item, Items, decode as decode_entry};
pub use entry_space::EntrySpace;
pub use read_space::{CachedSpace, Held, SnapshotSpace};
pub use record::{Kind, Record, RecordView, Spread};
pub use remote_space::{Remote, RemoteAnswer, RemoteSpace, remote_records};
pub use shard::{
    Answers, ArrivedSnapshot, ColdItem, Effects, Fact, KeyHash, LEASE_US, Shard, SnapshotTask, SplitTask, StoreEvent,
    Ticket, Warmed, Warmth, Write, cold_items, events_after, key_hash, newest_events, stored_map,
};
pub use slots::Slots;
pub use space::{Fault, RecordRange, Records, Shards, SmallHash, Space};
pub use view::ShardView;
pub use view::load::LoadSampler;

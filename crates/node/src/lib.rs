//! The node: routes, executes and counts; no socket, no clock, no thread.

mod absent_watch;
pub mod acl;
mod awaited_keys;
pub mod blocking;
mod clock_keeper;
mod cluster_database_counts;
pub mod command;
pub mod config;
pub mod control;
mod counters;
mod drawn_stretch;
mod entry_id;
pub mod eviction;
mod fault;
mod format;
mod guarantees;
mod hot_keys;
pub mod inspect;
mod key_usage;
mod keyspace_events;
mod monitored_calls;
mod monitors;
pub mod multi_raft;
mod outcome;
pub mod peer_protocol;
pub mod pubsub;
mod quiet_changes;
pub mod read;
mod redis_version;
mod reply_size;
pub mod request;
mod script;
mod script_message;
mod script_turn;
mod script_watch;
pub mod session;
mod shard;
mod shard_handle;
mod skipped;
mod space;
pub mod stats;
mod storage_failure;
mod store_clock;
mod subscriber;
#[cfg(test)]
mod test_nodes;
#[cfg(test)]
mod test_shard;
pub mod tracking;
mod transfer_request;

pub use absent_watch::{AbsentWatch, WatchedVersion};
pub use awaited_keys::{Awaited, AwaitedKeys, Holds, ReadyKey};
pub use clock_keeper::ClockKeeper;
pub use cluster_database_counts::ClusterDatabaseKeys;
pub use command::{CollectionCopy, SliceSource, StagedAt};
pub use config::Config;
pub use counters::DatabaseKeys;
pub use entry_id::EntryId;
pub use fault::Fault;
pub use format::Fact;
pub use format::entry::{
    Bounding, CollectFrom, EncodedCommand, EntryBuilder, Evaluation, Item, Items, Pops, Rules, decode as decode_entry,
};
pub use format::internal_commands::SHARD_PAGE;
pub use format::record::{Kind, Layout, Record, RecordView, Rows, Type};
pub use format::slots::Slots;
pub use hot_keys::{HotCost, HotKeys};
pub use key_usage::KeyUsage;
pub use keyspace_events::{Event, EventClass, EventClasses, KeyspaceEvent};
pub use monitored_calls::{DeniedCall, MonitoredCalls, ShownCall};
pub use monitors::{Monitors, monitored};
pub use outcome::{Outcome, UNCONFIRMED, UNKNOWN as OUTCOME_UNKNOWN};
pub use reply_size::{ExpectedReply, expected_rewrite, likely_bytes};
pub use request::{KeyHash, KeyHashes, RequestKeys, key_hash};
pub use script::{
    EngineVersion, FunctionInfo, KnownScript, KnownScripts, LIBRARIES_NAME, Libraries, LoadedLibrary, ScriptContext,
    ScriptDatabases, ScriptFlags, ScriptHeader, ScriptOrigin, ScriptTally, check_library, check_script, is_sha,
    keep_script, keep_script_state, sha1_hex, stored_libraries, stored_script, stored_script_names,
    stored_script_sources,
};
pub use script_message::ScriptMessage;
pub use script_turn::ScriptTurn;
pub use script_watch::{Killed, RunningScript, ScriptWatch};
pub use shard::{
    Answers, AppliedAside, ApplyTask, ArrivedSnapshot, Effects, LEASE_US, NOSCRIPT, PrefetchItem, Prefetched,
    PreparedWrite, Shard, SnapshotTask, SplitTask, StoreEvent, Ticket, Write, declared_keys, events_after,
    function_command, is_large_entry, newest_event, newest_events, read_script, read_script_first, read_transaction,
    read_transaction_in_steps, script_as, script_command, script_without_context, slot_of_script, stored_map,
    without_namespace,
};
pub use shard_handle::ShardHandle;
pub use shard_handle::load::LoadSampler;
pub use space::apply::EntrySpace;
pub use space::read::{CachedSpace, Held, SnapshotSpace};
pub use space::remote::{Remote, RemoteAnswer, RemoteCall, RemoteSpace, remote_counts, remote_heads, remote_records};
pub use space::{
    Edit, Emptied, Heads, Need, Patch, ReadSpace, RecordRange, Records, ShardSpace, ShardSpaces, Shards, WriteSpace,
};
pub use storage_failure::{note_failure, note_lack};
pub use store_clock::{SKEW_MS_MAX, StoreClock};

//! The words of the house: ids, addresses, slots, limits, time and seeded randomness. Depends on nothing.

mod address;
mod bytes;
mod database;
mod encoding;
mod eviction;
pub mod fuzz;
mod ids;
pub mod limits;
mod prng;
mod secret;
mod shortage;
mod slot;
mod time;
mod token_bucket;

pub use address::{host_and_port, host_of};
pub use bytes::memory_bytes;
pub use database::{
    CLUSTER_DATABASE_MARK_BYTES, CLUSTER_DATABASE_PREFIX_BYTES, ClusterDatabase, DATABASE_PREFIX_BYTES,
    DATABASE_TAG_BYTES, Database, KeyPrefix, Namespace, client_key, cluster_database_keys, database_keys,
    is_database_key, keys_of_databases_alone, prefix_of_tag, split_tag,
};
pub use encoding::{Malformed, Reader, put_bytes, put_varint, varint_bytes};
pub use eviction::EVICTION_POLICIES;
pub use ids::{Epoch, NodeId, PlanId, ReplicaId, ShardId, Slot, StoreId, Version};
pub use prng::Prng;
pub use secret::same_secret;
pub use shortage::is_shortage;
pub use slot::{SLOT_COUNT, SlotSpan, crc16, hash_tag, slot_of, slot_tag};
pub use time::{Millis, Moment, SteadyClock, wall_clock_ms};
pub use token_bucket::TokenBucket;

//! The names of eviction policies: what is set for the store and for single databases is read by different crates.

/// The names of `maxmemory-policy`, in the order in which Redis tells them; the last one evicts nothing.
pub const EVICTION_POLICIES: [&str; 8] = [
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

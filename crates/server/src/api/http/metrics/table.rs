//! Every metric there is: the dashboards and alerts in docs/ may use no other.

/// One metric.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

macro_rules! metrics {
    ($($constant:ident $kind:ident $name:literal $help:literal)*) => {
        $(pub(super) static $constant: Metric = Metric { name: $name, kind: Kind::$kind, help: $help };)*
        /// All metrics.
        #[cfg(test)]
        pub(crate) static METRICS: &[&Metric] = &[$(&$constant),*];
    };
}

metrics! {
    BUILD_INFO Gauge "basalt_build_info" "1; the version of the program is its label."
    NODE_INFO Gauge "basalt_node_info" "1; the store, the node's id, its zone and its addresses are its labels."
    RSS Gauge "process_resident_memory_bytes" "Memory of the process."
    CPU Counter "process_cpu_seconds_total" "Processor time of the process."
    STARTED Gauge "process_start_time_seconds" "When the process was started, in seconds since 1970."
    OPEN_FILES Gauge "process_open_fds" "Open files of the process."
    MEMORY_BUDGET Gauge "basalt_memory_budget_bytes" "What the setting memory gives."
    CACHE_BYTES Gauge "basalt_cache_bytes" "Bytes in the caches of rows and blocks."
    MEMTABLE_BYTES Gauge "basalt_memtable_bytes" "Bytes in memtables."
    CLIENT_BUFFER_BYTES Gauge "basalt_client_buffer_bytes" "Requests that wait to be parsed and answers that wait to be read."
    CACHE_HITS Counter "basalt_cache_hits_total" "Reads that the caches could answer."
    CACHE_MISSES Counter "basalt_cache_misses_total" "Reads that the caches could not answer."
    CLIENTS Gauge "basalt_clients" "Connected clients."
    CONNECTIONS Counter "basalt_connections_total" "Connections of clients that were accepted."
    CONNECTIONS_REFUSED Counter "basalt_connections_refused_total" "Connections of clients that were refused: maxclients."
    AUDIT_LOST Counter "basalt_audit_lines_lost_total" "Lines of the audit log that could not be written in time."
    RECEIVED Counter "basalt_received_bytes_total" "Bytes from clients."
    SENT Counter "basalt_sent_bytes_total" "Bytes to clients."
    COMMANDS Counter "basalt_commands_total" "Commands that ran, by command."
    COMMANDS_FAILED Counter "basalt_commands_failed_total" "Commands that ended with an error, by command."
    COMMANDS_REFUSED Counter "basalt_commands_refused_total" "Commands that were refused before they began, by command."
    COMMAND_SECONDS Histogram "basalt_command_duration_seconds" "How long commands took, by command."
    ERRORS Counter "basalt_errors_total" "Errors that were answered, by code."
    LOG_BYTES Gauge "basalt_log_bytes" "Bytes of the log on disk."
    TREE_BYTES Gauge "basalt_tree_bytes" "Bytes of the trees on disk; a file that the halves of a split share counts in each."
    UNWANTED_BYTES Gauge "basalt_tree_unwanted_bytes" "About how many of them are of rows that splits have given away, and that are yet to be removed."
    DISK_FREE Gauge "basalt_disk_free_bytes" "Bytes that are free on the device of the data directory."
    DISK_WRITABLE Gauge "basalt_disk_writable" "1 if the disk takes writes, 0 if it is full or has failed."
    CLOCK_SKEW Gauge "basalt_clock_skew_seconds" "What this node's wall clock is ahead of that of most nodes."
    CLOCK_OFF Gauge "basalt_clock_off" "1 if that is so much that the node leads no shard."
    CERTIFICATE_LEFT Gauge "basalt_certificate_left_seconds" "For how long the certificate of the node, or that of the authority that expires first, still holds."
    CERTIFICATE_TROUBLE Gauge "basalt_certificate_files_unusable" "1 if the newest TLS files cannot be used, and older ones are."
    LINKS_ENCRYPTED Gauge "basalt_neighbours_encrypted" "Other nodes to which this node has a link with TLS."
    FLUSHES Counter "basalt_flushes_total" "Flushes of memtables."
    COMPACTIONS Counter "basalt_compactions_total" "Steps of compaction."
    DEBT Gauge "basalt_debt_ratio" "How far flushes and compaction are behind; from 1 on, writers are slowed."
    EXPIRED Counter "basalt_expired_keys_total" "Keys that were collected because their time had come."
    KEYS Gauge "basalt_keys" "Keys of the shards that this node leads."
    REPLICAS Gauge "basalt_replicas" "Replicas on this node, by role."
    REPLICAS_UNLED Gauge "basalt_replicas_without_leader" "Replicas on this node whose shard has no leader that is known."
    NEIGHBOURS Gauge "basalt_neighbours" "Other nodes that this one can talk to."
    READY Gauge "basalt_ready" "1 if the node takes part, as /readyz says."
    TRANSFERS Gauge "basalt_transfers" "Snapshots on their way, by direction."
    TRANSFER_RATE Gauge "basalt_transfer_bytes_per_second" "How fast they go lately, by direction."
    SHARD_KEYS Gauge "basalt_shard_keys" "Keys of a replica on this node."
    SHARD_BYTES Gauge "basalt_shard_bytes" "Bytes of a replica's tree on this node."
    SHARD_APPLIED Gauge "basalt_shard_applied_index" "The last entry that a replica on this node has applied."
    SHARD_LEADS Gauge "basalt_shard_leads" "1 if the replica on this node leads its shard."
    SHARDS_LEFT_OUT Gauge "basalt_shards_left_out" "Replicas on this node without series of their own: there are too many."
    STORE_NODES Gauge "basalt_store_nodes" "Nodes of the store, by state. From the director's node only, as all that follow."
    STORE_SHARDS Gauge "basalt_store_shards" "Shards of the store, by state."
    STORE_PLANS Gauge "basalt_store_plans" "Plans that are remembered, by state."
    STORE_EPOCH Gauge "basalt_store_map_epoch" "The map's number."
    STORE_BYTES Gauge "basalt_store_bytes" "Bytes of the rows of all shards, once."
    STORE_LEFT Gauge "basalt_store_move_left_bytes" "Bytes that running plans are still to move."
    STORE_BACKUP_AGE Gauge "basalt_store_backup_age_seconds" "Seconds since the newest backup ended; no series if the store's events remember none."
    STORE_BROKEN Gauge "basalt_store_broken_replicas" "Replicas that are damaged, on nodes that are up."
}

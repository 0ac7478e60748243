//! The table of settings: Basalt's own, then those of Redis that clients and test suites read and set.

use super::eviction::EvictionPolicy;
use super::setting::Kind::{
    Bool, Entries, EventLetters, Integer, Memory, MemoryOrPercent, OutputLimits, SavePoints, Text, Word,
};
use super::setting::Setting;
use vocab::limits;

const INT_MAX: i64 = i32::MAX as i64;
const UINT_MAX: i64 = u32::MAX as i64;
const MIB: i64 = 1 << 20;

const fn new(name: &'static str, kind: super::Kind, default: &'static str, doc: &'static str) -> Setting {
    Setting::new(name, kind, default, doc)
}

const fn count(min: i64, max: i64) -> super::Kind {
    Integer { min, max }
}

const fn bytes(min: i64, max: i64) -> super::Kind {
    Memory { min, max }
}

const EVICTION: super::Kind = Word(&EvictionPolicy::NAMES);

const LOG_LENGTH: super::Kind = count(0, limits::COMMAND_LOG_ENTRIES_MAX as i64);

const PERSISTENCE: &str = "Every write goes to the replicated log: this cannot be turned off.";
const NO_EFFECT: &str = "Accepted for clients that set it; nothing here depends on it.";

/// All settings.
pub const SETTINGS: &[Setting] = &[
    // Where the node listens and what it tells clients.
    new("listen", Text, "127.0.0.1:7000", "Address and port for clients.").fixed(),
    new("announce-host", Text, "", "The address that clients are told; empty: the one they connected to.").fixed(),
    new("announce-port", count(0, 65535), "0", "The port that clients are told; 0: the one listened on.").fixed(),
    new("cluster-slots-followers", Bool, "no", "Whether CLUSTER SLOTS lists followers behind the leader of slots."),
    new(
        "database-listen",
        Text,
        "",
        "Address and port for clients that do not know clusters, as of a plain Redis; empty: none.",
    )
    .fixed(),
    new(
        "announce-database",
        Text,
        "",
        "The address and port that clients of databases are told; empty: those that they connected to.",
    )
    .fixed(),
    new(
        "sentinel-master-name",
        Text,
        "mymaster",
        "Under which name SENTINEL MASTERS lists the node, for clients of databases that are configured for Sentinel.",
    ),
    new("http-listen", Text, "", "Address and port for HTTP: metrics, health, the admin API; empty: none.").fixed(),
    new("http-hosts", Text, "", "Names by which browsers may reach HTTP without a password, by commas; `*`: any."),
    new("protected-mode", Bool, "yes", "Whether clients from elsewhere are refused while there is no password."),
    // TLS. The names are Redis's where they mean the same.
    new("tls-port", count(0, 65535), "0", "The port for clients with TLS, at the host of `listen`; 0: none.").fixed(),
    new("announce-tls-port", count(0, 65535), "0", "The TLS port that clients are told; 0: `tls-port`.").fixed(),
    new("tls-database-listen", Text, "", "Address and port for clients of databases with TLS; empty: none.").fixed(),
    new("tls-http-listen", Text, "", "Address and port for HTTPS; empty: none.").fixed(),
    new("tls-only", Bool, "no", "Whether clients of the ports without TLS are refused."),
    new("tls-cert-file", Text, "", "The certificate of this node and those that vouch for it, in PEM.").tls(),
    new("tls-key-file", Text, "", "The private key of the certificate, in PEM.").tls(),
    new("tls-key-file-pass", Text, "", "The password of the private key, if it is encrypted (PKCS #8).").secret().tls(),
    new("tls-ca-cert-file", Text, "", "The certificates of the authorities that clients and nodes must be of, in PEM.")
        .tls(),
    new("tls-ca-cert-dir", Text, "", "A folder of such files.").tls(),
    new("tls-auth-clients", Word(&["yes", "no", "optional"]), "yes", "Whether clients with TLS must show a certificate.")
        .tls(),
    new(
        "tls-auth-clients-user",
        Word(&["off", "CN", "SAN"]),
        "off",
        "What of a client's certificate names the user that it is logged in as: the common name, or the first alternative name.",
    )
    .tls(),
    new("tls-protocols", Text, "", "Versions of TLS, separated by spaces: TLSv1.2, TLSv1.3; empty: both.").tls(),
    new("tls-session-caching", Bool, "yes", "Whether clients may resume sessions, which is faster than a new one.").tls(),
    new("tls-session-cache-size", count(0, INT_MAX), "20480", "Sessions that are kept for that.").tls(),
    new(
        "tls-cluster",
        Word(&["no", "yes", "optional"]),
        "no",
        "Whether nodes speak TLS to each other: `yes` alone; `optional` if the other does, for a change without downtime.",
    )
    .tls(),
    // Other nodes.
    new("peer-listen", Text, "", "Address and port for other nodes; empty: a store of this node alone.").fixed(),
    new("announce-peer", Text, "", "The address that other nodes are told; empty: the one listened on.").fixed(),
    new("join", Text, "", "Peer addresses of nodes to find the store by, separated by commas.").fixed(),
    new("init", Bool, "no", "Whether this node makes the store once enough nodes have joined it.").fixed(),
    new("rebuild", Bool, "no", "Whether this node sets its log and trees aside and takes them anew from its peers.")
        .fixed(),
    new(
        "skip-entry",
        Entries,
        "",
        "Entries that cannot be applied, SHARD:INDEX separated by commas: replicas on this node go on without them.",
    )
    .fixed(),
    new("replication-factor", count(1, 7), "3", "Replicas of each shard of a new store of several nodes.").fixed(),
    new("zone", Text, "", "The failure domain that this node is in.").fixed(),
    new("peer-secret", Text, "", "What nodes prove to each other that they know; empty: nothing is asked.")
        .fixed()
        .secret(),
    new(
        "transfer-rate",
        bytes(0, i64::MAX),
        "200mb",
        "Bytes a second that snapshots may send or receive; 0: no limit.",
    )
    .fixed(),
    new("maxclients", count(1, UINT_MAX), "10000", "Most connected clients."),
    new("timeout", count(0, INT_MAX), "0", "Seconds after which an idle client is disconnected; 0: never."),
    new("tcp-keepalive", count(0, INT_MAX), "300", "Seconds between keep-alive probes on client connections.").fixed(),
    new("requirepass", Text, "", "The password that AUTH must give; empty: none is asked for.").secret(),
    new(
        "recovery-password",
        Text,
        "",
        "A second password of `default`, from this machine alone, with all rights: for operators who are locked out.",
    )
    .fixed()
    .secret(),
    new(
        "aclfile",
        Text,
        "",
        "A file of users: those of a store that has none yet, and what ACL SAVE and LOAD write and read; empty: none.",
    )
    .fixed(),
    new(
        "acl-pubsub-default",
        Word(&["resetchannels", "allchannels"]),
        "resetchannels",
        "Whether new users may use all channels, or none.",
    ),
    new("acllog-max-len", count(0, limits::COMMAND_LOG_ENTRIES_MAX as i64), "128", "Refusals that ACL LOG keeps."),
    new(
        "audit-log",
        Text,
        "",
        "Where logins, refusals and the deeds of operators are noted: a file, or `syslog`; empty: nowhere.",
    )
    .audit(),
    new("audit-log-max-bytes", bytes(MIB, i64::MAX), "100mb", "Size at which the file of `audit-log` is set aside."),
    new("audit-log-files", count(1, 100), "5", "Files of `audit-log` that are kept, the one that is written included."),
    new(
        "proto-max-bulk-len",
        bytes(MIB, limits::BULK_BYTES_MAX as i64),
        "64mb",
        "Longest argument of a request, in bytes.",
    ),
    new(
        "client-query-buffer-limit",
        bytes(MIB, limits::QUERY_BUFFER_BYTES_MAX as i64),
        "256mb",
        "Longest request, in bytes.",
    ),
    new(
        "client-output-buffer-limit",
        OutputLimits,
        "normal 256mb 64mb 60 slave 256mb 64mb 60 pubsub 32mb 8mb 60",
        "What clients may leave unread, by class: more than the first closes them at once, than the second after seconds.",
    ),
    // The store.
    new("dir", Text, "./basalt-data", "The data directory.").fixed(),
    new("shards", count(1, limits::SHARDS_MAX as i64), "16", "Raft groups that a new store begins with.").fixed(),
    new("workers", count(0, 1024), "0", "Threads that serve clients; 0: one for every two processors.").fixed(),
    new(
        "helper-threads",
        Bool,
        "yes",
        "Whether threads beside the workers send answers and read blocks while the machine has processor time to spare.",
    ),
    new("durability", Word(&["sync", "nosync"]), "sync", "Whether a write is on disk before it is answered."),
    new("acks", Word(&["majority", "all", "none"]), "majority", "Which replicas hold a write before it is answered."),
    new("consistency", Word(&["absolute", "any"]), "absolute", "Which replicas may answer reads: leaders, or any."),
    new("engine", Word(&["lsm", "memory"]), "lsm", "Where the tree is: on disk, or in memory with the log on disk.")
        .fixed(),
    new("memory", bytes(16 * MIB, i64::MAX), "4gb", "Bound for caches, memtables, log cache and client buffers.")
        .fixed(),
    new(
        "rate-limit",
        bytes(0, i64::MAX),
        "0",
        "Bytes a second that compaction may write, flushes counted; 0: no limit.",
    )
    .fixed(),
    new("compression", Word(&["none", "lz4", "zstd"]), "lz4", "How blocks of tables are compressed.").fixed(),
    new("separation-bytes", bytes(0, i64::MAX), "4kb", "Values from this size on are kept out of the tree's levels.")
        .fixed(),
    // Stores that are caches.
    new("maxmemory", bytes(0, i64::MAX), "0", "With engine memory: most bytes of data on a node; 0: no bound."),
    new(
        "max-data-bytes",
        bytes(0, i64::MAX),
        "0",
        "With engine lsm: most bytes of data on a node's disk; 0: no bound.",
    ),
    new("maxmemory-policy", EVICTION, "noeviction", "Which keys go when the data has reached its bound."),
    new(
        "maxmemory-samples",
        count(1, INT_MAX),
        "5",
        "Keys that are looked at for each that goes; more than 16 count as 16.",
    ),
    new(
        "lfu-log-factor",
        count(0, INT_MAX),
        "10",
        "How fast the frequency of a key's use saturates, for the lfu policies.",
    ),
    new("lfu-decay-time", count(0, INT_MAX), "1", "Minutes without use by which a frequency falls; 0: it does not."),
    // What the node tells about itself.
    new(
        "loglevel",
        Word(&["debug", "verbose", "notice", "warning"]),
        "notice",
        "Which lines the log has: `warning` and what is worse, `notice` what operators must know, `debug` everything.",
    ),
    new("log-format", Word(&["text", "json"]), "text", "How a line of the log is written: for people, or as JSON."),
    new("logfile", Text, "", "The file of the log, opened anew at SIGHUP; empty: standard error.").fixed(),
    new("slowlog-log-slower-than", count(-1, i64::MAX), "10000", "Microseconds that make a command slow; -1: none.")
        .alias("commandlog-execution-slower-than"),
    new("slowlog-max-len", LOG_LENGTH, "128", "Slow commands that are kept.")
        .alias("commandlog-slow-execution-max-len"),
    new("commandlog-request-larger-than", count(-1, i64::MAX), "1048576", "Bytes that make a request large; -1: none."),
    new("commandlog-large-request-max-len", LOG_LENGTH, "128", "Large requests that are kept."),
    new("commandlog-reply-larger-than", count(-1, i64::MAX), "1048576", "Bytes that make a reply large; -1: none."),
    new("commandlog-large-reply-max-len", LOG_LENGTH, "128", "Commands with large replies that are kept."),
    new("latency-monitor-threshold", count(0, i64::MAX), "0", "Milliseconds that make a latency event; 0: none."),
    new("latency-tracking", Bool, "yes", "Whether INFO and LATENCY HISTOGRAM show latencies by command."),
    new("notify-keyspace-events", EventLetters, "", "Which events of keys are published, at all nodes; empty: none.")
        .of_store(),
    new(
        "tracking-table-max-keys",
        count(0, i64::MAX),
        "1000000",
        "Keys that are remembered for CLIENT TRACKING; 0: no bound.",
    ),
    new("latency-tracking-info-percentiles", Text, "50 99 99.9", "The percentiles that INFO shows.").fixed(),
    new(
        "hash-max-listpack-entries",
        count(0, i64::MAX),
        "512",
        "Most fields of what OBJECT ENCODING calls a listpack.",
    )
    .alias("hash-max-ziplist-entries"),
    new("hash-max-listpack-value", bytes(0, i64::MAX), "64", "Longest field or value of it, in bytes.")
        .alias("hash-max-ziplist-value"),
    new(
        "set-max-intset-entries",
        count(0, i64::MAX),
        "512",
        "Most members of a set of integers that OBJECT ENCODING calls an intset.",
    ),
    new(
        "zset-max-listpack-entries",
        count(0, i64::MAX),
        "128",
        "Most members of a sorted set that OBJECT ENCODING calls a listpack.",
    )
    .alias("zset-max-ziplist-entries"),
    new("zset-max-listpack-value", bytes(0, i64::MAX), "64", "Longest member of it, in bytes.")
        .alias("zset-max-ziplist-value"),
    new("hll-sparse-max-bytes", bytes(0, i64::MAX), "3000", "Longest HyperLogLog that is kept sparse, in bytes."),
    new(
        "stream-node-max-entries",
        count(0, i64::MAX),
        "100",
        "Most entries that trimming a stream with ~ takes as one.",
    ),
    new("stream-node-max-bytes", bytes(0, i64::MAX), "4096", "Most bytes of entries that it takes as one."),
    // What follows from how the node was started.
    new("port", count(0, 65535), "7000", "The port of `listen`.").fixed(),
    new("bind", Text, "127.0.0.1", "The address of `listen`.").fixed(),
    new("cluster-enabled", Bool, "yes", "A store is always a cluster.").fixed(),
    new(
        "databases",
        count(1, vocab::SLOT_COUNT as i64),
        "16",
        "How many databases clients of `database-listen` may choose from.",
    )
    .fixed(),
    new(
        "cluster-databases",
        count(1, 256),
        "16",
        "How many databases clients of a cluster may choose from; 1: SELECT of another one than 0 is refused.",
    )
    .fixed(),
    new("appendonly", Bool, "yes", PERSISTENCE).fixed(),
    // Redis' settings with no effect here, but for `maxmemory-clients`.
    new("maxmemory-eviction-tenacity", count(0, 100), "10", NO_EFFECT).accepted(),
    new(
        "maxmemory-clients",
        MemoryOrPercent,
        "0",
        "What requests and answers of all clients may take of the memory, or in percent of `memory`; 0: as much as `memory`, at least 1 GiB.",
    ),
    new("set-max-listpack-entries", count(0, i64::MAX), "128", NO_EFFECT).accepted(),
    new("set-max-listpack-value", bytes(0, i64::MAX), "64", NO_EFFECT).accepted(),
    new("list-max-listpack-size", count(-INT_MAX - 1, INT_MAX), "-2", NO_EFFECT)
        .alias("list-max-ziplist-size")
        .accepted(),
    new("list-compress-depth", count(0, INT_MAX), "0", NO_EFFECT).accepted(),
    new("sanitize-dump-payload", Word(&["no", "yes", "clients"]), "no", NO_EFFECT).accepted(),
    new("daemonize", Bool, "no", NO_EFFECT).fixed().accepted(),
    new("replicaof", Text, "", "Replicas are Raft's: see `peer-listen` and `join`.")
        .alias("slaveof")
        .fixed()
        .accepted(),
    new("tls-replication", Bool, "no", "Replicas are nodes: `tls-cluster` says what they speak.").accepted(),
    new("save", SavePoints, "", NO_EFFECT).accepted(),
    new("appendfsync", Word(&["everysec", "always", "no"]), "always", NO_EFFECT).accepted(),
    new("no-appendfsync-on-rewrite", Bool, "no", NO_EFFECT).accepted(),
    new("auto-aof-rewrite-percentage", count(0, INT_MAX), "100", NO_EFFECT).accepted(),
    new("auto-aof-rewrite-min-size", bytes(0, i64::MAX), "64mb", NO_EFFECT).accepted(),
    new("aof-use-rdb-preamble", Bool, "yes", NO_EFFECT).accepted(),
    new("rdbcompression", Bool, "yes", NO_EFFECT).accepted(),
    new("rdb-key-save-delay", count(-INT_MAX - 1, INT_MAX), "0", NO_EFFECT).accepted().unlisted(),
    new("key-load-delay", count(-INT_MAX - 1, INT_MAX), "0", NO_EFFECT).accepted().unlisted(),
    new("stop-writes-on-bgsave-error", Bool, "yes", NO_EFFECT).accepted(),
    new("lua-time-limit", count(0, i64::MAX), "5000", NO_EFFECT).alias("busy-reply-threshold").accepted(),
    new("lazyfree-lazy-eviction", Bool, "no", NO_EFFECT).accepted(),
    new("lazyfree-lazy-expire", Bool, "no", NO_EFFECT).accepted(),
    new("lazyfree-lazy-server-del", Bool, "no", NO_EFFECT).accepted(),
    new("lazyfree-lazy-user-del", Bool, "no", NO_EFFECT).accepted(),
    new("lazyfree-lazy-user-flush", Bool, "no", NO_EFFECT).accepted(),
    new("replica-lazy-flush", Bool, "no", NO_EFFECT).alias("slave-lazy-flush").accepted(),
    new("active-expire-effort", count(1, 10), "1", NO_EFFECT).accepted(),
    new("activerehashing", Bool, "yes", NO_EFFECT).accepted(),
    new("activedefrag", Bool, "no", NO_EFFECT).accepted(),
    new("hz", count(0, INT_MAX), "10", NO_EFFECT).accepted(),
    new("dynamic-hz", Bool, "yes", NO_EFFECT).accepted(),
    new("min-replicas-to-write", count(0, INT_MAX), "0", NO_EFFECT).alias("min-slaves-to-write").accepted(),
    new("min-replicas-max-lag", count(0, INT_MAX), "10", NO_EFFECT).alias("min-slaves-max-lag").accepted(),
    new("replica-read-only", Bool, "yes", NO_EFFECT).alias("slave-read-only").accepted(),
    new("replica-serve-stale-data", Bool, "yes", NO_EFFECT).alias("slave-serve-stale-data").accepted(),
    new("repl-diskless-sync", Bool, "yes", NO_EFFECT).accepted(),
    new("repl-diskless-sync-delay", count(0, INT_MAX), "5", NO_EFFECT).accepted(),
    new("repl-timeout", count(1, INT_MAX), "60", NO_EFFECT).accepted(),
    new("repl-backlog-size", bytes(1, i64::MAX), "1mb", NO_EFFECT).accepted(),
    new("repl-ping-replica-period", count(1, INT_MAX), "10", NO_EFFECT).alias("repl-ping-slave-period").accepted(),
    new("cluster-node-timeout", count(0, i64::MAX), "15000", NO_EFFECT).accepted(),
    new("cluster-require-full-coverage", Bool, "yes", NO_EFFECT).accepted(),
    new("cluster-allow-reads-when-down", Bool, "no", NO_EFFECT).accepted(),
    new("cluster-allow-replica-migration", Bool, "yes", NO_EFFECT).accepted(),
    new("cluster-migration-barrier", count(0, INT_MAX), "1", NO_EFFECT).accepted(),
    new("shutdown-timeout", count(0, INT_MAX), "10", NO_EFFECT).accepted(),
    new("close-on-replica-write", Bool, "yes", NO_EFFECT).accepted().unlisted(),
    new("replica-ignore-disk-write-errors", Bool, "no", NO_EFFECT).accepted().unlisted(),
    new("crash-log-enabled", Bool, "yes", NO_EFFECT).accepted(),
    new("oom-score-adj", Word(&["no", "yes", "relative", "absolute"]), "no", NO_EFFECT).accepted(),
];

/// The place of a setting in the table, found when this is compiled.
pub(super) const fn index_of(table: &[Setting], name: &str) -> usize {
    let mut i = 0;
    while i < table.len() {
        if same(table[i].name.as_bytes(), name.as_bytes()) {
            return i;
        }
        i += 1;
    }
    panic!("no setting of that name")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

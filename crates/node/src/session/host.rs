//! What a session asks of the shell, and the facts that the shell knows.

use super::clients::{ClientEntry, Clients};
use super::cluster_facts::ClusterFacts;
use super::keyspace::Keyspace;
use crate::acl::{AccessControl, AuditEvent, LoginCheck};
use crate::blocking::End;
use crate::config::{Config, SettingFiles};
use crate::eviction::Room;
use crate::hot_keys::HotKeys;
use crate::key_usage::KeyUsage;
use crate::monitors::Monitors;
use crate::pubsub::Broker;
use crate::stats::Stats;
use crate::tracking::Tracking;
use crate::{ClusterDatabaseKeys, DatabaseKeys};
use cluster::Databases;
use replica::{DiskState, ReplicaStatus};
use resp::parse_integer;
use resp::table::CommandSpec;
use std::sync::Arc;
use storage::EngineStats;
use vocab::{Database, NodeId, ShardId, Slot, SlotSpan};

pub use crate::redis_version::REDIS_VERSION;

/// The shell, as sessions see it.
pub trait Host: Sync {
    /// The wall clock, in µs since the epoch.
    fn now_us(&self) -> u64;

    /// The settings.
    fn config(&self) -> &Config;

    /// Opens files again that settings name; the error says why what there was before stays in use.
    fn reopen(&self, files: SettingFiles) -> Result<(), String>;

    /// Whether a request that runs a script may write, as far as the node knows the script.
    fn script_may_write(&self, spec: &'static CommandSpec, args: &[&[u8]]) -> bool;

    /// The users, and who has been refused what.
    fn access_control(&self) -> &AccessControl;

    /// Has a thread find out whether a password is right; then `wake_all`.
    fn find_out(&self, check: LoginCheck);

    /// Fills it with random bytes that cannot be guessed.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Writes something into the audit log, if there is one.
    fn audit(&self, event: &AuditEvent<'_>);

    /// The connected clients.
    fn clients(&self) -> &Clients;

    /// The counters.
    fn stats(&self) -> &Stats;

    /// What is known of the use of keys.
    fn usage(&self) -> &KeyUsage;

    /// The room for more data.
    fn room(&self) -> &Room;

    /// Which keys cost the node most.
    fn hot_keys(&self) -> &HotKeys;

    /// Has the worker that owns this connection close it.
    fn wake(&self, client: &ClientEntry);

    /// Has the worker that owns this connection end the wait of its blocking command. `place` is the connection's among its worker's.
    fn unblock(&self, client: &ClientEntry, place: usize, end: End);

    /// Has all workers try again the requests that they hold back: CLIENT UNPAUSE.
    fn wake_all(&self);

    /// Stops a shutdown that has begun but can still be stopped; false if there is none.
    fn abort_shutdown(&self) -> bool;

    /// Figures of the process and of what the shards share.
    fn node_facts(&self) -> NodeFacts;

    /// Figures of the shards of this node, in order of their slots.
    fn shard_facts(&self) -> Vec<ShardFacts>;

    /// The nodes and shards of the store.
    fn cluster_facts(&self) -> ClusterFacts;

    /// The subscriptions of the node's clients, and what it knows of those of other nodes.
    fn broker(&self) -> &Broker;

    /// The clients that are told of every command.
    fn monitors(&self) -> &Monitors;

    /// What the node remembers of what its clients have cached.
    fn tracking(&self) -> &Tracking;

    /// Has the other nodes told what this node's clients have subscribed to.
    fn announce(&self);

    /// Why clients cannot subscribe to channels of this slot here: the text of the reply. None if this node leads it.
    fn refuses_slot(&self, slot: Slot) -> Option<String>;

    /// What is set for single databases.
    fn databases(&self) -> Arc<Databases>;

    /// The database that SELECT names, by its number or by its name; `None` if there is none.
    fn chosen_database(&self, word: &[u8]) -> Option<Database> {
        match parse_integer(word) {
            Some(number) => {
                let number = u64::try_from(number).ok()?;
                Database::of_number(number).filter(|_| number < self.config().databases())
            }
            None => self.databases().named(std::str::from_utf8(word).ok()?),
        }
    }

    /// The keyspace of a client of Redis Cluster that has chosen the database of that number; `None` if there is none.
    fn chosen_of_cluster(&self, number: i64) -> Option<Keyspace> {
        let number = u64::try_from(number).ok().filter(|number| *number < self.config().cluster_databases())?;
        Keyspace::of_cluster(number)
    }

    /// Whether clients of Redis Cluster may use databases beyond 0. The first one that asks has the store begin them.
    fn cluster_databases(&self) -> ClusterDatabases;

    /// Whether they may by now: nothing is begun by asking.
    fn has_begun_cluster_databases(&self) -> bool;

    /// The database whose keys are in the slot of another one: SWAPDB.
    fn database_at(&self, place: Database) -> Database {
        self.databases().database_at(place)
    }

    /// Whether any replica answers the reads of a database: asked for each of its requests.
    fn reads_any(&self, database: Database) -> bool;

    /// Where the other nodes listen for clients of databases that can be talked to: id, host and port.
    fn other_listeners(&self) -> Vec<(NodeId, String, String)>;

    /// A client has asked for the master of that name, as of a Sentinel.
    fn asked_for_master(&self, name: &[u8]);

    /// Whether one request of a client of that keyspace may name keys of all these slots: one shard has them.
    fn share_shard(&self, span: SlotSpan, keyspace: Keyspace) -> bool;

    /// Has this node make the store as soon as it can: how far that is, or why it will not.
    fn ask_init(&self) -> Result<String, String>;
}

/// Whether the store has databases beyond 0 for clients of Redis Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterDatabases {
    /// It has: all of its nodes know how their keys are stored.
    Begun,
    /// This node is finding out whether all nodes know: ask again after `Host::wake_all`.
    Awaited,
    /// It has none, and cannot begin them now: the text of a reply.
    Refused(String),
}

/// Figures of the process and of what its shards share. `None`: not known on this system.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The process.
    pub process_id: u32,
    /// Tells this run of the process from all others: 40 hexadecimal digits.
    pub run_id: String,
    /// The operating system, its release and the machine's kind.
    pub os: String,
    /// The binary.
    pub executable: String,
    /// When the process started, in ms since the epoch.
    pub started_ms: u64,
    /// Threads that serve clients.
    pub workers: usize,
    /// Resident memory, in bytes.
    pub rss_bytes: Option<u64>,
    /// The most resident memory there has been, in bytes.
    pub rss_bytes_peak: Option<u64>,
    /// The machine's memory, in bytes.
    pub system_memory_bytes: Option<u64>,
    /// CPU time of the process in user mode, in µs.
    pub cpu_user_us: Option<u64>,
    /// CPU time of the process in the kernel, in µs.
    pub cpu_system_us: Option<u64>,
    /// Bytes in the caches of blocks and rows.
    pub cache_bytes: u64,
    /// Reads that the caches could answer.
    pub cache_hits: u64,
    /// Reads that they could not.
    pub cache_misses: u64,
    /// Bytes of the log on disk.
    pub log_bytes: u64,
    /// Whether shards are still being opened or brought up to date.
    pub loading: bool,
    /// The device below log and trees.
    pub disk: DiskState,
    /// Why the disk is not healthy; empty if it is.
    pub disk_reason: String,
    /// Flushes that are under way.
    pub flushes_running: u64,
    /// Flushes that are done.
    pub flushes: u64,
    /// Compactions that are under way.
    pub compactions_running: u64,
    /// Compactions that are done.
    pub compactions: u64,
    /// Keys that were collected because their time had come.
    pub expired_keys: Option<u64>,
    /// Snapshots on their way from or to other nodes.
    pub transfers: Vec<TransferFacts>,
    /// The scripts and functions that the node knows.
    pub programs: ProgramFacts,
    /// Its certificates.
    pub tls: TlsFigures,
}

/// The certificates of a node, and its links to others.
#[derive(Clone, Debug, Default)]
pub struct TlsFigures {
    /// What it shows.
    pub certificate: Option<CertificateFigures>,
    /// Of the authorities that it trusts, the one that expires first.
    pub authority: Option<CertificateFigures>,
    /// Why its newest files are not used; empty if they are.
    pub trouble: String,
    /// Links to other nodes.
    pub links: usize,
    /// Those of them that are encrypted.
    pub links_encrypted: usize,
}

/// A certificate.
#[derive(Clone, Debug)]
pub struct CertificateFigures {
    /// Its number, in hexadecimal digits.
    pub serial: String,
    /// For how many more seconds it holds; negative: it has expired.
    pub expires_in_s: i64,
}

/// The scripts and functions that a node knows the store to have.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramFacts {
    /// Scripts.
    pub scripts: usize,
    /// Their bytes.
    pub script_bytes: usize,
    /// Libraries of functions.
    pub libraries: usize,
    /// Functions.
    pub functions: usize,
    /// Bytes of the libraries.
    pub library_bytes: usize,
}

/// A snapshot on its way.
#[derive(Clone, Copy, Debug)]
pub struct TransferFacts {
    /// It comes rather than goes.
    pub inbound: bool,
    /// Of which shard.
    pub shard: ShardId,
    /// The other node.
    pub node: NodeId,
    /// Bytes that are there.
    pub bytes: u64,
    /// About how many there will be; 0: unknown.
    pub bytes_approx: u64,
    /// Bytes a second, lately.
    pub rate: u64,
    /// For how long it has been going on, in s.
    pub seconds: u64,
}

/// Figures of one shard's replica on this node.
#[derive(Clone, Debug)]
pub struct ShardFacts {
    /// Which one.
    pub id: ShardId,
    /// Its first and last slot.
    pub slots: (u16, u16),
    /// Whether it can answer reads.
    pub serving: bool,
    /// Where it stands in its group.
    pub status: ReplicaStatus,
    /// Its tree.
    pub engine: EngineStats,
    /// How far its background work is behind: from 1 on, writers are slowed down.
    pub debt: f64,
    /// How many keys it holds.
    pub keys: u64,
    /// How many of them expire.
    pub expires: Option<u64>,
    /// How many of them are those of databases, by database.
    pub databases: Vec<DatabaseKeys>,
    /// How many of them are those of cluster databases, by database.
    pub cluster_databases: Vec<ClusterDatabaseKeys>,
}

//! A shell in memory for tests: a clock that tests set, and a player of transcripts.
//!
//! `testdata/*.txt` hold what connections `a`, `b`, … send and what comes back, each line of the encoded reply a line
//! of the file (an empty one `""`). BASALT_TRANSCRIPTS=rewrite writes what comes back into the files (read the diff).
//!
//! ```text
//! # a comment
//! ! now +1500             the clock moves on, in ms
//! ! step 20000            the clock moves on by so many µs whenever it is read
//! ! version x 5           the version of a key, for WATCH
//! ! wrote a 3 17          a write of connection a was answered: entry 17 of shard 3
//! ! nodes 3               the store has so many nodes and 4 shards, led by the first three in turn
//! ! full yes              nothing can be evicted, or (no) there is no bound
//! ! room 100              so many bytes may be written before the data has reached its bound
//! ! dead 2                node 2 is not heard of any more, and its shards have no leader
//! ! leader 2 3            shard 2 is led by node 3
//! ! outcome *1\r\n:1\r\n  what the shard answers to the next transaction
//! a> PING                 what the session decides, unless it has answered, and the reply
//! +PONG
//! ```

use super::*;
use crate::acl::{AccessControl, AuditEvent, LoginCheck, NewUser, User, Users};
use crate::blocking::End;
use crate::command::Error;
use crate::config::{Config, SettingFiles};
use crate::eviction::Room;
use crate::hot_keys::HotKeys;
use crate::key_usage::KeyUsage;
use crate::monitors::Monitors;
use crate::pubsub::Broker;
use crate::stats::Stats;
use crate::tracking::Tracking;
use crate::{DatabaseKeys, WatchedVersion};
use cluster::Databases;
use parking_lot::Mutex;
use replica::{DiskState, ReplicaStatus};
use resp::Reply;
use resp::table::{self, CommandSpec};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use storage::EngineStats;
use vocab::{Database, NodeId, ShardId, Slot, SlotSpan};

/// Commands of which the host here has what they change.
const CHANGES_USERS: [&str; 1] = ["ACL|SETUSER"];

/// A shell with two shards.
pub(crate) struct TestHost {
    now_us: AtomicU64,
    pub(crate) step_us: AtomicU64,
    pub(crate) config: Config,
    clients: Clients,
    stats: Stats,
    usage: KeyUsage,
    room: Room,
    hot_keys: HotKeys,
    woken: Mutex<Vec<u64>>,
    cluster: Mutex<ClusterFacts>,
    broker: Broker,
    tracking: Tracking,
    monitors: Monitors,
    announcements: AtomicU64,
    access: AccessControl,
    audited: Mutex<Vec<String>>,
    /// A password was compared, for which a request was held back.
    has_compared: AtomicBool,
}

impl TestHost {
    pub(crate) fn new() -> Self {
        Self {
            now_us: AtomicU64::new(1_700_000_000_000_000),
            step_us: AtomicU64::new(0),
            config: Config::start([("listen", "127.0.0.1:7000")]).expect("these can be set"),
            clients: Clients::default(),
            stats: Stats::new(2),
            usage: KeyUsage::default(),
            room: Room::default(),
            hot_keys: HotKeys::default(),
            woken: Mutex::default(),
            cluster: Mutex::new(store_of(1)),
            broker: Broker::default(),
            tracking: Tracking::default(),
            monitors: Monitors::default(),
            announcements: AtomicU64::new(0),
            access: AccessControl::new([7; 32]),
            audited: Mutex::default(),
            has_compared: AtomicBool::new(false),
        }
    }

    /// ACL SETUSER, as the shell runs it.
    pub(crate) fn set_user(&self, args: &[&[u8]], reply: &mut Reply) {
        let name = String::from_utf8_lossy(args[2]);
        let users = self.access.users();
        let known = users.get(&name).map(|user| (**user).clone());
        let all = self.config.new_users_have_all_channels();
        let mut user = known.unwrap_or_else(|| User::new(&name, all));
        match user.change(&args[3..], &mut NewUser { all, salt: &mut || [3; 16] }) {
            Ok(()) => reply.ok(),
            Err(text) => return reply.error(&format!("ERR {text}")),
        }
        let is_kept = |other: &&Arc<User>| {
            *other.name() != *user.name() && (&**other.name() != "default" || users.rules_of_default())
        };
        let others: Vec<Arc<User>> = users.iter().filter(is_kept).cloned().collect();
        self.access.set_users(Users::new(others.into_iter().chain([Arc::new(user)])));
    }

    pub(crate) fn connect(&self, port: u16) -> Session {
        let now_ms = self.now_us() / 1000;
        let entry = self.clients.connect(format!("127.0.0.1:{port}"), "127.0.0.1:7000".into(), 0, now_ms);
        let mut session = Session::new(entry, self);
        session.placed(u32::from(port), 1);
        session
    }
}

impl Host for TestHost {
    fn script_may_write(&self, _: &'static CommandSpec, _: &[&[u8]]) -> bool {
        true
    }

    fn now_us(&self) -> u64 {
        self.now_us.fetch_add(self.step_us.load(Ordering::Relaxed), Ordering::Relaxed)
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn reopen(&self, _: SettingFiles) -> Result<(), String> {
        Ok(())
    }

    fn access_control(&self) -> &AccessControl {
        &self.access
    }

    fn find_out(&self, check: LoginCheck) {
        check.run(&self.access.logins);
        self.has_compared.store(true, Ordering::Relaxed);
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(0xa5);
    }

    fn audit(&self, event: &AuditEvent<'_>) {
        let now_ms = self.now_us.load(Ordering::Relaxed) / 1000;
        self.audited.lock().push(event.line(now_ms));
    }

    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn usage(&self) -> &KeyUsage {
        &self.usage
    }

    fn room(&self) -> &Room {
        &self.room
    }

    fn hot_keys(&self) -> &HotKeys {
        &self.hot_keys
    }

    fn wake(&self, client: &ClientEntry) {
        self.woken.lock().push(client.id);
    }

    fn unblock(&self, client: &ClientEntry, _place: usize, _end: End) {
        self.woken.lock().push(client.id);
    }

    fn wake_all(&self) {
        self.woken.lock().push(0);
    }

    fn abort_shutdown(&self) -> bool {
        false
    }

    fn node_facts(&self) -> NodeFacts {
        NodeFacts {
            process_id: 4711,
            run_id: "c0ffee".repeat(6) + "cafe",
            os: "Linux 6.1 x86_64".into(),
            executable: "basalt".into(),
            started_ms: 1_699_999_990_000,
            workers: 2,
            rss_bytes: Some(64 << 20),
            rss_bytes_peak: Some(80 << 20),
            system_memory_bytes: None,
            cpu_user_us: Some(1_250_000),
            cpu_system_us: Some(40),
            cache_bytes: 10 << 20,
            cache_hits: 90,
            cache_misses: 10,
            log_bytes: 5 << 20,
            loading: false,
            disk: DiskState::Healthy,
            disk_reason: String::new(),
            flushes_running: 1,
            flushes: 12,
            compactions_running: 0,
            compactions: 3,
            expired_keys: None,
            programs: ProgramFacts::default(),
            tls: TlsFigures::default(),
            transfers: vec![TransferFacts {
                inbound: true,
                shard: ShardId(5),
                node: NodeId(0xA),
                bytes: 1000,
                bytes_approx: 4000,
                rate: 500,
                seconds: 2,
            }],
        }
    }

    fn shard_facts(&self) -> Vec<ShardFacts> {
        let one = Database::of_number(1).expect("a database");
        let shard = |id: u32, slots| ShardFacts {
            id: ShardId(id),
            slots,
            serving: true,
            status: ReplicaStatus {
                term: 2,
                leads: true,
                truncated: 3,
                applied: 9,
                committed: 10,
                last: 10,
                ..ReplicaStatus::default()
            },
            engine: EngineStats { disk_bytes: 1000, memtable_bytes: 500, l0_runs: 2, ..EngineStats::default() },
            debt: 0.25,
            keys: 21,
            expires: Some(1),
            cluster_databases: Vec::new(),
            databases: Vec::from_iter((id == 1).then_some(DatabaseKeys { database: one, keys: 5, expiring: 2 })),
        };
        vec![shard(0, (0, 8191)), shard(1, (8192, 16383))]
    }

    fn cluster_facts(&self) -> ClusterFacts {
        self.cluster.lock().clone()
    }

    fn broker(&self) -> &Broker {
        &self.broker
    }

    fn monitors(&self) -> &Monitors {
        &self.monitors
    }

    fn tracking(&self) -> &Tracking {
        &self.tracking
    }

    fn announce(&self) {
        self.announcements.fetch_add(1, Ordering::Relaxed);
    }

    fn refuses_slot(&self, slot: Slot) -> Option<String> {
        let facts = self.cluster_facts();
        let shard = facts
            .shards
            .iter()
            .find(|shard| shard.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot.0)))?;
        let leader = facts.nodes.iter().find(|node| node.id == shard.leader)?;
        (!leader.myself).then(|| format!("MOVED {slot} {}:{}", leader.host, leader.port))
    }

    fn databases(&self) -> Arc<Databases> {
        Arc::new("3:name=orders".parse().expect("a name that can be set"))
    }

    fn cluster_databases(&self) -> ClusterDatabases {
        ClusterDatabases::Begun
    }

    fn has_begun_cluster_databases(&self) -> bool {
        true
    }

    fn reads_any(&self, _: Database) -> bool {
        false
    }

    fn other_listeners(&self) -> Vec<(NodeId, String, String)> {
        Vec::new()
    }

    fn asked_for_master(&self, _: &[u8]) {}

    fn share_shard(&self, _: SlotSpan, keyspace: Keyspace) -> bool {
        !keyspace.is_of_cluster()
    }

    fn ask_init(&self) -> Result<String, String> {
        match self.cluster_facts().nodes.len() {
            1 => Ok("1 node of 3".to_owned()),
            _ => Err("there is a store already".to_owned()),
        }
    }
}

/// A store of so many nodes: with one, two shards; with more, four, with replicas on the first three nodes.
fn store_of(nodes: u64) -> ClusterFacts {
    let id = |n: u64| NodeId(0xBA5A17 + n - 1);
    let node = |n: u64| ClusterNode {
        id: id(n),
        myself: n == 1,
        host: if nodes == 1 { String::new() } else { format!("10.0.0.{n}") },
        port: 7000,
        tls_port: 0,
        peer_port: 17000,
        alive: true,
        linked: true,
    };
    let (count, holders) = if nodes == 1 { (2, 1) } else { (4, nodes.min(3)) };
    let shard = |i: u64| ClusterShard {
        id: ShardId(i as u32 + 1),
        slots: vec![((i * 16384 / count) as u16, ((i + 1) * 16384 / count - 1) as u16)],
        leader: id(i % holders + 1),
        led: true,
        replicas: (1..=holders).map(|n| ClusterReplica { node: id(n), learner: false, index: 9 }).collect(),
    };
    let link = |n: u64| ClusterLink {
        node: id(n),
        outgoing: n == 2,
        opened_ms: 1_700_000_000_000,
        queued_bytes: 0,
        buffer_bytes: 4096,
    };
    ClusterFacts {
        epoch: nodes,
        nodes: (1..=nodes).map(node).collect(),
        shards: (0..count).map(shard).collect(),
        links: (2..=nodes).map(link).collect(),
        messages_sent: (nodes - 1) * 100,
        messages_received: (nodes - 1) * 99,
    }
}

/// Plays a transcript.
struct Player {
    host: TestHost,
    sessions: BTreeMap<char, Session>,
    versions: BTreeMap<Vec<u8>, u64>,
    outcome: Vec<u8>,
}

/// Plays `testdata/{name}.txt` and compares.
pub(crate) fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/session/testdata/{name}.txt"));
    let text = std::fs::read_to_string(&path).expect("the transcript can be read");
    let mut player =
        Player { host: TestHost::new(), sessions: BTreeMap::new(), versions: BTreeMap::new(), outcome: Vec::new() };
    let mut played = String::new();
    let mut expected = text.lines().peekable();
    while let Some(line) = expected.next() {
        let _ = writeln!(played, "{line}");
        if let Some(directive) = line.strip_prefix("! ") {
            player.directive(directive);
        } else if let Some((who, request)) = line.split_once("> ") {
            played += &player.request(who.parse().expect("a connection is one letter"), request);
            while expected.next_if(|line| !is_ours(line)).is_some() {}
        }
    }
    if std::env::var("BASALT_TRANSCRIPTS").is_ok_and(|mode| mode == "rewrite") {
        std::fs::write(&path, played).expect("the transcript can be written");
        return;
    }
    let differing = text.lines().zip(played.lines()).find(|(expected, found)| expected != found);
    assert!(text == played, "{name}: first difference {differing:?}, in\n{played}");
}

/// Whether a line is not part of a reply.
fn is_ours(line: &str) -> bool {
    line.is_empty() || line.starts_with("# ") || line.starts_with("! ") || line.get(1..3) == Some("> ")
}

/// The words of a line; in double quotes a word may hold blanks and escapes.
fn words(line: &str) -> Vec<Vec<u8>> {
    let mut state = resp::ParseState::default();
    let mut ranges = Vec::new();
    let line = format!("{line}\r\n");
    match resp::parse_request(line.as_bytes(), &resp::Limits::default(), &mut ranges, &mut state) {
        Ok(resp::Parsed::Quoted { .. }) => ranges.into_iter().map(|range| state.quoted()[range].to_vec()).collect(),
        Ok(_) => ranges.into_iter().map(|range| line.as_bytes()[range].to_vec()).collect(),
        Err(error) => panic!("{line}: {error}"),
    }
}

impl Player {
    fn cluster(&self) -> parking_lot::MutexGuard<'_, ClusterFacts> {
        self.host.cluster.lock()
    }

    fn directive(&mut self, line: &str) {
        if let Some(encoded) = line.strip_prefix("outcome ") {
            self.outcome = encoded.replace("\\r\\n", "\r\n").into_bytes();
            return;
        }
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["now", by] => {
                let ms: u64 = by.trim_start_matches('+').parse().expect("a number of ms");
                self.host.now_us.fetch_add(ms * 1000, Ordering::Relaxed);
            }
            ["wrote", who, shard, index] => {
                let session = self.sessions.get_mut(&who.parse().expect("a connection")).expect("it is there");
                session.wrote(ShardId(shard.parse().expect("a number")), index.parse().expect("a number"));
            }
            ["step", us] => self.host.step_us.store(us.parse().expect("a number of µs"), Ordering::Relaxed),
            ["version", key, version] => {
                self.versions.insert(key.into(), version.parse().expect("a number"));
            }
            ["full", "yes"] => self.host.room.fill(),
            ["full", "no"] => self.host.room.open(),
            ["room", bytes] => self.host.room.leave(bytes.parse().expect("a number of bytes")),
            ["nodes", n] => *self.cluster() = store_of(n.parse().expect("a number")),
            ["dead", n] => {
                let at: usize = n.parse().expect("a number");
                let mut facts = self.cluster();
                let dead = &mut facts.nodes[at - 1];
                (dead.alive, dead.linked) = (false, false);
                let id = dead.id;
                facts.shards.iter_mut().filter(|shard| shard.leader == id).for_each(|shard| shard.led = false);
            }
            ["leader", shard, node] => {
                let at = |text: &str| text.parse::<usize>().expect("a number") - 1;
                let mut facts = self.cluster();
                let id = facts.nodes[at(node)].id;
                let shard = &mut facts.shards[at(shard)];
                (shard.leader, shard.led) = (id, true);
            }
            _ => panic!("unknown directive {line}"),
        }
    }

    fn request(&mut self, who: char, line: &str) -> String {
        let Self { host, sessions, versions, outcome } = self;
        let session = sessions.entry(who).or_insert_with(|| host.connect(6000 + who as u16));
        if session.closing() {
            host.clients.disconnect(session.entry().id);
            sessions.remove(&who);
            return "closed\n".into();
        }
        let args = words(line);
        let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
        let mut reply = Reply::new(session.proto());
        session.active(host.now_us() / 1000);
        let mut said = String::new();
        let row = authorize(session, table::resolve(&args), &args, host);
        let mut admission = admit(session, row.clone(), &args, host, &mut reply);
        if host.has_compared.swap(false, Ordering::Relaxed) {
            admission = admit(session, row, &args, host, &mut reply);
        }
        let _ = match admission {
            Admission::Answered(Effect::None) => Ok(()),
            Admission::Answered(Effect::ReplyAfter { us, .. }) => writeln!(said, "reply after {us} us"),
            Admission::Answered(Effect::ReplyOnceKnown { .. }) => writeln!(said, "reply once known"),
            Admission::Answered(effect) => writeln!(said, "{effect:?}"),
            Admission::Publish { kind, .. } => {
                let publication = host.broker.publish(kind, args[1], args[2]);
                reply.int(publication.receivers() as i64);
                assert!(publication.nodes.is_empty(), "there are no other nodes");
                Ok(())
            }
            Admission::Execute(spec) if CHANGES_USERS.contains(&spec.name) => {
                host.set_user(&args, &mut reply);
                Ok(())
            }
            Admission::Execute(spec) => writeln!(said, "execute {}{}", spec.name, promise(session, spec, &args)),
            Admission::ExecuteAt { slot, .. } => writeln!(said, "execute at {slot}"),
            Admission::WaitFor(wait) => writeln!(said, "{}", describe_wait(&wait)),
            Admission::Hold { until_ms } => writeln!(said, "hold until {until_ms}"),
            Admission::Watch { keys, .. } => {
                let version = |key: &Vec<u8>| WatchedVersion::Present(versions.get(key).copied().unwrap_or(0));
                session.watching(&keys, keys.iter().map(version).collect());
                reply.ok();
                Ok(())
            }
            Admission::Transaction(transaction) => {
                let _ = writeln!(said, "{}", describe(&transaction));
                let of_shell: Vec<Vec<u8>> = transaction.for_shell().map(|_| b"+of the store\r\n".to_vec()).collect();
                let outcome = std::mem::take(outcome);
                match transaction.answer(session, host, (&outcome, &of_shell), 2_000, &mut reply) {
                    Effect::None => Ok(()),
                    effect => writeln!(said, "{effect:?}"),
                }
            }
        };
        session.validate();
        if session.silent() {
            said += "silent\n";
        }
        for line in String::from_utf8_lossy(&reply.buf).split_terminator("\r\n") {
            let _ =
                if line.is_empty() { writeln!(said, "\"\"") } else { writeln!(said, "{}", line.replace('\n', "\\n")) };
        }
        if session.closing() {
            said += "closing\n";
            host.clients.disconnect(session.entry().id);
            sessions.remove(&who);
        }
        for id in host.woken.lock().drain(..) {
            let _ = if id == 0 { writeln!(said, "wake all") } else { writeln!(said, "wake {id}") };
        }
        said
    }
}

/// What the client is promised, unless it is the usual.
fn promise(session: &Session, spec: &CommandSpec, args: &[&[u8]]) -> String {
    let (durability, consistency) = (session.durability_for(spec, args), session.consistency_for(spec, args));
    match spec.is_write() {
        true if durability == Durability::default() => String::new(),
        true => format!(", {durability:?}"),
        false if consistency == Consistency::Absolute => String::new(),
        false => format!(", {consistency:?}"),
    }
}

fn describe_wait(wait: &WaitFor) -> String {
    let WaitFor { spec, written, replicas, fsynced, timeout_ms } = wait;
    let mut text = format!("{} for {replicas}", spec.name.to_lowercase());
    for (shard, index) in written.shards() {
        let _ = write!(text, ", shard {shard} up to {index}");
    }
    if let Some(local) = fsynced {
        let _ = write!(text, ", on disk{}", if *local { ", here too" } else { "" });
    }
    if let Some(ms) = timeout_ms {
        let _ = write!(text, ", for {ms} ms");
    }
    text
}

fn describe(transaction: &Transaction) -> String {
    let slot = transaction.slot().map_or_else(|| "nowhere".to_owned(), |slot| slot.to_string());
    let mut text = format!("transaction at {slot}");
    for (key, version) in transaction.watches() {
        let _ = write!(text, ", {} at version {version}", key.escape_ascii());
    }
    for command in transaction.data() {
        let words: Vec<String> = command.args().iter().map(|arg| arg.escape_ascii().to_string()).collect();
        let _ = write!(text, ", {}", words.join(" "));
    }
    text
}

#[test]
fn transcripts() {
    for name in [
        "acl",
        "hot_keys",
        "transactions",
        "connection",
        "clients",
        "settings",
        "cluster",
        "figures",
        "promises",
        "wait",
        "pubsub",
    ] {
        check(name);
    }
}

#[test]
fn a_transaction_is_bounded() {
    let host = TestHost::new();
    let mut session = host.connect(1);
    let mut reply = Reply::default();
    admit(&mut session, table::resolve(&[b"MULTI"]), &[b"MULTI"], &host, &mut reply);
    for _ in 0..vocab::limits::TRANSACTION_COMMANDS_MAX {
        admit(&mut session, table::resolve(&[b"GET", b"x"]), &[b"GET", b"x"], &host, &mut reply);
    }
    reply.buf.clear();
    admit(&mut session, table::resolve(&[b"GET", b"x"]), &[b"GET", b"x"], &host, &mut reply);
    assert_eq!(reply.buf, b"-ERR the transaction is too large\r\n");
    reply.buf.clear();
    admit(&mut session, table::resolve(&[b"EXEC"]), &[b"EXEC"], &host, &mut reply);
    assert!(reply.buf.starts_with(b"-EXECABORT "));
}

#[test]
fn info_has_every_section_once() {
    let host = TestHost::new();
    let mut session = host.connect(1);
    let mut reply = Reply::default();
    // What is answered later is counted by who answers it.
    for args in [&[&b"PING"[..]][..], &[b"GET"], &[b"CLIENT", b"LIST"], &[b"DEBUG", b"SLEEP", b"1"]] {
        admit(&mut session, table::resolve(args), args, &host, &mut reply);
    }
    let all = crate::session::info(&host, &["everything"], Keyspace::Cluster);
    let sections: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    let expected = "Server Clients Memory Persistence Stats Replication CPU Commandstats Errorstats Latencystats \
                    Cluster Keyspace Basalt";
    assert_eq!(sections.join(" "), expected);
    for line in [
        "redis_mode:cluster",
        "uptime_in_seconds:10",
        "connected_clients:1",
        "used_memory_human:64.00M",
        "loading:0",
        "total_commands_processed:2",
        "used_cpu_user:1.250000",
        "cmdstat_ping:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0",
        "cmdstat_get:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0",
        "errorstat_ERR:count=1",
        "latency_percentiles_usec_client|list:p50=0.127,p99=0.127,p99.9=0.127",
        "cluster_enabled:1",
        "connected_slaves:0",
        "db0:keys=37,expires=0,avg_ttl=0",
        "tree_bytes:2000",
        "debt_max:0.250",
    ] {
        assert!(all.contains(&format!("{line}\r\n")), "no {line} in\n{all}");
    }
    let plain = crate::session::info(&host, &["everything"], Keyspace::Database(Database::default()));
    for line in ["redis_mode:standalone", "cluster_enabled:0", "db1:keys=5,expires=2,avg_ttl=0"] {
        assert!(plain.contains(&format!("{line}\r\n")), "no {line} in\n{plain}");
    }
    assert!(!plain.contains("db0:"));
    *host.cluster.lock() = store_of(3);
    let many = crate::session::info(&host, &["replication", "basalt"], Keyspace::Cluster);
    for line in [
        "connected_slaves:2",
        "slave1:ip=10.0.0.3,port=7000,state=online,offset=18,lag=0",
        "master_repl_offset:18",
        "nodes_alive:3",
        "store_shards_led:4",
    ] {
        assert!(many.contains(&format!("{line}\r\n")), "no {line} in\n{many}");
    }
    assert!(!crate::session::info(&host, &[], Keyspace::Cluster).contains("# Commandstats"));
    assert_eq!(crate::session::info(&host, &["nothing"], Keyspace::Cluster), "");
    for line in all.lines() {
        assert!(line.is_empty() || line.starts_with("# ") || line.contains(':'), "{line}");
    }
}

#[test]
fn keys_of_a_slot() {
    use crate::command::testspace::TestSpace;
    use crate::{Kind, Record, WriteSpace};
    let mut space = TestSpace::new();
    for n in 0..1500 {
        space.put(format!("{{foo}}{n}").as_bytes(), Record::new(Kind::STRING, None, &[b"v"])).expect("memory");
        space.put(format!("other{n}").as_bytes(), Record::new(Kind::STRING, None, &[b"v"])).expect("memory");
    }
    let host = TestHost::new();
    let mut session = host.connect(1);
    let mut ask = |args: &[&[u8]]| {
        let mut reply = Reply::default();
        if let Admission::ExecuteAt { slot, handler, .. } =
            admit(&mut session, table::resolve(args), args, &host, &mut reply)
        {
            assert_eq!(slot.0, 12182);
            match handler.run(args, &mut space, &mut reply) {
                Ok(()) => {}
                Err(Error::Reply(text)) => reply.error(&text),
                Err(Error::Fault(fault)) => panic!("{fault:?}"),
            }
        }
        String::from_utf8_lossy(&reply.buf).replace("\r\n", " ")
    };
    assert_eq!(ask(&[b"CLUSTER", b"COUNTKEYSINSLOT", b"12182"]), ":1500 ");
    assert_eq!(ask(&[b"CLUSTER", b"GETKEYSINSLOT", b"12182", b"2"]), "*2 $6 {foo}0 $6 {foo}1 ");
    assert!(ask(&[b"CLUSTER", b"GETKEYSINSLOT", b"12182", b"9000"]).starts_with("*1500 "));
    assert_eq!(ask(&[b"CLUSTER", b"GETKEYSINSLOT", b"12182", b"-1"]), "-ERR Invalid slot or number of keys ");
    assert_eq!(ask(&[b"CLUSTER", b"COUNTKEYSINSLOT", b"16384"]), "-ERR Invalid slot ");
    assert_eq!(ask(&[b"CLUSTER", b"COUNTKEYSINSLOT", b"x"]), "-ERR value is not an integer or out of range ");
}

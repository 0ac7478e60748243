//! The measurement behind docs/PERFORMANCE.md: each bar, both sides in one run, alternating.

mod acl;
mod bar;
mod bench;
mod bounded;
mod build_time;
mod ceiling;
mod certificates;
mod crowd;
mod databases;
mod death;
mod disk;
mod embedded;
mod etcd;
mod findings;
mod floor;
mod forwarded;
mod larger;
mod machine;
mod messages_nodes;
mod moving;
mod nodes;
mod noop;
mod older;
mod options;
mod others;
mod outage;
mod pending;
mod phase;
pub mod program;
mod programs;
mod progress;
mod queue;
mod queue_killed;
mod redis;
mod redis_benchmark;
mod report;
pub mod server;
mod spare_threads;
mod spread;
mod store;
mod subscribers;
mod tls;
mod turns;
mod types;
mod types_size;
mod waiting;
pub mod wire;

use bench::Bench;
use ceiling::Ceiling;
use findings::Findings;
use options::Options;
use std::path::Path;

/// Something to measure: one or more bars that share their servers and data. What shares a command but neither servers
/// nor data is a group, `group/name`.
struct Measurement {
    name: &'static str,
    what: &'static str,
    /// How many rows it has: tells how far it is.
    rows: usize,
    run: fn(&Bench) -> Result<Findings, String>,
}

const MEASUREMENTS: &[Measurement] = &[
    Measurement {
        name: "redis",
        what: "GET and SET nosync against redis-server, everysec",
        rows: 3,
        run: |bench| redis::nosync(bench).map(Into::into),
    },
    Measurement {
        name: "redis-sync",
        what: "SET sync against redis-server, always",
        rows: 1,
        run: |bench| redis::sync(bench).map(Into::into),
    },
    Measurement {
        name: "older/single",
        what: "GET and SET of one node against an older program, `--older FILE`",
        rows: 4,
        run: |bench| older::single(bench).map(Into::into),
    },
    Measurement {
        name: "older/nodes",
        what: "YCSB A and B on three nodes against an older program, `--older FILE`",
        rows: 2,
        run: |bench| older::nodes(bench).map(Into::into),
    },
    Measurement {
        name: "types/reads",
        what: "reads of lists, sets and sorted sets against redis-server",
        rows: 7,
        run: |bench| types::reads(bench).map(Into::into),
    },
    Measurement {
        name: "types/writes",
        what: "writes of each type nosync against redis-server, everysec, one at a time and in pipelines",
        rows: 22,
        run: |bench| types::writes(bench).map(Into::into),
    },
    Measurement {
        name: "types/sync",
        what: "the same writes sync against redis-server, always",
        rows: 11,
        run: |bench| types::writes_sync(bench).map(Into::into),
    },
    Measurement {
        name: "types/large",
        what: "a sorted set of 10,000,000 members in 256 MiB of memory against GETs of strings",
        rows: 4,
        run: |bench| types_size::beyond_memory(bench).map(Into::into),
    },
    Measurement {
        name: "types/bytes",
        what: "bytes an element of small and large collections against Redis's MEMORY USAGE",
        rows: 10,
        run: |bench| types_size::bytes(bench).map(Into::into),
    },
    Measurement {
        name: "types/disk",
        what: "bytes an element of small and large collections on disk, beside Redis's MEMORY USAGE",
        rows: 10,
        run: |bench| disk::measure(bench).map(Into::into),
    },
    Measurement {
        name: "databases/single",
        what: "database-listen of a single node against its cluster listener and redis-server; MULTI",
        rows: 9,
        run: |bench| databases::single(bench).map(Into::into),
    },
    Measurement {
        name: "databases/nodes",
        what: "database-listen of three nodes at the leader, and by way of another node",
        rows: 16,
        run: databases::nodes,
    },
    Measurement {
        name: "databases/forwarded",
        what: "a database's requests by way of another node: latency added, processor time there",
        rows: 11,
        run: |bench| bounded::runs(bench, forwarded::measure).map(Into::into),
    },
    Measurement {
        name: "tls/single",
        what: "GET and SET nosync with TLS against redis-server's TLS, and against Basalt without",
        rows: 8,
        run: |bench| tls::costs(bench).map(Into::into),
    },
    Measurement {
        name: "tls/nodes",
        what: "YCSB B on three nodes with TLS, between them too, against the same without",
        rows: 1,
        run: |bench| tls::nodes(bench).map(Into::into),
    },
    Measurement {
        name: "acl",
        what: "GET and SET nosync by a user with rights to some keys against the user `default`",
        rows: 4,
        run: |bench| acl::costs(bench).map(Into::into),
    },
    Measurement {
        name: "programs/scripts",
        what: "EVALSHA of a lock's release and of a rate limiter against redis-server",
        rows: 4,
        run: |bench| programs::scripts(bench).map(Into::into),
    },
    Measurement {
        name: "programs/messages",
        what: "PUBLISH and GET with tracking against redis-server",
        rows: 4,
        run: |bench| programs::messages(bench).map(Into::into),
    },
    Measurement {
        name: "programs/messages-nodes",
        what: "PUBLISH on three nodes: processor time of each, with subscribers on all and on none",
        rows: 6,
        run: |bench| bounded::runs(bench, messages_nodes::measure).map(Into::into),
    },
    Measurement {
        name: "embedded",
        what: "YCSB C embedded against the bare lsm-tree",
        rows: 1,
        run: |bench| embedded::run(bench).map(Into::into),
    },
    Measurement {
        name: "noop",
        what: "the client's own ceiling against redis-benchmark's",
        rows: 2,
        run: |bench| noop::run(bench).map(Into::into),
    },
    Measurement {
        name: "larger-than-memory",
        what: "uniform reads of 10 GB against fio",
        rows: 1,
        run: |bench| larger::run(bench).map(Into::into),
    },
    Measurement {
        name: "bounded/hash",
        what: "a hash of a million fields: HGETALL, RENAME, COPY, DEL, and what others wait for",
        rows: 14,
        run: |bench| bounded::runs(bench, bounded::large_hash).map(Into::into),
    },
    Measurement {
        name: "bounded/watch",
        what: "WATCH of 40,000 keys, and what others wait for",
        rows: 1,
        run: |bench| bounded::runs(bench, bounded::watched_keys).map(Into::into),
    },
    Measurement {
        name: "bounded/values",
        what: "bytes that RANDOMKEY, SCAN and KEYS read over 800 values of 1 MiB",
        rows: 3,
        run: |bench| bounded::runs(bench, bounded::large_values).map(Into::into),
    },
    Measurement {
        name: "bounded/answers",
        what: "peak memory for answers of 1.2 GB",
        rows: 3,
        run: |bench| bounded::runs(bench, bounded::long_answers).map(Into::into),
    },
    Measurement {
        name: "bounded/expiry",
        what: "a million keys that expire in one shard within ten seconds",
        rows: 2,
        run: |bench| bounded::runs(bench, bounded::expiring_keys).map(Into::into),
    },
    Measurement {
        name: "bounded/scan",
        what: "SCAN of 600,000 keys with a long common prefix, against a short one",
        rows: 1,
        run: |bench| bounded::runs(bench, bounded::common_prefix).map(Into::into),
    },
    Measurement {
        name: "bounded/writes",
        what: "writes of few bytes and much work, and what others wait for",
        rows: 12,
        run: |bench| bounded::runs(bench, bounded::busy_writes).map(Into::into),
    },
    Measurement {
        name: "bounded/pending",
        what: "commands about very many pending entries of a stream, and what others wait for",
        rows: 12,
        run: |bench| bounded::runs(bench, pending::measure).map(Into::into),
    },
    Measurement {
        name: "bounded/listeners",
        what: "clients that are told of everything and take nothing, and what others wait for",
        rows: 9,
        run: |bench| bounded::runs(bench, bounded::listeners).map(Into::into),
    },
    Measurement {
        name: "bounded/questions",
        what: "blocking commands of many keys, long lists of names, and what others wait for",
        rows: 10,
        run: |bench| bounded::runs(bench, bounded::long_questions).map(Into::into),
    },
    Measurement {
        name: "bounded/arguments",
        what: "requests of very many arguments, and a very long one, and what others wait for",
        rows: 12,
        run: |bench| bounded::runs(bench, bounded::many_arguments).map(Into::into),
    },
    Measurement {
        name: "bounded/turns",
        what: "the longest turn of an event loop, in processor time, while one client sends one thing (takes `perf`)",
        rows: 59,
        run: |bench| bounded::runs(bench, turns::single).map(Into::into),
    },
    Measurement {
        name: "bounded/turns-nodes",
        what: "the same of three nodes, by way of one that does not lead the database",
        rows: 59,
        run: |bench| bounded::runs(bench, turns::by_way_of_another).map(Into::into),
    },
    Measurement {
        name: "bounded/clients",
        what: "1,100 idle connections with 1,024 descriptors, and 100 MB written",
        rows: 2,
        run: |bench| bounded::runs(bench, bounded::idle_clients).map(Into::into),
    },
    Measurement {
        name: "bounded/waiting",
        what: "memory of each of 100,000 clients that wait in BLPOP on one node",
        rows: 3,
        run: |bench| bounded::runs(bench, waiting::measure).map(Into::into),
    },
    Measurement {
        name: "bounded/waiting-keys",
        what: "clients of 4,096 keys that begin to wait and leave at once, and what others wait for",
        rows: 12,
        run: |bench| bounded::runs(bench, waiting::many_keys).map(Into::into),
    },
    Measurement {
        name: "bounded/written-keys",
        what: "an entry that writes 100,000 keys for which clients wait, or none, and what others wait for",
        rows: 4,
        run: |bench| bounded::runs(bench, waiting::written_keys).map(Into::into),
    },
    Measurement {
        name: "bounded/stop",
        what: "SIGTERM with 2,048 and 16,384 shards",
        rows: 2,
        run: |bench| bounded::runs(bench, bounded::stop).map(Into::into),
    },
    Measurement { name: "nodes/ycsb", what: "YCSB B and A on three nodes, per core", rows: 2, run: nodes::ycsb },
    Measurement {
        name: "nodes/scans",
        what: "YCSB E on three nodes, 16 shards and 3, per core",
        rows: 2,
        run: nodes::scans,
    },
    Measurement { name: "nodes/inserts", what: "inserts into three nodes, per core", rows: 1, run: nodes::inserts },
    Measurement { name: "nodes/sync", what: "90/10 sync on three nodes, per core", rows: 1, run: nodes::mixed_sync },
    Measurement {
        name: "nodes/death",
        what: "reads and writes while one of three nodes dies",
        rows: 1,
        run: |bench| death::measure(bench).map(Into::into),
    },
    Measurement {
        name: "helpers/sending",
        what: "YCSB A and B on three nodes, `sync`, 4 to 200 clients, with and without helper threads",
        rows: 6,
        run: |bench| spare_threads::sending(bench).map(Into::into),
    },
    Measurement {
        name: "helpers/reading",
        what: "the same with records that do not fit into memory",
        rows: 6,
        run: |bench| spare_threads::reading(bench).map(Into::into),
    },
    Measurement {
        name: "moving/files",
        what: "1 GB of strings of 100 bytes into three nodes and out again: RDB and NDJSON",
        rows: 4,
        run: |bench| bounded::runs(bench, moving::files).map(Into::into),
    },
    Measurement {
        name: "moving/redis",
        what: "the same into three nodes from a Redis that goes on (PSYNC)",
        rows: 1,
        run: |bench| bounded::runs(bench, moving::from_redis).map(Into::into),
    },
    Measurement {
        name: "nodes/queue-killed",
        what: "queues sync on three nodes, one of which is killed: elements lost, and doubled",
        rows: 6,
        run: |bench| queue_killed::measure(bench).map(Into::into),
    },
    Measurement {
        name: "build",
        what: "processor time of `cargo build --release` from nothing, against an older commit (--against)",
        rows: 5,
        run: |bench| build_time::measure(bench).map(Into::into),
    },
    Measurement {
        name: "nodes/queue",
        what: "queues sync on three nodes against etcd's puts",
        rows: 1,
        run: queue::run,
    },
    Measurement { name: "nodes/etcd", what: "writes sync on three nodes against etcd", rows: 1, run: nodes::etcd },
];

/// Runs what the arguments name, or everything.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let names: Vec<&str> = MEASUREMENTS.iter().map(|measurement| measurement.name).collect();
    let mut known: Vec<&str> = names.iter().filter_map(|name| Some(name.split_once('/')?.0)).collect();
    known.dedup();
    known.extend(names);
    let options = Options::read(arguments, &known)?;
    if options.list {
        MEASUREMENTS.iter().for_each(|measurement| println!("{:<20} {}", measurement.name, measurement.what));
        return Ok(());
    }
    progress::begin(options.quick, !options.json);
    let bench = Bench {
        basalt: program::basalt(root, options.no_build, options.program.as_deref())?,
        root: root.to_owned(),
        folder: root.join("target").join("perf"),
        options,
    };
    let stolen = machine::Stolen::start();
    let chosen = MEASUREMENTS.iter().filter(|measurement| bench.options.chose(measurement.name));
    let (mut findings, mut failures) = (Findings::default(), Vec::new());
    for measurement in chosen {
        eprintln!("=== {}: {}", measurement.name, measurement.what);
        progress::measure(measurement.name, measurement.rows * bench.options.runs);
        match (measurement.run)(&bench) {
            Ok(found) => {
                found.ceilings.iter().for_each(|row| progress::print(Ceiling::HEAD, &row.row()));
                found.deaths.iter().for_each(|death| progress::print("", &death.markdown()));
                findings.bars.extend(found.bars);
                findings.floors.extend(found.floors);
                findings.deaths.extend(found.deaths);
                findings.ceilings.extend(found.ceilings);
            }
            Err(why) => {
                eprintln!("error: {}: {why}", measurement.name);
                failures.push(measurement.name);
            }
        }
    }
    let machine = machine::Machine::read(stolen.percent());
    if bench.options.json {
        println!("{}", report::json(&machine, &bench.options, &findings));
    } else {
        print!("{}", report::closing(&machine, &bench.options, &findings));
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("not measured: {}", failures.join(", "))) }
}

//! Against redis-server: the same keys, the same client, one of the two under load at a time.

use super::bar::Bar;
use super::bench::Bench;
use super::program;
use super::progress;
use super::redis_benchmark::{Load, RedisBenchmark, VALUE_BYTES};
use super::server::{Server, free_port};
use super::wire::Connection;
use std::process::Command;

const KEYS: u64 = 1_000_000;
/// Of the requests of a run, one of so many warm both sides up.
const WARM_UP_PART: u64 = 5;
const KEYS_QUICK: u64 = 50_000;

/// Both servers.
pub struct Peers {
    basalt: Server,
    redis: Server,
    benchmark: RedisBenchmark,
    /// How many keys there are to choose from.
    pub keys: u64,
}

impl Peers {
    /// Starts both on empty folders.
    pub fn start_empty(bench: &Bench, durability: &str, append_fsync: &str) -> Result<Self, String> {
        let benchmark = RedisBenchmark::find()?;
        let keys = bench.options.scale(KEYS, KEYS_QUICK);
        let basalt = start_basalt(bench, &["--durability", durability])?;
        let redis = start_redis(bench, append_fsync, &[])?;
        Ok(Self { basalt, redis, benchmark, keys })
    }

    /// Starts both, with all keys.
    fn start(bench: &Bench, durability: &str, append_fsync: &str) -> Result<Self, String> {
        let peers = Self::start_empty(bench, durability, append_fsync)?;
        let keys = peers.keys;
        for server in peers.servers() {
            let mut connection = Connection::open(server.port)?;
            connection.load(keys, VALUE_BYTES)?;
            // A GET of what is not there would be cheap.
            let found = connection.key_count()?;
            if found != keys {
                return Err(format!("{}: has {found} keys after {keys} were loaded", server.name));
            }
        }
        Ok(peers)
    }

    /// Basalt first.
    pub fn servers(&self) -> [&Server; 2] {
        [&self.basalt, &self.redis]
    }

    fn wait_until_quiet(&self) -> Result<(), String> {
        self.basalt.wait_until_quiet()?;
        self.redis.wait_until_quiet()
    }

    /// Measures one load in turns.
    pub fn compare(&self, runs: usize, bar: Bar, load: Load) -> Result<Bar, String> {
        self.compare_after(runs, bar, load, |_| Ok(()))
    }

    /// The same; `prepare` readies a server before each run.
    pub fn compare_after(
        &self,
        runs: usize,
        bar: Bar,
        load: Load,
        prepare: impl Fn(&Server) -> Result<(), String>,
    ) -> Result<Bar, String> {
        let side = |server: &Server, load| {
            prepare(server)?;
            self.wait_until_quiet()?;
            self.benchmark.run(server, load)
        };
        // What happens once, such as the making of log files, is in a pair of runs that does not count.
        progress::row(&bar.what);
        if !progress::is_quick() {
            let few = Load { requests: load.requests.div_ceil(WARM_UP_PART), ..load };
            side(&self.basalt, few)?;
            side(&self.redis, few)?;
        }
        bar.alternate(runs, || side(&self.basalt, load), || side(&self.redis, load))
    }

    /// Ends both, and removes their data.
    pub fn stop(self, bench: &Bench) -> Result<(), String> {
        self.basalt.stop()?;
        self.redis.stop()?;
        bench.empty_folders(&["basalt", "redis"])
    }
}

/// Starts Basalt on an empty folder.
pub fn start_basalt(bench: &Bench, arguments: &[&str]) -> Result<Server, String> {
    start_with(bench, Command::new(&bench.basalt), "basalt", arguments)
}

/// The same by a command that runs it, and on a folder of that name.
pub fn start_with(bench: &Bench, mut command: Command, folder: &str, arguments: &[&str]) -> Result<Server, String> {
    let (port, folder) = (free_port()?, bench.empty_folder(folder)?);
    command.args(["start", "--listen", &format!("127.0.0.1:{port}"), "--dir"]).arg(folder.join("data"));
    Server::start("basalt", command.args(arguments), port, &folder)
}

/// Starts Redis on an empty folder, with an append-only file.
pub fn start_redis(bench: &Bench, append_fsync: &str, arguments: &[&str]) -> Result<Server, String> {
    let program = program::installed("redis-server", "redis-server")?;
    let (port, folder) = (free_port()?, bench.empty_folder("redis")?);
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", append_fsync, "--dir"]).arg(&folder).args(arguments);
    Server::start("redis-server", &mut command, port, &folder)
}

/// GET one at a time, GET in pipelines, SET one at a time; neither waits for the disk.
pub fn nosync(bench: &Bench) -> Result<Vec<Bar>, String> {
    let peers = Peers::start(bench, "nosync", "everysec")?;
    let load = |command, depth, full, quick| {
        let requests = bench.options.scale(full, quick);
        Load { command, value_bytes: VALUE_BYTES, depth, requests, keys: peers.keys }
    };
    let mut bars = Vec::new();
    for (what, at_least, load) in [
        ("GET, one request at a time", 1.0, load(&["-t", "get"], 1, 300_000, 20_000)),
        ("GET, pipeline of 16", 1.0, load(&["-t", "get"], 16, 2_000_000, 100_000)),
        // Last: it makes work in the background.
        ("SET, `nosync`, one at a time", 0.9, load(&["-t", "set"], 1, 300_000, 20_000)),
    ] {
        bars.push(peers.compare(bench.options.runs, Bar::new(what, "redis-server, everysec", at_least), load)?);
    }
    peers.stop(bench)?;
    Ok(bars)
}

/// SET, with the answer after the fsync.
pub fn sync(bench: &Bench) -> Result<Vec<Bar>, String> {
    let peers = Peers::start(bench, "sync", "always")?;
    let requests = bench.options.scale(100_000, 5_000);
    let load = Load { command: &["-t", "set"], value_bytes: VALUE_BYTES, depth: 1, requests, keys: peers.keys };
    let bar = Bar::new("SET, `sync`, one at a time", "redis-server, always", 1.5);
    let bar = peers.compare(bench.options.runs, bar, load)?;
    peers.stop(bench)?;
    Ok(vec![bar])
}

//! Redis's own Tcl suite, unit by unit, against a running server: Basalt, or Redis itself to calibrate. A unit waits more than
//! it works, so two run at a time, each against a server of its own.

mod source;

use crate::perf::server::free_port;
use crate::process::{self, Count};
use crate::turns::Turns;
use parking_lot::Mutex;
use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A unit, how many of its tests Redis 7.0.15 passes, and how many Basalt must: that number only ever rises.
struct Unit {
    name: &'static str,
    peer: u32,
    floor: u32,
    /// It is asked of the listener on which a store is a plain Redis.
    is_plain: bool,
}

/// Instructions that a script may run. Units wait for scripts that never end, and this program is not optimised. One of a unit does end, and runs
/// 95 million.
fn instructions_max(unit: &str) -> u64 {
    if unit == "unit/scripting" { 120_000_000 } else { 60_000_000 }
}

/// A unit that is asked of a cluster's node.
const fn cluster(name: &'static str, peer: u32, floor: u32) -> Unit {
    Unit { name, peer, floor, is_plain: false }
}

/// One that is asked of a plain Redis, and no cluster: of Basalt, its databases.
const fn databases(name: &'static str, peer: u32, floor: u32) -> Unit {
    Unit { name, peer, floor, is_plain: true }
}

/// Those that take longest begin first. In the gate every third takes its turn. The last two leave users behind, by which a test of `unit/scripting` would fail.
const UNITS: &[Unit] = &[
    cluster("unit/hyperloglog", 20, 19),
    databases("unit/scripting", 186, 174),
    cluster("unit/type/list-3", 9, 9),
    cluster("unit/pause", 14, 13),
    cluster("unit/geo", 59, 59),
    cluster("unit/type/string", 72, 71),
    cluster("unit/type/hash", 72, 70),
    cluster("unit/type/incr", 23, 23),
    cluster("unit/expire", 56, 56),
    cluster("unit/keyspace", 41, 41),
    cluster("unit/scan", 17, 17),
    cluster("unit/multi", 31, 26),
    cluster("unit/protocol", 19, 19),
    cluster("unit/type/set", 94, 94),
    cluster("unit/type/list", 219, 219),
    cluster("unit/type/zset", 269, 269),
    cluster("unit/type/stream", 63, 63),
    cluster("unit/type/stream-cgroups", 48, 47),
    cluster("unit/sort", 17, 17),
    cluster("unit/bitops", 45, 44),
    cluster("unit/bitfield", 16, 16),
    cluster("unit/pubsub", 29, 29),
    cluster("unit/introspection", 27, 26),
    cluster("unit/introspection-2", 43, 40),
    cluster("unit/other", 11, 10),
    cluster("unit/latency-monitor", 13, 12),
    cluster("unit/slowlog", 9, 9),
    cluster("unit/dump", 9, 9),
    cluster("unit/functions", 86, 83),
    cluster("unit/tracking", 50, 49),
    databases("unit/tracking", 51, 50),
    databases("unit/first-acl", 71, 70),
    databases("unit/first-acl-v2", 29, 29),
];

/// Servers, and so units that run at a time, unless the server is one that runs already.
const SERVERS: u16 = 2;
/// The first port of those that the suite itself may use, and how many there are for each server.
const SUITE_PORTS: (u16, u16) = (21_111, 4_000);
/// Longest run of one unit; one that hangs is ended, and counts for what it passed by then.
const UNIT_SECONDS_MAX: u64 = 180;
/// What is asked of a server that owns all slots and cannot be restarted by the suite.
const TAGS: &str = "-slow -needs:debug -needs:repl -needs:config-maxmemory -needs:save";

/// Tests that keep those behind them from running at the listener of a cluster: this one leaves its connection within MULTI.
/// docs/TESTING.md says why.
const LEFT_OUT: [&str; 1] = ["flushdb tracking invalidation message is not interleaved with transaction response"];

/// What the options ask for.
#[derive(Default)]
struct Options {
    port: Option<u16>,
    calibrate: bool,
    /// All units are asked of the listener on which a store is a plain Redis, whatever their floors are.
    databases: bool,
    units: Vec<String>,
    /// Half of the units have their turn.
    turns: Option<Turns>,
}

/// What became of one unit.
struct Tally {
    passed: u32,
    failed: u32,
    /// Failed for the want of a command that Basalt does not claim.
    unclaimed: u32,
    /// It ran to its end.
    whole: bool,
    took: Duration,
}

/// Why the suite did not pass.
pub enum Failure {
    /// It could not be had or run here: no verdict.
    Unavailable(String),
    /// A unit passes less than it must, or the server does not start.
    Short(String),
}

/// The gate runs the units in so many parts, by turns.
const PARTS: usize = 3;

/// The gate's step: a third of the units against that program.
pub fn check(root: &Path, basalt: &Path, turns: Turns) -> Result<Count, Failure> {
    println!("a third of the units, by the number of commits; `cargo xtask redis-suite` runs all");
    run_options(root, &Options { turns: Some(turns), ..Options::default() }, basalt)
}

/// Runs the units that the arguments name, and prints a table.
pub fn run(root: &Path, arguments: &[String]) -> Result<Count, Failure> {
    let options = options(arguments).map_err(Failure::Short)?;
    let is_needed = options.port.is_none() && !options.calibrate;
    let basalt = if is_needed { process::basalt(root).map_err(Failure::Short)? } else { PathBuf::new() };
    run_options(root, &options, &basalt)
}

fn run_options(root: &Path, options: &Options, basalt: &Path) -> Result<Count, Failure> {
    let folder = root.join("target/redis-suite");
    let suite = source::fetch(&folder).map_err(Failure::Unavailable)?;
    Run { folder, suite, basalt, options, next: Mutex::new(0), sum: Mutex::default() }.all().map_err(Failure::Short)
}

/// One run of the units, which threads share.
struct Run<'a> {
    folder: PathBuf,
    suite: PathBuf,
    basalt: &'a Path,
    options: &'a Options,
    /// The place in [`UNITS`] of the unit that is begun next.
    next: Mutex<usize>,
    sum: Mutex<Sum>,
}

/// What the units that have ended came to.
#[derive(Default)]
struct Sum {
    passed: u64,
    /// Those that passed less than they must.
    short: Vec<&'static str>,
}

impl Run<'_> {
    fn all(self) -> Result<Count, String> {
        println!(
            "\n{:<18} {:>7} {:>7} {:>10} {:>7} {:>7} {:>7}",
            "unit", "passed", "failed", "unclaimed", "floor", "redis", "seconds"
        );
        let servers = if self.options.port.is_some() { 1 } else { SERVERS };
        let ends: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let this = &self;
            let threads: Vec<_> = (0..servers).map(|number| scope.spawn(move || this.with_server(number))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a run of units does not panic")).collect()
        });
        ends.into_iter().collect::<Result<(), String>>()?;
        println!("what each unit printed is in target/redis-suite/*.log; @: asked of the databases");
        let sum = self.sum.into_inner();
        if sum.short.is_empty() {
            return Ok(Count { passed: sum.passed, failed: 0 });
        }
        Err(format!("fewer tests than the floor pass in {}", sum.short.join(", ")))
    }

    /// Starts a server and runs units against it until all have begun.
    fn with_server(&self, number: u16) -> Result<(), String> {
        let server = match self.options.port {
            Some(_) => None,
            None => Some(Server::start(self, number)?),
        };
        while let Some(unit) = self.next_unit() {
            let is_plain = unit.is_plain || self.options.databases;
            let port = match &server {
                None => self.options.port.unwrap_or_default(),
                Some(server) if is_plain => server.plain_port,
                Some(server) => server.port,
            };
            let listener = if is_plain { "-databases" } else { "" };
            let log = self.folder.join(format!("{}{listener}.log", unit.name.replace('/', "-")));
            if let Some(server) = server.as_ref().filter(|_| !self.options.calibrate) {
                server.ask(&format!("KV.ADMIN SETTINGS SET script-instructions-max {}", instructions_max(unit.name)));
            }
            let ports = (port, SUITE_PORTS.0 + number * SUITE_PORTS.1);
            let tally = run_unit(&self.suite, (unit.name, is_plain), ports, &log)?;
            self.add(unit, &tally);
        }
        Ok(())
    }

    fn next_unit(&self) -> Option<&'static Unit> {
        let mut next = self.next.lock();
        // A unit with a row for each listener is asked once of the one that is meant.
        let has_other = |unit: &Unit| UNITS.iter().any(|other| other.is_plain && other.name == unit.name);
        let is_twice = |unit: &Unit| self.options.databases && !unit.is_plain && has_other(unit);
        let has_turn = |at: usize| self.options.turns.is_none_or(|turns| turns.has(at % PARTS, PARTS));
        let chosen = |unit: &Unit| chosen(&self.options.units, unit.name) && !is_twice(unit);
        let mut units = UNITS.iter().enumerate().skip(*next);
        let (at, unit) = units.find(|(at, unit)| has_turn(*at) && chosen(unit))?;
        *next = at + 1;
        Some(unit)
    }

    fn add(&self, unit: &'static Unit, tally: &Tally) {
        let end = if tally.whole { "" } else { "  broke off" };
        let &Tally { passed, failed, unclaimed, took, .. } = tally;
        let &Unit { name, floor, peer, is_plain } = unit;
        let name = if is_plain || self.options.databases { format!("{name} @") } else { name.to_owned() };
        let seconds = took.as_secs_f64();
        println!("{name:<18} {passed:>7} {failed:>7} {unclaimed:>10} {floor:>7} {peer:>7} {seconds:>7.1}{end}");
        let mut sum = self.sum.lock();
        sum.passed += u64::from(passed);
        let has_floor = unit.is_plain || !self.options.databases;
        if has_floor && passed < if self.options.calibrate { peer } else { floor } {
            sum.short.push(unit.name);
        }
    }
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        match name.as_str() {
            "--calibrate" => options.calibrate = true,
            "--databases" => options.databases = true,
            _ => {}
        }
        if matches!(name.as_str(), "--calibrate" | "--databases") {
            continue;
        }
        let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--port" => options.port = Some(value.parse().map_err(|_| format!("{name} {value}: not a port"))?),
            "--unit" => options.units.extend(value.split(',').map(str::to_owned)),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    match options.units.iter().find(|name| !UNITS.iter().any(|unit| unit.name.ends_with(name.as_str()))) {
        Some(unknown) => Err(format!("no unit is called {unknown}")),
        None => Ok(options),
    }
}

fn chosen(units: &[String], name: &str) -> bool {
    units.is_empty() || units.iter().any(|unit| name.ends_with(unit.as_str()))
}

fn run_unit(
    suite: &Path,
    (name, is_plain): (&str, bool),
    (port, own_ports): (u16, u16),
    log: &Path,
) -> Result<Tally, String> {
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let output = File::create(log).map_err(failed)?;
    let mut child = Command::new("tclsh")
        .args(["tests/test_helper.tcl", "--host", "127.0.0.1", "--port", &port.to_string(), "--single", name])
        .args(if is_plain { &[][..] } else { &["--cluster-mode", "--singledb"] })
        .args(["--baseport", &own_ports.to_string(), "--portcount", &SUITE_PORTS.1.to_string()])
        .args(["--durable", "--ignore-encoding", "--ignore-digest", "--tags", TAGS])
        .args(LEFT_OUT.iter().filter(|_| !is_plain).flat_map(|test| ["--skiptest", test]))
        .current_dir(suite)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed)?)
        .stderr(output)
        .spawn()
        .map_err(|error| format!("tclsh: {error} (the suite is written in Tcl)"))?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break Some(status);
        }
        if begun.elapsed() > Duration::from_secs(UNIT_SECONDS_MAX) {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let text = plain(&std::fs::read(log).map_err(failed)?);
    // What follows is a summary of the same.
    let text = text.split("!!! WARNING").next().unwrap_or_default();
    let count = |mark: &str| text.lines().filter(|line| line.starts_with(mark)).count() as u32;
    let lacks = |lines: &&str| lines.contains("unknown command '") || lines.contains("unknown subcommand '");
    let unclaimed = text.split("\n[").filter(|part| part.starts_with("err]: ")).filter(lacks).count() as u32;
    let whole = status.is_some() && !text.contains("[exception]") && !text.contains("I/O error");
    let took = begun.elapsed();
    Ok(Tally { passed: count("[ok]: "), failed: count("[err]: ") - unclaimed, unclaimed, whole, took })
}

/// Text without the terminal's colours.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain += before;
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

/// The server under test, ended when dropped.
struct Server {
    child: Child,
    port: u16,
    /// Where it is a plain Redis.
    plain_port: u16,
    /// Redis is another process there.
    plain: Option<Child>,
    dir: PathBuf,
}

impl Server {
    fn start(run: &Run<'_>, number: u16) -> Result<Self, String> {
        let (folder, peer) = (&run.folder, run.options.calibrate);
        let failed = |error: std::io::Error| format!("starting the server: {error}");
        let (port, plain_port) = (free_port()?, free_port()?);
        let dir = folder.join(format!("data-{number}"));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).map_err(failed)?;
        let mut command = if peer { Command::new("redis-server") } else { Command::new(run.basalt) };
        if peer {
            command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--cluster-enabled", "yes"]);
            command.args(["--save", "", "--dir"]).arg(&dir);
        } else {
            command.args(["start", "--listen", &format!("127.0.0.1:{port}"), "--durability", "nosync", "--dir"]);
            command.arg(&dir).args(["--database-listen", &format!("127.0.0.1:{plain_port}")]);
        }
        let plain = peer.then(|| {
            let mut plain = Command::new("redis-server");
            plain.args(["--bind", "127.0.0.1", "--port", &plain_port.to_string(), "--save", "", "--dir"]).arg(&dir);
            plain.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
        });
        let plain = plain.transpose().map_err(failed)?;
        let log = File::create(folder.join(format!("server-{number}.log"))).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(failed)?).stderr(log);
        let server = Self { child: command.spawn().map_err(failed)?, port, plain_port, plain, dir };
        server.wait_ready(peer)?;
        Ok(server)
    }

    fn wait_ready(&self, peer: bool) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            if self.ask("PING").is_some_and(|answer| answer.starts_with("+PONG")) {
                if !peer {
                    return Ok(());
                }
                self.ask("CLUSTER ADDSLOTSRANGE 0 16383");
                if self.ask("CLUSTER INFO").is_some_and(|answer| answer.contains("cluster_state:ok")) {
                    return Ok(());
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the server does not answer; see target/redis-suite/server-*.log".to_owned())
    }

    /// One inline request and the beginning of its answer.
    fn ask(&self, request: &str) -> Option<String> {
        use std::io::{Read, Write};
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(format!("{request}\r\n").as_bytes()).ok()?;
        let mut answer = [0; 4096];
        let length = stream.read(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..length]).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(plain) = &mut self.plain {
            let _ = plain.kill();
            let _ = plain.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn colours_go() {
        assert_eq!(plain(b"[\x1b[0;32;49mok\x1b[0m]: SET and GET"), "[ok]: SET and GET");
        assert_eq!(plain(b"none"), "none");
    }
}

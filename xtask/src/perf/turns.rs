//! The longest turn of an event loop, in processor time, while one client sends one thing: whatever it is, others have their turn.

use super::bench::Bench;
use super::ceiling::{Ceiling, Rows};
use super::pending;
use super::program::{self, end, output};
use super::progress;
use super::redis::start_basalt;
use super::server::{Server, free_port};
use super::store::{NODES, Store};
use super::wire::Connection;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The longest that an event loop may be kept, in ms.
const TURN_MS_MAX: f64 = 2.0;
/// Until `perf` looks, and until a connection that has ended is forgotten.
const PAUSE: Duration = Duration::from_millis(400);
const BOUND: Duration = Duration::from_secs(60);
/// The group whose first event has the other one read: the thread's clock at the end of each turn.
const EVENTS: &str = "{syscalls:sys_enter_epoll_wait,task-clock}:S";

/// What one client sends at once, all of whose answers are awaited.
struct Sent {
    name: &'static str,
    requests: Vec<Vec<String>>,
}

impl Sent {
    fn one(name: &'static str, words: &[&str], more: impl IntoIterator<Item = String>) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).chain(more).collect();
        Self { name, requests: vec![words] }
    }

    fn many(name: &'static str, requests: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self { name, requests: requests.into_iter().collect() }
    }

    fn in_multi(name: &'static str, requests: impl IntoIterator<Item = Vec<String>>, end: &str) -> Self {
        let word = |word: &str| vec![word.to_owned()];
        Self::many(name, std::iter::once(word("MULTI")).chain(requests).chain([word(end)]))
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Event loops whose turns are timed.
struct Loops {
    perf: PathBuf,
    file: PathBuf,
    threads: String,
}

impl Loops {
    /// Those of the workers of some nodes.
    fn of(bench: &Bench, nodes: &[&Server]) -> Result<Self, String> {
        let mut threads = Vec::new();
        for node in nodes {
            let tasks = PathBuf::from(format!("/proc/{}/task", node.id()));
            let entries = std::fs::read_dir(&tasks).map_err(|error| format!("{}: {error}", tasks.display()))?;
            for task in entries.flatten().map(|entry| entry.path()) {
                // A thread may have ended since.
                let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
                if let Some(id) = task.file_name().filter(|_| name.starts_with("worker-")) {
                    threads.push(id.to_string_lossy().into_owned());
                }
            }
        }
        let perf = program::installed("perf", "linux-perf")?;
        Ok(Self { perf, file: bench.folder.join("turns.perf"), threads: threads.join(",") })
    }

    /// The longest turn while `busy` goes on, in ms.
    fn longest(&self, busy: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
        let mut recorder = Recorder::start(self)?;
        std::thread::sleep(PAUSE);
        busy()?;
        std::thread::sleep(PAUSE);
        recorder.stop()?;
        let mut script = Command::new(&self.perf);
        script.arg("script").arg("-i").arg(&self.file).args(["-F", "tid,event,time,period"]);
        let text = output(&mut script, BOUND)?;
        longest_ns(&text).map(|ns| ns as f64 / 1e6).ok_or_else(|| {
            format!("perf has seen no turn: the event `{EVENTS}` takes root, or `kernel.perf_event_paranoid` of -1")
        })
    }
}

/// The longest time between two readings of a thread's clock, of what `perf script` has to say.
fn longest_ns(text: &str) -> Option<u64> {
    let period = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| word.starts_with("task-clock"))?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    text.lines().filter_map(period).max()
}

/// `perf record`, which is ended in any case.
struct Recorder(Child);

impl Recorder {
    fn start(loops: &Loops) -> Result<Self, String> {
        let mut command = Command::new(&loops.perf);
        command.args(["record", "-q", "-m", "1024", "-e", EVENTS, "-c", "1", "-t", &loops.threads, "-o"]);
        let child = command.arg(&loops.file).stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        child.map(Self).map_err(|error| format!("perf: {error}"))
    }

    /// Has it write what it has seen.
    fn stop(&mut self) -> Result<(), String> {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, rustix::process::Signal::INT).map_err(|error| format!("perf: {error}"))?;
        self.0.wait().map(drop).map_err(|error| format!("perf: {error}"))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// Sends it on a connection of its own, and awaits its answers, of which some may be errors.
fn send(port: u16, sent: &Sent) -> Result<(), String> {
    let requests = sent.requests.iter().map(|words| words.iter().map(String::as_str).collect());
    Connection::open(port)?.ask_for_any(requests)
}

/// What fills a store before: collections of `many` elements, and values of 32 MiB.
fn load(port: u16, many: usize) -> Result<(), String> {
    let mut connection = Connection::open(port)?;
    let step = 400;
    for first in (0..many).step_by(step) {
        let all = || (first..many.min(first + step)).map(|n| format!("m{n}"));
        let pairs = || all().flat_map(|name| [name, "v".to_owned()]);
        let scored = || all().enumerate().flat_map(|(n, name)| [(n % 97).to_string(), name]);
        let numbers = || (first..many.min(first + step)).map(|n| (n * 7919 % many).to_string());
        let requests: [(&str, Vec<String>); 4] = [
            ("HSET {k}hash", pairs().collect()),
            ("SADD {k}set", all().collect()),
            ("ZADD {k}zset", scored().collect()),
            ("RPUSH {k}list", numbers().collect()),
        ];
        for (head, more) in requests {
            let words: Vec<String> = words(head).into_iter().chain(more).collect();
            connection.ask_all([words.iter().map(String::as_str).collect()])?;
        }
    }
    pending::load(&mut connection, "{k}stream", 3 * many as u64)?;
    connection.set("{k}long", &"x".repeat(many * 160))
}

/// What is tried. `many`: arguments, commands or elements.
fn cases(many: usize) -> Vec<Sent> {
    let pending = pending::commands("{k}stream", many as u64).into_iter();
    let pending = pending.map(|(name, words)| Sent::one(name, &[], words)).collect();
    [with_many_arguments(many), with_one_long(many), of_large_collections(), pending, of_many_commands(many)]
        .into_iter()
        .flatten()
        .collect()
}

fn names(many: usize) -> impl Iterator<Item = String> {
    (0..many).map(|n| format!("{{k}}{n}"))
}

fn with_many_arguments(many: usize) -> Vec<Sent> {
    let (count, names) = (many.to_string(), || names(many));
    let pairs = || names().flat_map(|name| [name, "v".to_owned()]);
    let bits = || (0..many).flat_map(|n| ["SET".to_owned(), "u8".to_owned(), (8 * n).to_string(), "1".to_owned()]);
    vec![
        Sent::one("MSET", &["MSET"], pairs()),
        Sent::one("MSETNX", &["MSETNX"], pairs()),
        Sent::one("MGET", &["MGET"], names()),
        Sent::one("DEL", &["DEL"], names()),
        Sent::one("EXISTS", &["EXISTS"], names()),
        Sent::one("LMPOP", &["LMPOP", &count], names().chain(["LEFT".to_owned()])),
        Sent::one("ZMPOP", &["ZMPOP", &count], names().chain(["MIN".to_owned()])),
        Sent::one("BLPOP", &["BLPOP"], names().chain(["0.01".to_owned()])),
        Sent::one("SUNIONSTORE", &["SUNIONSTORE", "{k}stored"], names()),
        Sent::one("ZUNIONSTORE", &["ZUNIONSTORE", "{k}stored", &count], names()),
        Sent::one("PFMERGE", &["PFMERGE", "{k}merged"], names()),
        Sent::one("EVAL, arguments", &["EVAL", "return 1", "0"], names()),
        Sent::one("EVAL, keys", &["EVAL", "return 1", &count], names()),
        Sent::one("SUBSCRIBE", &["SUBSCRIBE"], names().take(many * 9 / 10)),
        Sent::one("WATCH", &["WATCH"], names()),
        Sent::one("BITFIELD", &["BITFIELD", "{k}bits"], bits()),
        Sent::one("CONFIG GET", &["CONFIG", "GET"], names()),
        Sent::one("ACL SETUSER", &["ACL", "SETUSER", "tried"], names().map(|name| format!("~{name}"))),
        Sent::one("COMMAND GETKEYS", &["COMMAND", "GETKEYS", "MSET"], pairs()),
        Sent::one("an unknown command", &["NOSUCH"], names()),
    ]
}

fn with_one_long(many: usize) -> Vec<Sent> {
    let long = || "x".repeat(many * 160);
    vec![
        Sent::one("ECHO of one long", &["ECHO"], [long()]),
        Sent::one("SET of one long", &["SET", "{k}other"], [long()]),
        Sent::one("GET of one long", &["GET", "{k}long"], []),
        Sent::one("GETRANGE of one long", &["GETRANGE", "{k}long", "1", "-2"], []),
        Sent::one("COPY of one long", &["COPY", "{k}long", "{k}copy", "REPLACE"], []),
        Sent::one("BITOP of one long", &["BITOP", "NOT", "{k}not", "{k}long"], []),
        Sent::one("DUMP of one long", &["DUMP", "{k}long"], []),
        Sent::one("PUBLISH of one long", &["PUBLISH", "channel"], [long()]),
        Sent::one("EVAL of one long", &["EVAL", "return #ARGV[1]", "0"], [long()]),
    ]
}

fn of_large_collections() -> Vec<Sent> {
    [
        ("HGETALL", "HGETALL {k}hash"),
        ("SMEMBERS", "SMEMBERS {k}set"),
        ("ZRANGE", "ZRANGE {k}zset 0 -1 WITHSCORES"),
        ("LRANGE", "LRANGE {k}list 0 -1"),
        ("SORT", "SORT {k}list"),
        ("SUNIONSTORE of a large set", "SUNIONSTORE {k}stored {k}set {k}set"),
        ("ZUNIONSTORE of a large set", "ZUNIONSTORE {k}stored 1 {k}zset"),
        ("COPY of a hash", "COPY {k}hash {k}copy REPLACE"),
        ("COPY of a sorted set", "COPY {k}zset {k}copy REPLACE"),
        ("DUMP of a hash", "DUMP {k}hash"),
        ("RENAME", "RENAME {k}copy {k}renamed"),
        ("SPOP", "SPOP {k}set 100000"),
        ("ZPOPMIN", "ZPOPMIN {k}zset 100000"),
        ("LPOP", "LPOP {k}list 100000"),
        ("UNLINK", "UNLINK {k}hash {k}renamed {k}zset"),
    ]
    .map(|(name, text)| Sent::one(name, &[], words(text)))
    .into()
}

fn of_many_commands(many: usize) -> Vec<Sent> {
    let each = |head: &'static str| names(many).map(move |name| [words(head), vec![name]].concat());
    let repeat = |text: &'static str| std::iter::repeat_n(words(text), many);
    let long = "x".repeat(many * 160);
    vec![
        Sent::many("PINGs", repeat("PING")),
        Sent::many("GETs", repeat("GET {k}1")),
        Sent::many("SETs", repeat("SET {k}1 v")),
        Sent::many("INCRs of other keys", each("INCR")),
        Sent::many("SUBSCRIBEs", each("SUBSCRIBE").take(many * 9 / 10)),
        Sent::many("WATCHs", each("WATCH")),
        Sent::in_multi("MULTI, GETs, EXEC", each("GET").take(many * 9 / 10), "EXEC"),
        Sent::in_multi("MULTI, SETs, EXEC", repeat("SET {k}1 v").take(many * 9 / 10), "EXEC"),
        Sent::in_multi("MULTI, GETs, RESET", each("GET").take(many * 9 / 10), "RESET"),
        Sent::in_multi("MULTI, GETs of one long, EXEC", std::iter::repeat_n(words("GET {k}long"), 3), "EXEC"),
        Sent::in_multi("MULTI, ECHOs of one long, EXEC", [vec!["ECHO".to_owned(), long]], "EXEC"),
    ]
}

/// The rows of all cases sent to `port`.
fn rows(bench: &Bench, loops: &Loops, port: u16, by_way: &str) -> Result<Vec<Ceiling>, String> {
    let many = bench.options.scale(100_000, 5_000) as usize;
    load(port, many)?;
    let mut rows = Rows::default();
    for sent in cases(many) {
        progress::doing(format!("timing the turns of {}", sent.name));
        let longest_ms = loops.longest(|| send(port, &sent))?;
        rows.push(Ceiling::new(format!("{}{by_way}", sent.name), "ms", TURN_MS_MAX, longest_ms))?;
    }
    // A later run, or a later measurement, needs the room.
    let _ = std::fs::remove_file(&loops.file);
    Ok(rows.all())
}

/// On one node, by its listener for databases.
pub fn single(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let port = free_port()?;
    let listen = format!("127.0.0.1:{port}");
    let arguments = ["--durability", "nosync", "--memory", "1G", "--workers", "1", "--database-listen", &listen];
    let server = start_basalt(bench, &arguments)?;
    let rows = rows(bench, &Loops::of(bench, &[&server])?, port, "")?;
    server.stop().map(|()| rows)
}

/// On three nodes, by way of one that does not lead the database: the longest turn of any of them.
pub fn by_way_of_another(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let store = Store::start_with_databases(bench, "nosync", NODES as u32)?;
    let number = (store.leader_of_database_0()? + 1) % NODES;
    let nodes: Vec<&Server> = (0..NODES).map(|number| store.node(number)).collect();
    let rows = rows(bench, &Loops::of(bench, &nodes)?, store.database_ports()[number], ", by way of another node")?;
    store.stop().map(|()| rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_turn_is_read_from_what_perf_says() {
        let text = " 8688 25464.918616:          1 syscalls:sys_enter_epoll_wait: \n 8688 25464.918616:     142673                    task-clock: \n 8688 25464.928616:    2290563   task-clock:ppp: \n";
        assert_eq!(longest_ns(text), Some(2_290_563));
        assert_eq!(longest_ns(""), None);
    }

    #[test]
    fn requests_are_whole() {
        for sent in cases(10) {
            assert!(sent.requests.iter().all(|words| !words.is_empty()), "{}", sent.name);
        }
    }
}

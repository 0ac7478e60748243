//! The files on the way of a plain SET or of a hot GET, counted: the event loop of a node runs step by step while a client
//! sends the request, and the program's debug information says which lines of which files that were.
//!
//! A line counts if it runs for each of the requests, and not while there are none. A file counts if at least
//! [`LINES_MIN`] of its lines do: fewer tell a figure, compare two numbers, or let the request pass.

use crate::process;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// As many lines of a file run for a request, at least, if the file is on its way.
const LINES_MIN: usize = 4;
/// A stepped request takes some seconds.
const REQUESTS: u32 = 3;
/// How often it is looked at what runs without a request, and for how long each.
const IDLE_WINDOWS: u32 = 12;
const IDLE_WINDOW: Duration = Duration::from_millis(400);
/// Requests before those that count: the row is in memory then, and the disk is known to be quick.
const WARM: usize = 500;
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n$5\r\nvalue\r\n";
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n";

/// Lines that ran, by file: `node/shard/mod`.
type Lines = BTreeMap<String, BTreeSet<u32>>;

/// `cargo xtask way set|get [--program FILE]`.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (mut request, mut program) = (None, None);
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "set" => request = Some(SET),
            "get" => request = Some(GET),
            "--program" => program = Some(PathBuf::from(rest.next().ok_or("--program needs a file")?)),
            other => return Err(format!("unknown argument {other}")),
        }
    }
    let request = request.ok_or("which way? `set` or `get`")?;
    let program = program.map_or_else(|| process::basalt(root), Ok)?;
    let folder = root.join("target/way");
    let places = Node::start(&program, &folder)?.places(request)?;
    let [idle, of_request] = places.map(|places| symbolised(&program, &folder, &places));
    print!("{}", listing(&own(of_request?, &idle?)));
    Ok(())
}

/// What runs for the request alone.
fn own(mut of_request: Lines, idle: &Lines) -> Lines {
    for (file, lines) in &mut of_request {
        lines.retain(|line| !idle.get(file).is_some_and(|idle| idle.contains(line)));
    }
    of_request.retain(|_, lines| !lines.is_empty());
    of_request
}

fn listing(own: &Lines) -> String {
    let mut files: Vec<_> = own.iter().map(|(file, lines)| (lines.len(), file)).collect();
    files.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let counted = files.iter().filter(|(lines, _)| *lines >= LINES_MIN).count();
    let mut text: String = files.iter().map(|(lines, file)| format!("{lines:4} {file}\n")).collect();
    text += &format!("{counted} files of which {LINES_MIN} lines or more run; {} in all\n", files.len());
    text
}

/// A node that serves one client.
struct Node {
    child: Child,
    port: u16,
    /// Where its program lies in its memory.
    base: u64,
    /// The thread of its only event loop.
    worker: Pid,
}

impl Node {
    fn start(program: &Path, folder: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(failed)?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let port = free.local_addr().map_err(failed)?.port();
        drop(free);
        let mut command = Command::new(program);
        command.args(["start", "--memory", "256mb", "--workers", "1", "--stop-with-stdin", "--listen"]);
        command.arg(format!("127.0.0.1:{port}")).arg("--data").arg(folder.join("data"));
        let output = File::create(folder.join("output.log")).map_err(failed)?;
        let mut child = command.stdin(Stdio::piped()).stderr(output).spawn().map_err(failed)?;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Err(format!("the node has ended: {status}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let (base, worker) = (base_of(child.id())?, thread_of(child.id(), "worker-0")?);
        Ok(Self { child, port, base, worker })
    }

    /// The places in the program that run without requests, and those that run for each request.
    fn places(mut self, request: &[u8]) -> Result<[BTreeSet<u64>; 2], String> {
        let idle = self.stepped(IDLE_WINDOWS, || {
            std::thread::sleep(IDLE_WINDOW);
            Ok(())
        })?;
        let failed = |error: std::io::Error| error.to_string();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).map_err(failed)?;
        for request in [SET, request] {
            (0..WARM).try_for_each(|_| ask(&mut client, request))?;
        }
        let of_request = self.stepped(REQUESTS, || ask(&mut client, request))?;
        drop(self.child.stdin.take());
        self.child.wait().map_err(failed)?;
        let each = |(place, count): (u64, u32)| (count == REQUESTS).then_some(place);
        Ok([idle.into_keys().collect(), of_request.into_iter().filter_map(each).collect()])
    }

    /// Does something so many times while the event loop runs step by step: in how many of the times each place has run.
    fn stepped(&self, times: u32, act: impl FnMut() -> Result<(), String> + Send) -> Result<HashMap<u64, u32>, String> {
        let (time, is_over) = (&AtomicU32::new(0), &AtomicBool::new(false));
        ptrace::seize(self.worker, ptrace::Options::empty()).map_err(|error| format!("ptrace: {error}"))?;
        std::thread::scope(|scope| {
            let acts = scope.spawn(move || {
                let mut act = act;
                let done = (1..=times).try_for_each(|n| {
                    time.store(n, Ordering::SeqCst);
                    let done = act();
                    time.store(0, Ordering::SeqCst);
                    // What the loop does after the answer is not counted.
                    std::thread::sleep(Duration::from_millis(20));
                    done
                });
                is_over.store(true, Ordering::SeqCst);
                done
            });
            let places = self.step(time, is_over).map_err(|error| format!("ptrace: {error}"));
            acts.join().map_err(|_| "the client has panicked")??;
            places
        })
    }

    fn step(&self, time: &AtomicU32, is_over: &AtomicBool) -> nix::Result<HashMap<u64, u32>> {
        /// In which of the times a place ran last, and in how many.
        type Seen = (u32, u32);
        let mut places: HashMap<u64, Seen> = HashMap::new();
        ptrace::interrupt(self.worker)?;
        loop {
            let signal = match waitpid(self.worker, Some(WaitPidFlag::__WALL))? {
                WaitStatus::Stopped(_, signal) => Some(signal).filter(|signal| *signal != Signal::SIGTRAP),
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return Err(nix::errno::Errno::ESRCH),
                _ => None,
            };
            if is_over.load(Ordering::SeqCst) {
                ptrace::detach(self.worker, signal)?;
                return Ok(places.into_iter().map(|(place, (_, count))| (place, count)).collect());
            }
            let now = time.load(Ordering::SeqCst);
            if now > 0 {
                let at = ptrace::getregs(self.worker)?.rip.wrapping_sub(self.base);
                let (last, count) = places.entry(at).or_default();
                if *last != now {
                    (*last, *count) = (now, *count + 1);
                }
            }
            ptrace::step(self.worker, signal)?;
        }
    }
}

/// Sends a request and waits for its answer.
fn ask(client: &mut TcpStream, request: &[u8]) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    client.write_all(request).map_err(failed)?;
    let mut answer = [0; 256];
    let bytes = client.read(&mut answer).map_err(failed)?;
    match answer[..bytes].first() {
        Some(b'+' | b'$') => Ok(()),
        _ => Err(format!("the node answers {}", answer[..bytes].escape_ascii())),
    }
}

/// Where the program of a process lies in its memory.
fn base_of(process: u32) -> Result<u64, String> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).map_err(|error| error.to_string())?;
    let first = maps.split('-').next().unwrap_or_default();
    u64::from_str_radix(first, 16).map_err(|error| error.to_string())
}

fn thread_of(process: u32, name: &str) -> Result<Pid, String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).map_err(|error| error.to_string())?;
    let is_it = |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|found| found.trim() == name);
    let found = threads.flatten().map(|entry| entry.path()).find(is_it);
    let id = found.as_deref().and_then(Path::file_name).and_then(|id| id.to_str()?.parse().ok());
    id.map(Pid::from_raw).ok_or_else(|| format!("the node has no thread {name}"))
}

/// The lines of the workspace at places in a program, those of inlined functions too.
fn symbolised(program: &Path, folder: &Path, places: &BTreeSet<u64>) -> Result<Lines, String> {
    let failed = |error: std::io::Error| format!("llvm-symbolizer: {error}");
    let list = folder.join("places");
    let text: String = places.iter().map(|place| format!("{place:#x}\n")).collect();
    fs::write(&list, text).map_err(failed)?;
    let input = File::open(&list).map_err(failed)?;
    let mut command = Command::new("llvm-symbolizer");
    let output = command.arg("--inlines").arg("-e").arg(program).stdin(input).output().map_err(failed)?;
    Ok(lines_in(&String::from_utf8_lossy(&output.stdout)))
}

/// The lines that a symbolizer names, each as `path:line:column`.
fn lines_in(text: &str) -> Lines {
    let mut lines = Lines::new();
    for place in text.lines() {
        let mut parts = place.rsplitn(3, ':').skip(1);
        let (Some(line), Some(path)) = (parts.next().and_then(|line| line.parse().ok()), parts.next()) else {
            continue;
        };
        let of_workspace = path.rsplit_once("crates/").and_then(|(_, path)| path.strip_suffix(".rs"));
        if let Some((name, inner)) = of_workspace.and_then(|path| path.split_once("/src/"))
            && !name.contains('/')
            && line > 0
        {
            lines.entry(format!("{name}/{inner}")).or_default().insert(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_workspace_are_found_and_what_runs_idly_is_left_out() {
        let said = "\
node::shard::Shard::apply
/some/crates/node/src/shard/mod.rs:7:3
core::mem::take
/rustc/library/core/src/mem.rs:1:1

serve
crates/server/src/worker/event_loop.rs:5:1
serve
crates/server/src/worker/event_loop.rs:9:1
serve
crates/server/src/worker/event_loop.rs:0:0

??
??:0:0
inner
registry/slab-0.4/src/lib.rs:3:1
";
        let idle = Lines::from([("server/worker/event_loop".to_owned(), BTreeSet::from([5]))]);
        let found = own(lines_in(said), &idle);
        let expected = [("node/shard/mod", 7), ("server/worker/event_loop", 9)];
        assert_eq!(found, expected.map(|(file, line)| (file.to_owned(), BTreeSet::from([line]))).into());
        assert_eq!(own(found, &lines_in(said)), Lines::new());
    }

    #[test]
    fn a_file_counts_from_four_lines_on() {
        let lines = |lines: std::ops::Range<u32>| lines.collect::<BTreeSet<_>>();
        let own = Lines::from([("a".to_owned(), lines(1..4)), ("b".to_owned(), lines(1..5))]);
        assert_eq!(listing(&own), "   4 b\n   3 a\n1 files of which 4 lines or more run; 2 in all\n");
    }
}

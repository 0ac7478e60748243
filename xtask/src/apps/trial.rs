//! One trial: an application does its job against a store, which may lose a node half-way.
//!
//! The program says on its standard output where it is, a line each: `HALF` with a key, whose shard's leader is to be killed
//! now, and `OK` with what it did. Whatever else it writes is kept in its log. It has failed if it ends otherwise.

use super::application::{Application, Listener};
use super::situation::Situation;
use super::store::{DATABASE_0, Store};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Lines of a log that a failure shows.
const LINES_SHOWN: usize = 12;

/// Runs an application that is installed in `folder`: what it says that it did, or what it saw.
pub fn run(
    application: &Application,
    folder: &Path,
    store: &mut Store,
    situation: Situation,
) -> Result<String, String> {
    store.empty()?;
    let leader = store.leader_of(DATABASE_0)?;
    let log = folder.join(format!("{}.log", situation.name()));
    let mut command = application.toolchain.command(folder);
    command.envs(addresses(application, store, leader));
    command.env("BASALT_SITUATION", situation.name());
    let mut program = Program::start(&mut command, &log)?;
    let mut killed = None;
    let result = program.follow(application.bound, |key| {
        if situation == Situation::Killed && killed.is_none() {
            let leader = store.leader_of(key)?;
            store.kill(leader);
            killed = Some(leader);
        }
        Ok(killed.is_some())
    });
    drop(program);
    if let Some(number) = killed {
        store.restart(number)?;
    }
    let shown = |why| format!("{why}\n{}", last_lines(&log));
    match result {
        Ok(_) if situation == Situation::Killed && killed.is_none() => {
            Err(shown("it never said that it was half-way".to_owned()))
        }
        result => result.map_err(shown),
    }
}

/// What tells a program where to connect. `BASALT_URL` is a node that does not lead database 0, if there is one, and
/// `BASALT_DATABASES` begins with the one that does.
fn addresses(application: &Application, store: &Store, leader: usize) -> Vec<(&'static str, String)> {
    let other = (leader + 1) % store.count();
    let url = match application.listener {
        Listener::Databases => &store.databases(other)[0],
        Listener::Cluster => &store.cluster(other)[0],
    };
    let port = url.rsplit(':').next().unwrap_or_default().to_owned();
    vec![
        ("BASALT_URL", format!("redis://{url}")),
        ("BASALT_PORT", port),
        ("BASALT_DATABASES", store.databases(leader).join(",")),
        ("BASALT_CLUSTER", store.cluster(leader).join(",")),
    ]
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// A program under way, with all processes that it starts.
struct Program {
    child: Child,
    lines: Receiver<String>,
    log: File,
}

impl Program {
    fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", command_name(command));
        let file = File::create(log).map_err(failed)?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", command_name(command)))?;
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        std::thread::spawn(move || {
            output
                .split(b'\n')
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()))
        });
        Ok(Self { child, lines, log: file })
    }

    /// Reads what it says to its end; `half` is called with the key of each `HALF`, and says whether a node was killed.
    fn follow(
        &mut self,
        bound: Duration,
        mut half: impl FnMut(&str) -> Result<bool, String>,
    ) -> Result<String, String> {
        let end = Instant::now() + bound;
        let mut done = None;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let _ = writeln!(self.log, "{line}");
                    if let Some(key) = line.strip_prefix("HALF") {
                        let is_killed = half(if key.is_empty() { DATABASE_0 } else { key.trim() })?;
                        if is_killed && self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                            return Err("it had ended before the node was killed".to_owned());
                        }
                    } else if let Some(what) = line.strip_prefix("OK ") {
                        done = Some(what.to_owned());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if done.is_some() => break,
                Err(RecvTimeoutError::Timeout) => return Err(format!("not done within {} s", bound.as_secs())),
            }
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        match done {
            Some(what) if status.success() => Ok(what),
            _ => Err(format!("it ended with {status}")),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // What it started may still run, such as its workers.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

fn command_name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Program, last_lines};
    use rustix::process::Pid;
    use std::process::Command;
    use std::time::Duration;

    const BOUND: Duration = Duration::from_secs(240);

    fn follow(script: &str) -> (Result<String, String>, Vec<String>, String) {
        let log = std::env::temp_dir().join(format!("basalt-apps-{}-{}", std::process::id(), script.len()));
        let mut program = Program::start(Command::new("sh").args(["-c", script]), &log).expect("there is a shell");
        let mut halves = Vec::new();
        let result = program.follow(BOUND, |key| {
            halves.push(key.to_owned());
            Ok(false)
        });
        drop(program);
        let said = last_lines(&log);
        let _ = std::fs::remove_file(log);
        (result, halves, said)
    }

    #[test]
    fn a_program_says_where_it_is_and_how_it_ended() {
        let (result, halves, _) = follow("echo HALF; echo 'HALF {a}b'; echo 'OK 3 jobs'");
        assert_eq!((result, halves), (Ok("3 jobs".to_owned()), vec!["06S".to_owned(), "{a}b".to_owned()]));
        let (result, _, said) = follow("echo 'OK 3 jobs'; echo lost one >&2; exit 3");
        assert_eq!(result, Err("it ended with exit status: 3".to_owned()));
        assert!(said.contains("lost one"), "{said}");
        let (result, ..) = follow("echo nothing");
        assert_eq!(result, Err("it ended with exit status: 0".to_owned()));
    }

    #[test]
    fn a_program_that_is_too_quick_proves_nothing() {
        let log = std::env::temp_dir().join(format!("basalt-apps-quick-{}", std::process::id()));
        let script = "echo HALF; echo 'OK 3 jobs'";
        let mut program = Program::start(Command::new("sh").args(["-c", script]), &log).expect("there is a shell");
        let pid = Pid::from_child(&program.child);
        let result = program.follow(BOUND, |_| {
            // Until it is a zombie.
            while std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
                .is_ok_and(|stat| !stat.contains(") Z "))
            {
                std::thread::yield_now();
            }
            Ok(true)
        });
        let _ = std::fs::remove_file(log);
        assert_eq!(result, Err("it had ended before the node was killed".to_owned()));
    }

    #[test]
    fn what_a_program_started_ends_with_it() {
        // Its output stays open in a process of its own.
        let (result, ..) = follow("sleep 600 >/dev/null 2>&1 & echo 'OK one'");
        assert_eq!(result, Ok("one".to_owned()));
    }
}

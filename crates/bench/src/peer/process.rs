//! A server's process: started so that it outlives the process that started it, known again by when it was started.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::target::DATA_VARIABLE;

/// A server that was told to end is killed after this.
const END_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
/// How much of a log an error quotes, in bytes.
const QUOTE_BYTES: usize = 1500;

/// A process; another of the same id has been started at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// When it was started, in the kernel's own count.
    pub started: u64,
}

/// Starts `command` with its data in `data`, its output in `log`.
pub(super) fn start(mut command: Command, data: &Path, log: &Path) -> io::Result<Process> {
    fs::create_dir_all(data)?;
    let out = File::create(log)?;
    command.env(DATA_VARIABLE, data).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    // A terminal's Ctrl-C is for the one that started it.
    command.process_group(0);
    let child = command.spawn().map_err(|error| {
        io::Error::new(error.kind(), format!("cannot start {}: {error}", command.get_program().to_string_lossy()))
    })?;
    let id = child.id();
    let started =
        started(id).ok_or_else(|| io::Error::other("this system does not tell when a process was started"))?;
    Ok(Process { id, started })
}

/// When a process was started, unless it has ended.
fn started(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Its name may hold blanks and brackets.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // Ended, and not yet waited for.
    let ended = ["Z", "X"].contains(&fields.next()?);
    fields.nth(18)?.parse().ok().filter(|_| !ended)
}

/// Whether it has not ended.
pub(super) fn is_alive(process: Process) -> bool {
    started(process.id) == Some(process.started)
}

/// Ends processes, all at once. One that does not listen is killed.
pub(super) fn end(processes: &[Process]) -> io::Result<()> {
    let signal = |signal: Signal| {
        for process in processes.iter().filter(|process| is_alive(**process)) {
            let Some(id) = Pid::from_raw(process.id as i32) else { continue };
            match kill_process(id, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(io::Error::other(format!("cannot end process {}: {error}", process.id))),
            }
        }
        Ok(())
    };
    let all_gone = || processes.iter().all(|process| !is_alive(*process));
    signal(Signal::TERM)?;
    if until(END_WITHIN, all_gone) {
        return Ok(());
    }
    signal(Signal::KILL)?;
    if until(END_WITHIN, all_gone) { Ok(()) } else { Err(io::Error::other("processes survive SIGKILL")) }
}

/// Asks again and again, for so long.
pub(super) fn until(bound: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + bound;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(POLL);
    }
}

/// The end of a log, for an error.
pub(super) fn quote(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(QUOTE_BYTES)..]).into_owned();
    let lines: Vec<String> = text.lines().map(|line| format!("  | {line}")).collect();
    format!("the end of {}:\n{}", log.display(), lines.join("\n"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_is_known_again_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        let mut sleep = Command::new("sh");
        sleep.args(["-c", "echo up; exec sleep 100"]);
        let process = start(sleep, &dir.path().join("data"), &dir.path().join("log")).unwrap();
        assert!(is_alive(process) && !is_alive(Process { started: process.started + 1, ..process }));
        assert!(until(END_WITHIN, || quote(&dir.path().join("log")).ends_with("| up")));
        end(&[process]).unwrap();
        assert!(!is_alive(process));
        end(&[process]).unwrap();
    }
}

//! Processes that are known by more than their id, so that no other program's is ever ended for one of ours.

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, Instant};

/// Between two looks at a process that is to end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A process: its id, and when it was started, for ids are used again.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// When it was started, in the system's ticks since it was booted.
    pub started: u64,
}

impl Process {
    /// The process that has this id now; none if there is none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: started(pid)? })
    }

    /// Whether it still runs. One that has ended and waits for its parent to notice does not.
    #[must_use]
    pub fn runs(self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Ends it in order, as an operator would.
    pub fn terminate(self) -> io::Result<()> {
        self.send(Signal::TERM)
    }

    /// Ends it at once, without its knowing.
    pub fn kill(self) -> io::Result<()> {
        self.send(Signal::KILL)
    }

    /// Holds it up until [`Process::resume`]: it is there, and does nothing.
    pub fn pause(self) -> io::Result<()> {
        self.send(Signal::STOP)
    }

    /// Lets it go on.
    pub fn resume(self) -> io::Result<()> {
        self.send(Signal::CONT)
    }

    fn send(self, signal: Signal) -> io::Result<()> {
        match i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            Some(pid) if self.runs() => Ok(kill_process(pid, signal)?),
            _ => Ok(()),
        }
    }

    /// Waits until it has ended; false if it has not by then.
    #[must_use]
    pub fn wait(self, until: Instant) -> bool {
        while self.runs() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }
}

/// When the process was started: proc(5), field 22 of stat. None if it has ended.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything; the fields behind it begin with the third, the state.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // The first thread may have ended before the others, which have the files and ports for as long as they wait for a disk.
    let has_threads = || std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() > 1);
    if matches!(fields.next()?, "Z" | "X") && !has_threads() {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_told_from_a_later_one_of_its_id() {
        let own = Process::of(std::process::id()).unwrap();
        assert!(own.runs());
        let other = Process { started: own.started + 1, ..own };
        assert!(!other.runs());
        // Were it taken for this one, the test would end here.
        other.kill().unwrap();
    }

    #[test]
    fn one_that_has_ended_does_not_run_even_before_its_parent_knows() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.runs());
        process.terminate().unwrap();
        assert!(process.wait(Instant::now() + Duration::from_secs(10)));
        assert!(!child.wait().unwrap().success());
        assert_eq!(Process::of(process.pid), None);
    }
}

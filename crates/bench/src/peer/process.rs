//! A server's process: started so that it outlives whoever started it, known again by its environment.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Tells a server's process, and whoever looks at it, where its data is.
pub const DATA_VARIABLE: &str = "BASALT_PEER_DATA";
/// A server that was told to end is killed after this.
const END_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
/// How much of a log an error quotes, in bytes.
const QUOTE_BYTES: usize = 1500;

/// Starts `command` with its data in `data`, its output in `log`. Answers its process id.
pub(super) fn start(mut command: Command, data: &Path, log: &Path) -> io::Result<u32> {
    fs::create_dir_all(data)?;
    let out = File::create(log)?;
    command.env(DATA_VARIABLE, data).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    // A terminal's Ctrl-C is for the one that started it.
    command.process_group(0);
    let child = command.spawn().map_err(|error| {
        io::Error::new(error.kind(), format!("cannot start {}: {error}", command.get_program().to_string_lossy()))
    })?;
    Ok(child.id())
}

/// Whether the process still is the one that has its data in `data`.
pub(super) fn is_alive(process: u32, data: &Path) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{process}/environ")) else { return false };
    let expected = format!("{DATA_VARIABLE}={}", data.display());
    environment.split(|byte| *byte == 0).any(|variable| variable == expected.as_bytes())
}

/// Ends the processes of `(process, data)`, all at once. One that does not listen is killed.
pub(super) fn end(processes: &[(u32, &Path)]) -> io::Result<()> {
    let signal = |signal: Signal| {
        for (process, data) in processes.iter().filter(|(process, data)| is_alive(*process, data)) {
            if let Some(id) = Pid::from_raw(*process as i32) {
                match kill_process(id, signal) {
                    Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                    Err(error) => {
                        let text = format!("cannot end process {process} with its data in {}: {error}", data.display());
                        return Err(io::Error::other(text));
                    }
                }
            }
        }
        Ok(())
    };
    let all_gone = || processes.iter().all(|(process, data)| !is_alive(*process, data));
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

//! Agents of this machine that live as long as their coordinator.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::agent::SECRET_VARIABLE;
use crate::agent::handshake::random;

/// Processes that were started here. They end when this is dropped.
#[derive(Default)]
pub(super) struct Spawned {
    children: Vec<(Child, Option<ChildStdin>)>,
    pub(super) addresses: Vec<String>,
    pub(super) secret: Vec<u8>,
}

impl Spawned {
    /// Starts so many.
    pub(super) fn start(count: u16) -> io::Result<Self> {
        let program = env::current_exe()?;
        let words = words_before_task(env::args_os().skip(1));
        let secret = random().iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a String takes all that is written");
            text
        });
        let mut spawned = Self::default();
        secret.as_bytes().clone_into(&mut spawned.secret);
        for _ in 0..count {
            let mut child = Command::new(&program)
                .args(&words)
                .args(["agent", "--listen", "127.0.0.1:0", "--with-parent"])
                .env(SECRET_VARIABLE, &secret)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
            let (input, output) = (child.stdin.take(), child.stdout.take());
            spawned.children.push((child, input));
            let mut line = String::new();
            BufReader::new(output.ok_or_else(|| io::Error::other("a process without output"))?).read_line(&mut line)?;
            let address = line.trim().strip_prefix("agent listens on ");
            let address = address.ok_or_else(|| io::Error::other("a process that was started is no agent"))?;
            spawned.addresses.push(address.to_owned());
        }
        Ok(spawned)
    }
}

/// What stands between the program and `load`, `run`, `delete` or `suite`, which `agent` takes the place of.
fn words_before_task(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    words.take_while(|word| !["load", "run", "delete", "suite"].iter().any(|task| word == task)).collect()
}

impl Drop for Spawned {
    fn drop(&mut self) {
        for (child, input) in &mut self.children {
            // The end of its input is what it waits for; if it does not, it is ended.
            drop(input.take());
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(2);
            while child.try_wait().is_ok_and(|status| status.is_none()) && std::time::Instant::now() < deadline {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_called_as_their_coordinator_was() {
        let words = |line: &str| words_before_task(line.split(' ').map(OsString::from));
        assert_eq!(words("bench run --processes 2"), ["bench"]);
        assert_eq!(words("-v bench load"), ["-v", "bench"]);
        assert_eq!(words("bench suite ./mine.toml --out run"), ["bench"]);
        assert!(words("delete -P workloada").is_empty());
    }
}

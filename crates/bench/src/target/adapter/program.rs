//! An adapter's process: started by the laboratory, and ended with it.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::machine::usage::ProcessUsage;
use crate::model::CpuTime;

/// An adapter listens within this time, or is broken.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// An adapter ends by itself within this time after its standard input has.
const END_WITHIN: Duration = Duration::from_secs(3);
/// How often an end is looked for.
const POLL: Duration = Duration::from_millis(10);
/// The number of its last lines that are remembered…
const LINES_MAX: usize = 12;
/// …and so much of each, in bytes.
const LINE_BYTES_MAX: usize = 500;
/// What an adapter prints when it listens.
const READY: &str = "ready";

type Lines = Arc<Mutex<VecDeque<String>>>;

/// A running adapter. It ends when its standard input does, so it does not outlive the laboratory.
pub(super) struct Program {
    name: String,
    child: Mutex<Child>,
    /// For its CPU time.
    id: u32,
    socket: PathBuf,
    lines: Lines,
    _dir: TempDir,
}

impl Program {
    /// Starts it and waits until it listens.
    pub(super) fn start(mut command: Command, name: &str) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("basalt-adapter-").tempdir()?;
        let socket = dir.path().join("socket");
        command.arg("--socket").arg(&socket);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            io::Error::new(error.kind(), format!("cannot start the adapter for {name} ({program}): {error}"))
        })?;
        let lines = Lines::default();
        let (sender, ready) = channel();
        listen(child.stdout.take(), Arc::clone(&lines), Some(sender));
        listen(child.stderr.take(), Arc::clone(&lines), None);
        let id = child.id();
        let program = Self { name: name.to_owned(), child: Mutex::new(child), id, socket, lines, _dir: dir };
        program.await_ready(&ready)?;
        Ok(program)
    }

    fn await_ready(&self, ready: &Receiver<()>) -> io::Result<()> {
        match ready.recv_timeout(UP_WITHIN) {
            Ok(()) => Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                let text = format!("it does not listen after {} s", UP_WITHIN.as_secs());
                Err(io::Error::new(ErrorKind::TimedOut, self.explained(&text)))
            }
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other(self.explained("it has ended"))),
        }
    }

    /// Another connection.
    pub(super) fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(&self.socket).map_err(|error| io::Error::new(error.kind(), self.explained("it is gone")))
    }

    /// `what`, with the last that it said.
    pub(super) fn explained(&self, what: &str) -> String {
        let lines = self.lines.lock();
        let mut text = format!("the adapter for {}: {what}", self.name);
        for line in lines.iter() {
            text += "\n  | ";
            text += line;
        }
        text
    }

    /// What it has used so far: a part of what the client costs.
    pub(super) fn cpu(&self) -> Option<CpuTime> {
        ProcessUsage::of(self.id).map(|usage| usage.cpu)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        drop(child.stdin.take());
        let end = Instant::now() + END_WITHIN;
        while Instant::now() < end {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL);
        }
        // It may have ended in between.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Remembers the last lines of what it prints, and tells when it is ready.
fn listen(output: Option<impl Read + Send + 'static>, lines: Lines, mut ready: Option<Sender<()>>) {
    let Some(output) = output else { return };
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        // Read to its end: a full pipe would stop it.
        while output.by_ref().take(1 << 20).read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]).trim_end().to_owned();
            line.clear();
            match ready.take_if(|_| text == READY) {
                // The receiver is gone if it was too late.
                Some(ready) => _ = ready.send(()),
                None => {
                    let mut lines = lines.lock();
                    if lines.len() == LINES_MAX {
                        lines.pop_front();
                    }
                    lines.push_back(text);
                }
            }
        }
    });
}

//! A child process whose output is passed on as it comes, and counted.

use std::io::{BufRead, BufReader, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// What a run of `cargo test` said in all of its `test result:` lines; one check for anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Checks that held.
    pub passed: u64,
    /// Checks that did not.
    pub failed: u64,
}

impl Count {
    fn add_line(&mut self, line: &str) {
        let Some((_, rest)) = line.split_once("test result: ") else { return };
        let mut words = rest.split([' ', ';', '.']).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            let Ok(n) = word.parse::<u64>() else { continue };
            match words.peek() {
                Some(&"passed") => self.passed += n,
                Some(&"failed") => self.failed += n,
                _ => {}
            }
        }
    }
}

/// What the tests that failed printed: libtest's sections from `failures:` to the result.
#[derive(Default)]
struct Failures {
    inside: bool,
    text: String,
    left_out: usize,
}

impl Failures {
    /// Most lines kept of one run.
    const LINES: usize = 120;

    fn add_line(&mut self, line: &str) {
        if line.starts_with("test result: ") {
            self.inside = false;
        } else if line.trim_end() == "failures:" {
            // The second such line begins the list of names, which the sections have said.
            self.inside = !self.inside;
        } else if self.inside && !line.trim().is_empty() {
            if self.text.lines().count() < Self::LINES { self.text += line } else { self.left_out += 1 }
        }
    }

    fn said(self) -> String {
        match self.left_out {
            0 => self.text,
            n => format!("{}… and {n} lines more, above\n", self.text),
        }
    }
}

/// When a child's output is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Each line as it comes.
    Live,
    /// All of it when the child has ended, so that the lines of two children do not mix.
    AtTheEnd,
}

/// Runs `command` in `root` without input and passes its output on as it comes. An error, with what the failed tests
/// printed, if it fails.
pub fn run(root: &Path, command: &mut Command) -> Result<Count, (Count, String)> {
    command.current_dir(root);
    run_there(command, Output::Live)
}

/// Runs `command` in `root` without input, for as long as it takes: cargo speaks on standard error, and says nothing while it
/// compiles a large crate, or waits for another.
pub fn build(root: &Path, command: &mut Command) -> Result<(), String> {
    let status = command.current_dir(root).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{}: {status}", shown(command))),
        Err(error) => Err(format!("{}: {error}", shown(command))),
    }
}

/// How long a command may say nothing before it is ended: several times what the longest test program takes. A test that
/// hangs fails alone then, and the rest of the gate still says what it finds.
const SILENCE: Duration = Duration::from_secs(15 * 60);
/// The same for one that runs beside others: it has what processor time these leave, and cargo says nothing while it builds.
const SILENCE_BESIDE: Duration = Duration::from_secs(40 * 60);

/// Runs `command` in the folder that it names, without input. An error, with what the failed tests printed, if it fails
/// or says nothing for too long.
pub fn run_there(command: &mut Command, output: Output) -> Result<Count, (Count, String)> {
    let silence = if output == Output::AtTheEnd { SILENCE_BESIDE } else { SILENCE };
    run_until_silent(command, output, silence)
}

fn run_until_silent(command: &mut Command, output: Output, silence: Duration) -> Result<Count, (Count, String)> {
    let shown = shown(command);
    let mut printer = Printer { output, held: Vec::new() };
    printer.print(format!("$ {shown}\n").as_bytes());
    let mut count = Count::default();
    let failed = |count: Count, error: std::io::Error| (count, format!("{shown}: {error}"));
    let (reader, writer) = std::io::pipe().map_err(|error| failed(count, error))?;
    if output == Output::AtTheEnd {
        command.stderr(writer.try_clone().map_err(|error| failed(count, error))?);
    }
    let child = command.stdin(Stdio::null()).stdout(writer).spawn();
    // The command holds the pipe's writing end: while it does, the reader sees no end.
    command.stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut child = child.map_err(|error| failed(count, error))?;
    let lines = lines_of(reader);
    let mut failures = Failures::default();
    let end = loop {
        match lines.recv_timeout(silence) {
            Ok(line) => {
                let text = String::from_utf8_lossy(&line);
                count.add_line(&text);
                failures.add_line(&text);
                printer.print(&line);
            }
            Err(end) => break end,
        }
    };
    if end == RecvTimeoutError::Timeout {
        // What it has started may hold the pipe open: its end is not waited for.
        child.kill().map_err(|error| failed(count, error))?;
    }
    let status = child.wait().map_err(|error| failed(count, error))?;
    match (end, status.success()) {
        (RecvTimeoutError::Disconnected, true) => Ok(count),
        (RecvTimeoutError::Disconnected, false) => Err((count, format!("{shown}: {status}\n{}", failures.said()))),
        (RecvTimeoutError::Timeout, _) => {
            let why = format!("{shown}: it said nothing for {} s and was ended", silence.as_secs_f64());
            Err((count, format!("{why}\n{}", failures.said())))
        }
    }
}

/// The lines that come through a pipe, with their line ends, until its end.
fn lines_of(pipe: PipeReader) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Several runs as one: their counts, and what all that failed said.
pub fn sum(results: impl IntoIterator<Item = Result<Count, (Count, String)>>) -> Result<Count, (Count, String)> {
    let (mut total, mut whys) = (Count::default(), Vec::new());
    for result in results {
        let count = match result {
            Ok(count) => count,
            Err((count, why)) => {
                whys.push(why);
                // A run that fails without a test that does is a failure too.
                Count { passed: count.passed, failed: count.failed.max(1) }
            }
        };
        total.passed += count.passed;
        total.failed += count.failed;
    }
    if whys.is_empty() { Ok(total) } else { Err((total, whys.join("\n"))) }
}

/// Passes a child's output on to standard output; what it holds back, when it is dropped.
struct Printer {
    output: Output,
    held: Vec<u8>,
}

impl Printer {
    fn print(&mut self, line: &[u8]) {
        match self.output {
            Output::Live => write_out(line),
            Output::AtTheEnd => self.held.extend(line),
        }
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        write_out(&self.held);
    }
}

/// A closed standard output must not stop the gate from answering by its exit code.
fn write_out(bytes: &[u8]) {
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// A cargo command, by the cargo that runs us.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    // Set for us by `cargo run`; a nested cargo would take them for its own.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
        command.env_remove(name);
    }
    command
}

/// The binary of this commit, built as this program is; where it is.
pub fn basalt(root: &Path) -> Result<PathBuf, String> {
    run(root, &mut cargo(&["build", "--package", "basalt", "--locked", "--quiet"])).map_err(|(_, why)| why)?;
    beside("basalt")
}

/// Where a program of the workspace lies once it is built: beside this one, wherever cargo was told to build.
pub fn beside(name: &str) -> Result<PathBuf, String> {
    std::env::current_exe().map(|own| own.with_file_name(name)).map_err(|error| error.to_string())
}

fn shown(command: &Command) -> String {
    let mut text = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            text += &format!("{}={} ", name.to_string_lossy(), value.to_string_lossy());
        }
    }
    let program = Path::new(command.get_program());
    text += &program.file_name().unwrap_or(command.get_program()).to_string_lossy();
    for argument in command.get_args() {
        text += &format!(" {}", argument.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Count, Failures, Output, run_there, run_until_silent, sum};
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn counts_what_cargo_test_says() {
        let mut count = Count::default();
        for line in [
            "running 3 tests",
            "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 7 filtered out; finished in 0.01s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s",
        ] {
            count.add_line(line);
        }
        assert_eq!(count, Count { passed: 13, failed: 2 });
    }

    #[test]
    fn a_sum_fails_with_each_failure() {
        let fine = || Ok(Count { passed: 2, failed: 0 });
        assert_eq!(sum([fine(), fine()]), Ok(Count { passed: 4, failed: 0 }));
        let failed = |failed, why: &str| Err((Count { passed: 1, failed }, why.to_owned()));
        let all = sum([failed(3, "three"), fine(), failed(0, "no test ran")]);
        assert_eq!(all, Err((Count { passed: 4, failed: 4 }, "three\nno test ran".to_owned())));
    }

    #[test]
    fn both_ways_to_pass_output_on_count_and_tell_failures() {
        for output in [Output::Live, Output::AtTheEnd] {
            let said = "echo 'test result: ok. 2 passed; 1 failed; 0 ignored'";
            let run = |script: &str| run_there(Command::new("sh").args(["-c", script]), output);
            assert_eq!(run(said), Ok(Count { passed: 2, failed: 1 }), "{output:?}");
            let (count, why) = run(&format!("{said}; exit 3")).expect_err("its exit code says so");
            assert_eq!(count, Count { passed: 2, failed: 1 }, "{output:?}");
            assert!(why.contains("exit status: 3"), "{output:?}: {why}");
        }
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let said = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; exec sleep 1000";
        let mut command = Command::new("sh");
        let ended = run_until_silent(command.args(["-c", said]), Output::AtTheEnd, Duration::from_millis(300));
        let (count, why) = ended.expect_err("it never ends");
        assert_eq!(count, Count { passed: 2, failed: 0 });
        assert!(why.contains("said nothing for 0.3 s"), "{why}");
    }

    #[test]
    fn keeps_what_failed_tests_printed() {
        let mut failures = Failures::default();
        let printed = "running 3 tests\n.F.\nfailures:\n\n---- a::b stdout ----\nthread panicked\n\n\nfailures:\n    \
                       a::b\n\ntest result: FAILED. 2 passed; 1 failed\nfailures of another kind\n";
        for line in printed.split_inclusive('\n') {
            failures.add_line(line);
        }
        assert_eq!(failures.said(), "---- a::b stdout ----\nthread panicked\n");
    }
}

//! A child process whose output is passed on as it comes, and counted.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Runs `command` in `root` without input and passes its output on. An error, with what the failed tests printed, if
/// it fails.
pub fn run(root: &Path, command: &mut Command) -> Result<Count, (Count, String)> {
    let shown = shown(command);
    println!("$ {shown}");
    let mut count = Count::default();
    let none = Count::default();
    let mut child = command
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| (none, format!("{shown}: {error}")))?;
    let output = child.stdout.take().expect("it is piped");
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    let mut stdout = std::io::stdout();
    let mut failures = Failures::default();
    while reader.read_until(b'\n', &mut line).map_err(|error| (count, format!("{shown}: {error}")))? > 0 {
        let text = String::from_utf8_lossy(&line);
        count.add_line(&text);
        failures.add_line(&text);
        // A closed standard output must not stop the gate from answering by its exit code.
        let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
        line.clear();
    }
    let status = child.wait().map_err(|error| (count, format!("{shown}: {error}")))?;
    if status.success() { Ok(count) } else { Err((count, format!("{shown}: {status}\n{}", failures.said()))) }
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
    use super::{Count, Failures};

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

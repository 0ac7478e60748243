//! Programs that run to their end, within a time.

use super::progress;
use crate::process;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often an end is looked for.
const POLL: Duration = Duration::from_millis(20);

/// Builds the optimised binary unless it is said to be there, or another is named, and says where it is.
pub fn basalt(root: &Path, is_built: bool, named: Option<&str>) -> Result<PathBuf, String> {
    if let Some(named) = named {
        let file = Path::new(named).canonicalize().map_err(|error| format!("{named}: {error}"))?;
        return if file.is_file() { Ok(file) } else { Err(format!("{named}: no file")) };
    }
    optimised(root, is_built, &["--package", "basalt"], "target/release/basalt")
}

/// The same of the bare tree's program.
pub fn bare_lsm(root: &Path, is_built: bool) -> Result<PathBuf, String> {
    let what = ["--package", "basalt-bench", "--example", "bare_lsm"];
    optimised(root, is_built, &what, "target/release/examples/bare_lsm")
}

fn optimised(root: &Path, is_built: bool, what: &[&str], file: &str) -> Result<PathBuf, String> {
    if !is_built {
        progress::doing("cargo builds the optimised program");
        build(root, &[&["build", "--release", "--locked"], what].concat())?;
    }
    let file = root.join(file);
    if file.is_file() { Ok(file) } else { Err(format!("{} is not there: run without --no-build", file.display())) }
}

/// Cargo's standard output is ours for the report; it speaks on standard error.
fn build(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let status = process::cargo(arguments).current_dir(root).stdout(Stdio::null()).status();
    let status = status.map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", arguments.join(" "))) }
}

/// A program of Debian's, by its name; an error names the package.
pub fn installed(name: &str, package: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("{name} is not installed: `apt-get install {package}`"))
}

/// Ends a process that this program started, and waits for it.
pub fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Runs a command to its end and gives its standard output; an error if it fails or takes longer than `bound`.
pub fn output(command: &mut Command, bound: Duration) -> Result<String, String> {
    match finished(command, bound)? {
        (status, stdout, _) if status.success() => Ok(stdout),
        (status, _, stderr) => Err(format!("{}: {status}\n{}", name_of(command), tail(&stderr))),
    }
}

fn name_of(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs a command to its end, however that is: how it ended, its standard output, and its messages. An error if it takes
/// longer than `bound`.
pub fn finished(command: &mut Command, bound: Duration) -> Result<(ExitStatus, String, String), String> {
    let (name, bound) = (name_of(command), progress::within(bound));
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let said = format!("{name} {}", words.join(" "));
    progress::doing(shortened(&said));
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    // Read beside, so that a full pipe never holds it up.
    let stdout = reader(child.stdout.take().expect("it is piped"));
    let stderr = reader(child.stderr.take().expect("it is piped"));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if start.elapsed() > bound {
            end(&mut child);
            return Err(format!("{said}: not done within {} s", bound.as_secs()));
        }
        std::thread::sleep(POLL);
    };
    Ok((status, text_of(stdout), text_of(stderr)))
}

/// What fits into a line.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    if text.chars().count() <= CHARS_MAX {
        return text.to_owned();
    }
    let begin: String = text.chars().take(CHARS_MAX).collect();
    format!("{begin}…")
}

fn reader(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a failure is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn text_of(reader: std::thread::JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

/// The last lines.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_give_their_output_fail_or_are_ended() {
        let run = |script: &str, bound| output(Command::new("sh").args(["-c", script]), bound);
        let long = Duration::from_secs(30);
        assert_eq!(run("echo hello", long), Ok("hello\n".to_owned()));
        assert_eq!(run("echo no >&2; exit 3", long), Err("sh: exit status: 3\nno".to_owned()));
        assert_eq!(run("exec sleep 60", Duration::ZERO), Err("sh -c exec sleep 60: not done within 0 s".to_owned()));
        let missing = installed("no-such-program-here", "a-package").expect_err("it is nowhere");
        assert!(missing.contains("apt-get install a-package"), "{missing}");
    }
}

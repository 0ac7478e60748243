//! Builds the adapters by their languages' own tools, when they are needed and older than their sources.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use super::folder;
use crate::target::{AdapterUrl, Reach};

/// The program that speaks to the system which `url` names. It is built if need be.
///
/// # Errors
/// Its sources or the tools to build it are not there, or it does not build.
pub fn adapter(url: &AdapterUrl) -> io::Result<Command> {
    let scheme = url.row().scheme;
    match url.row().reach {
        Reach::Java { driver } => java_adapter(scheme, driver),
        Reach::Go | Reach::Noop | Reach::Redis => go_adapter(scheme),
    }
}

fn go_adapter(scheme: &str) -> io::Result<Command> {
    let (sources, program) = (folder::peers()?.join("adapter-go"), folder::built()?.join("basalt-adapter-go"));
    make(&program, &sources, &format!("the adapter for {scheme}"), || {
        let mut go = tool("go", "golang-go")?;
        go.current_dir(&sources).args(["build", "-o"]).arg(&program).arg(".");
        done(&mut go)
    })?;
    let mut command = Command::new(program);
    command.args(["--system", scheme]);
    Ok(command)
}

fn java_adapter(scheme: &str, driver: &str) -> io::Result<Command> {
    let sources = folder::peers()?.join("adapter-java");
    let library = folder::built()?.join(format!("adapter-java-{driver}"));
    make(&library.join("basalt-adapter.jar"), &sources, &format!("the adapter for {scheme}"), || {
        let mut maven = tool("mvn", "maven")?;
        maven.current_dir(&sources).args(["-q", "-B", "-DskipTests", &format!("-P{driver}")]);
        maven.arg(format!("-Dbuilt={}", library.display())).arg("package");
        done(&mut maven)
    })?;
    let mut command = tool("java", "default-jre-headless")?;
    command.args(["-Xmx512m", "-XX:+UseSerialGC", "-cp"]).arg(library.join("*"));
    command.args(["basalt.adapter.Main", "--system", scheme]);
    Ok(command)
}

/// Calls `build` unless `made` is younger than everything below `sources`. Others wait meanwhile.
pub(super) fn make(made: &Path, sources: &Path, what: &str, build: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let is_fresh = || {
        let built = fs::metadata(made).and_then(|metadata| metadata.modified()).ok();
        built.is_some_and(|built| newest(sources).is_some_and(|source| source < built))
    };
    if is_fresh() {
        return Ok(());
    }
    let folder = made.parent().expect("what is made lies in a folder");
    fs::create_dir_all(folder)?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    if is_fresh() {
        return Ok(());
    }
    crate::note!("building {what}; the first time this fetches its libraries");
    build().map_err(|error| io::Error::new(error.kind(), format!("cannot build {what}: {error}")))?;
    // A tool that found nothing to do leaves it as old as it was.
    File::options().append(true).open(made)?.set_modified(SystemTime::now())
}

/// When the youngest file below `dir` was changed; what was built there does not count.
fn newest(dir: &Path) -> Option<SystemTime> {
    let mut newest = None;
    for entry in fs::read_dir(dir).ok()?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let changed = if metadata.is_dir() {
            if entry.file_name() == "target" { None } else { self::newest(&entry.path()) }
        } else {
            metadata.modified().ok()
        };
        newest = newest.max(changed);
    }
    newest
}

/// A program that must be on this machine.
pub(super) fn tool(name: &str, package: &str) -> io::Result<Command> {
    installed(name, package).map(Command::new)
}

/// Where a program is.
pub(super) fn installed(name: &str, package: &str) -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| {
        let text = format!("{name} is not installed: `peers/install` brings it, or `apt-get install {package}`");
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// Runs a tool; an error tells the end of what it said.
pub(super) fn done(command: &mut Command) -> io::Result<()> {
    const TOLD_BYTES: usize = 4000;
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(TOLD_BYTES)..]).into_owned();
    Err(io::Error::other(format!("{}: {}\n{said}", command.get_program().to_string_lossy(), output.status)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::cell::Cell;
    use std::time::Duration;

    #[test]
    fn what_is_younger_than_its_sources_is_not_built_again() {
        let dir = tempfile::tempdir().unwrap();
        let (sources, made) = (dir.path().join("sources"), dir.path().join("made"));
        fs::create_dir_all(sources.join("inner")).unwrap();
        let source = sources.join("inner/file");
        fs::write(&source, "a").unwrap();
        let builds = Cell::new(0);
        let build = || {
            builds.set(builds.get() + 1);
            fs::write(&made, "made")
        };
        make(&made, &sources, "a test", build).unwrap();
        make(&made, &sources, "a test", build).unwrap();
        assert_eq!(builds.get(), 1);
        let later = SystemTime::now() + Duration::from_secs(5);
        File::options().append(true).open(&source).unwrap().set_modified(later).unwrap();
        make(&made, &sources, "a test", build).unwrap();
        assert_eq!(builds.get(), 2);
        assert!(make(&dir.path().join("nothing"), &sources, "a test", || Err(io::Error::other("no"))).is_err());
    }

    #[test]
    fn a_tool_that_fails_is_quoted() {
        let error = done(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("out") && error.contains("err") && error.contains('3'), "{error}");
        assert!(installed("no-such-program", "a-package").unwrap_err().to_string().contains("a-package"));
    }
}

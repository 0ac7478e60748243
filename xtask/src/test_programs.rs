//! The workspace's test programs. Cargo builds them once and says where they are; this runs them one after the other and
//! says how long each took.
//!
//! There are two kinds. Programs of crates without sockets and clocks give the same answer at any speed: they run beside
//! others, with less priority. All others start servers or wait for threads: they have deadlines, and mostly wait.

use crate::process::{self, Count, Output};
use crate::turns::Turns;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

/// Packages whose tests wait for sockets, processes or threads, with deadlines.
const TIMED_PACKAGES: &[&str] = &["basalt", "basalt-bench", "basalt-client", "basalt-server"];

/// The tests of upgrades: they need the binary of a commit before.
const UPGRADE: (&str, &str) = ("basalt", "upgrade");
/// Programs of long tests that take turns, by package and program.
const PROGRAMS_IN_TURN: &[(&str, &str)] = &[UPGRADE, ("xtask", "dist"), ("basalt", "peers")];
/// Long tests of those programs that take turns among themselves: each time that a program runs, one of those in its list.
const IN_TURN: &[(&str, &str, &[&str])] =
    &[("basalt", "peers", &["cassandra_of_three_nodes", "voltdb_of_three_nodes", "the_adapters_own_tests"])];

/// Whether it is the turn of the tests that need the binary of a commit before.
pub fn upgrades(turns: Turns) -> bool {
    turns.chosen(PROGRAMS_IN_TURN).contains(&UPGRADE)
}

/// One test program.
#[derive(Debug, PartialEq, Eq)]
pub struct TestProgram {
    package: String,
    /// The crate's library or binary, or a file of its folder `tests`.
    target: String,
    is_file_of_tests: bool,
    /// Where it expects to run: its package's folder.
    folder: PathBuf,
    path: PathBuf,
}

impl TestProgram {
    /// What one line of cargo's messages says of a test program; none if it is about something else.
    fn of_message(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
        let path = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
        let package = package_name(message["package_id"].as_str()?)?;
        let target = message["target"]["name"].as_str()?.to_owned();
        let is_file_of_tests = message["target"]["kind"][0] == "test";
        Some(Self { package, target, is_file_of_tests, folder, path })
    }

    /// Whether its tests have deadlines.
    pub fn is_timed(&self) -> bool {
        TIMED_PACKAGES.contains(&self.package.as_str())
    }

    /// Whether it is a file of a folder `tests`, and not the tests within a library or binary.
    pub fn is_file_of_tests(&self) -> bool {
        self.is_file_of_tests
    }

    /// Whether it is its turn, if it is one of those that take turns.
    pub fn has_turn(&self, turns: Turns) -> bool {
        !turns.others(PROGRAMS_IN_TURN).contains(&(&self.package, &self.target))
    }

    /// Runs its tests, ignored ones too: there are none that the gate would not run. Those of `IN_TURN` run if it is their
    /// turn. `required`: the name and the value of the variable that says what tests must find on this machine.
    pub fn run(&self, required: (&str, &str), turns: Turns, output: Output) -> Result<Count, (Count, String)> {
        let begun = Instant::now();
        let mut command = self.command(&["--include-ignored"]);
        let suites = IN_TURN.iter().filter(|(package, target, _)| (*package, *target) == (&self.package, &self.target));
        for other in suites.flat_map(|(.., suites)| turns.of_rounds(PROGRAMS_IN_TURN.len()).others(suites)) {
            println!("{}: not the turn of {other}", self.target);
            command.args(["--skip", other]);
        }
        let result = process::run_there(command.env(required.0, required.1), output);
        println!("--- {} {}: {:.1} s", self.package, self.target, begun.elapsed().as_secs_f64());
        result
    }

    /// Runs its fuzzers alone, each for so many seconds of processor time.
    pub fn fuzz(&self, seconds: &str, output: Output) -> Result<Count, (Count, String)> {
        process::run_there(self.command(&["fuzz"]).env("BASALT_FUZZ_SECONDS", seconds), output)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("--quiet").args(arguments).current_dir(&self.folder);
        command
    }
}

/// The name in a package's id: `path+file:///folder/node#basalt-node@0.1.0`, or `path+file:///folder/xtask#0.1.0` where
/// the folder has that name.
fn package_name(id: &str) -> Option<String> {
    let (folder, rest) = id.rsplit_once('#')?;
    let name = rest.split_once('@').map_or_else(|| folder.rsplit('/').next(), |(name, _)| Some(name));
    name.map(str::to_owned)
}

/// The programs of the workspace, built once, when one of them is first asked for.
pub struct Programs<'a> {
    root: &'a Path,
    tests: OnceLock<Result<Vec<TestProgram>, String>>,
    basalt: OnceLock<Result<PathBuf, String>>,
}

impl<'a> Programs<'a> {
    /// Of the workspace in `root`.
    pub fn new(root: &'a Path) -> Self {
        Self { root, tests: OnceLock::new(), basalt: OnceLock::new() }
    }

    /// All test programs.
    pub fn tests(&self) -> Result<&[TestProgram], String> {
        let tests = self.tests.get_or_init(|| build(self.root));
        tests.as_ref().map(Vec::as_slice).map_err(Clone::clone)
    }

    /// The binary of this commit.
    pub fn basalt(&self) -> Result<&Path, String> {
        let basalt = self.basalt.get_or_init(|| match self.tests.get() {
            // Its own tests need it.
            Some(Ok(_)) => process::beside("basalt"),
            _ => process::basalt(self.root),
        });
        basalt.as_ref().map(PathBuf::as_path).map_err(Clone::clone)
    }
}

/// Builds all test programs of the workspace.
fn build(root: &Path) -> Result<Vec<TestProgram>, String> {
    // All packages at once, whatever is run of them: with fewer, cargo chooses other features for the libraries that they
    // share, and builds those again.
    let arguments =
        ["test", "--workspace", "--locked", "--quiet", "--no-run", "--message-format", "json-render-diagnostics"];
    let mut cargo = process::cargo(&arguments);
    cargo.current_dir(root).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", arguments.join(" "), output.status));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let programs: Vec<TestProgram> = said.lines().filter_map(TestProgram::of_message).collect();
    if programs.is_empty() { Err("cargo names no test program".to_owned()) } else { Ok(programs) }
}

#[cfg(test)]
mod tests {
    use super::{TestProgram, package_name};
    use serde_json::json;
    use std::path::PathBuf;

    #[test]
    fn names_of_packages() {
        for (id, name) in [
            ("path+file:///some/crates/node#basalt-node@0.1.0", Some("basalt-node")),
            ("path+file:///some/xtask#0.1.0", Some("xtask")),
            ("nothing", None),
        ] {
            assert_eq!(package_name(id).as_deref(), name, "{id}");
        }
    }

    #[test]
    fn programs_are_those_that_cargo_calls_tests() {
        let message = |reason: &str, is_test: bool, executable: Option<&str>| {
            json!({
                "reason": reason,
                "package_id": "path+file:///some/bin/basalt#0.1.0",
                "manifest_path": "/some/bin/basalt/Cargo.toml",
                "target": { "kind": ["test"], "name": "blocking" },
                "profile": { "test": is_test },
                "executable": executable,
            })
            .to_string()
        };
        let found = TestProgram::of_message(&message("compiler-artifact", true, Some("/some/target/blocking")));
        let expected = TestProgram {
            package: "basalt".to_owned(),
            target: "blocking".to_owned(),
            is_file_of_tests: true,
            folder: PathBuf::from("/some/bin/basalt"),
            path: PathBuf::from("/some/target/blocking"),
        };
        assert!(expected.is_timed());
        assert_eq!(found, Some(expected));
        for other in [
            message("build-finished", true, Some("/some/target/blocking")),
            message("compiler-artifact", false, Some("/some/target/basalt")),
            message("compiler-artifact", true, None),
            "no message".to_owned(),
        ] {
            assert_eq!(TestProgram::of_message(&other), None, "{other}");
        }
    }
}

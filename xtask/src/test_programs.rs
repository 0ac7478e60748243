//! The workspace's test programs. Cargo builds them and says where they are; this runs them one after the other and says how
//! long each took.
//!
//! There are two kinds. Programs of crates without sockets and clocks give the same answer at any speed: they run beside
//! others, with less priority. All others start servers or wait for threads: they have deadlines, and mostly wait.

use crate::process::{self, Count, Output};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Packages whose tests wait for sockets, processes or threads, with deadlines.
const TIMED_PACKAGES: &[&str] = &["basalt", "basalt-bench", "basalt-client", "basalt-server"];

/// One test program.
#[derive(Debug, PartialEq, Eq)]
pub struct TestProgram {
    package: String,
    /// The crate's library or binary, or a file of its folder `tests`.
    target: String,
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
        Some(Self { package, target: message["target"]["name"].as_str()?.to_owned(), folder, path })
    }

    /// Whether its tests have deadlines.
    pub fn is_timed(&self) -> bool {
        TIMED_PACKAGES.contains(&self.package.as_str())
    }

    /// Runs all its tests, ignored ones too: there are none that the gate would not run.
    fn run(&self, required: (&str, &str), output: Output) -> Result<Count, (Count, String)> {
        let mut command = Command::new(&self.path);
        command.args(["--quiet", "--include-ignored"]).env(required.0, required.1).current_dir(&self.folder);
        let begun = Instant::now();
        let result = process::run_there(&mut command, output);
        println!("--- {} {}: {:.1} s", self.package, self.target, begun.elapsed().as_secs_f64());
        result
    }
}

/// The name in a package's id: `path+file:///folder/node#basalt-node@0.1.0`, or `path+file:///folder/xtask#0.1.0` where
/// the folder has that name.
fn package_name(id: &str) -> Option<String> {
    let (folder, rest) = id.rsplit_once('#')?;
    let name = rest.split_once('@').map_or_else(|| folder.rsplit('/').next(), |(name, _)| Some(name));
    name.map(str::to_owned)
}

/// Builds all test programs of the workspace.
pub fn build(root: &Path) -> Result<Vec<TestProgram>, String> {
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

/// Runs `programs` in turn, all of them whatever fails. `required`: the name and the value of the variable that says what
/// tests must find on this machine.
pub fn run<'a>(
    programs: impl Iterator<Item = &'a TestProgram>,
    required: (&str, &str),
    output: Output,
) -> Result<Count, (Count, String)> {
    let results: Vec<_> = programs.map(|program| program.run(required, output)).collect();
    process::sum(results)
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
                "target": { "name": "blocking" },
                "profile": { "test": is_test },
                "executable": executable,
            })
            .to_string()
        };
        let found = TestProgram::of_message(&message("compiler-artifact", true, Some("/some/target/blocking")));
        let expected = TestProgram {
            package: "basalt".to_owned(),
            target: "blocking".to_owned(),
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

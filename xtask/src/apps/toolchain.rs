//! Languages: how the packages of an application are installed with the language's own package manager, and how its
//! program is run.

use crate::perf::program::output;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Longest time for one step of an installation.
const INSTALL_BOUND: Duration = Duration::from_secs(420);
/// The file that tells which packages a folder has.
const MARK: &str = "installed";

/// A language with its package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// pip.
    Python,
    /// npm.
    Node,
    /// Go's modules.
    Go,
    /// Maven.
    Java,
    /// Debian's packages.
    Ruby,
    /// Debian's packages.
    Php,
}

impl Toolchain {
    /// The folder of its programs below `xtask/apps`.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Go => "go",
            Self::Java => "java",
            Self::Ruby => "ruby",
            Self::Php => "php",
        }
    }

    /// How the names of its programs end.
    fn extension(self) -> &'static str {
        match self {
            Self::Python => "py",
            Self::Node => "js",
            Self::Go => "go",
            Self::Java => "java",
            Self::Ruby => "rb",
            Self::Php => "php",
        }
    }

    /// What a program is called in the folder of its application.
    fn program(self) -> String {
        let stem = if self == Self::Java { "Program" } else { "program" };
        format!("{stem}.{}", self.extension())
    }

    /// What its programs share.
    fn shared(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["trial.py", "suite.py"],
            Self::Node => &["trial.js"],
            Self::Go => &["trial.go"],
            Self::Java => &["Trial.java"],
            Self::Ruby => &["trial.rb"],
            Self::Php => &["trial.php"],
        }
    }

    /// Installs the packages of the application `name` in `folder`, unless they are there, and puts its program beside
    /// them. `programs` is the folder of the language's programs.
    pub fn install(self, name: &str, packages: &[&str], programs: &Path, folder: &Path) -> Result<(), String> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        self.copy_programs(name, programs, folder)?;
        let wanted = packages.join("\n");
        let mark = folder.join(MARK);
        if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
            return self.build(folder);
        }
        self.fetch(packages, folder)?;
        self.build(folder)?;
        std::fs::write(&mark, wanted).map_err(|error| format!("{}: {error}", mark.display()))
    }

    /// The program, and what programs of the language share.
    fn copy_programs(self, name: &str, programs: &Path, folder: &Path) -> Result<(), String> {
        let copy = |from: &str, to: &str| {
            let from = programs.join(from);
            std::fs::copy(&from, folder.join(to)).map(drop).map_err(|error| format!("{}: {error}", from.display()))
        };
        copy(&format!("{name}.{}", self.extension()), &self.program())?;
        self.shared().iter().try_for_each(|shared| copy(shared, shared))
    }

    fn fetch(self, packages: &[&str], folder: &Path) -> Result<(), String> {
        let run = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            output(command.args(arguments).args(packages).current_dir(folder), INSTALL_BOUND).map(drop)
        };
        match self {
            Self::Python => {
                output(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(folder), INSTALL_BOUND)?;
                let pip = folder.join("venv/bin/pip");
                run(&pip.to_string_lossy(), &["install", "--quiet", "--disable-pip-version-check"])
            }
            Self::Node => {
                run("npm", &["install", "--loglevel=error", "--no-save", "--no-audit", "--no-fund", "--prefix", "."])
            }
            Self::Go => {
                for file in ["go.mod", "go.sum"] {
                    let _ = std::fs::remove_file(folder.join(file));
                }
                output(Command::new("go").args(["mod", "init", "program"]).current_dir(folder), INSTALL_BOUND)?;
                run("go", &["get"])
            }
            Self::Java => {
                let pom = folder.join("pom.xml");
                std::fs::write(&pom, pom_of(packages)).map_err(|error| format!("{}: {error}", pom.display()))?;
                let _ = std::fs::remove_dir_all(folder.join("lib"));
                let copy = ["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"];
                output(Command::new("mvn").args(copy).current_dir(folder), INSTALL_BOUND).map(drop)
            }
            Self::Ruby | Self::Php => {
                let install = ["install", "-y", "-qq", "--no-install-recommends"];
                let mut command = Command::new("apt-get");
                // RUNLEVEL=1: no service that comes with them is started.
                command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
                output(command.args(install).args(debian_names(packages)), INSTALL_BOUND).map(drop)
            }
        }
    }

    fn build(self, folder: &Path) -> Result<(), String> {
        let run = |program: &str, arguments: &[&str]| {
            output(Command::new(program).args(arguments).current_dir(folder), INSTALL_BOUND).map(drop)
        };
        match self {
            Self::Go => run("go", &["build", "-o", "program", "program.go", "trial.go"]),
            Self::Java => {
                run("javac", &["-nowarn", "-parameters", "-cp", "lib/*", "-d", ".", "Trial.java", "Program.java"])
            }
            Self::Python | Self::Node | Self::Ruby | Self::Php => Ok(()),
        }
    }

    /// What runs the program of `folder`.
    pub fn command(self, folder: &Path) -> Command {
        let words: &[&str] = match self {
            Self::Python => &["venv/bin/python", "program.py"],
            Self::Node => &["node", "program.js"],
            Self::Go => &["./program"],
            Self::Java => &["java", "-cp", ".:lib/*", "Program"],
            Self::Ruby => &["ruby", "program.rb"],
            Self::Php => &["php", "program.php"],
        };
        let mut command =
            if words[0].contains('/') { Command::new(folder.join(words[0])) } else { Command::new(words[0]) };
        command.args(&words[1..]).current_dir(folder);
        command
    }
}

/// Debian has one version of a package; the page shows it, apt-get is not asked for it.
fn debian_names<'a>(packages: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    packages.iter().map(|package| package.split('=').next().unwrap_or(package))
}

/// A project that depends on `group:artifact:version`, for Maven. One whose artifact ends with `-dependencies` tells the
/// versions of others, which then are written without.
fn pom_of(packages: &[&str]) -> String {
    let (mut managed, mut wanted) = (String::new(), String::new());
    for package in packages {
        let mut parts = package.split(':');
        let (group, artifact) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let mut dependency = format!("<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>");
        if let Some(version) = parts.next() {
            let _ = write!(dependency, "<version>{version}</version>");
        }
        if artifact.ends_with("-dependencies") {
            let _ = writeln!(managed, "{dependency}<type>pom</type><scope>import</scope></dependency>");
        } else {
            let _ = writeln!(wanted, "{dependency}</dependency>");
        }
    }
    format!(
        "<project><modelVersion>4.0.0</modelVersion>\n\
         <groupId>basalt</groupId><artifactId>program</artifactId><version>1</version>\n\
         <dependencyManagement><dependencies>\n{managed}</dependencies></dependencyManagement>\n\
         <dependencies>\n{wanted}</dependencies></project>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::{debian_names, pom_of};

    #[test]
    fn a_project_names_its_packages_and_imports_versions() {
        let pom = pom_of(&["a.b:c:1.2", "d:e", "f:g-dependencies:3"]);
        assert!(pom.contains("<groupId>a.b</groupId><artifactId>c</artifactId><version>1.2</version></dependency>"));
        assert!(pom.contains("<groupId>d</groupId><artifactId>e</artifactId></dependency>"));
        let imported =
            "<artifactId>g-dependencies</artifactId><version>3</version><type>pom</type><scope>import</scope>";
        assert!(pom.contains(imported), "{pom}");
    }

    #[test]
    fn debian_is_asked_for_names() {
        assert_eq!(debian_names(&["ruby", "ruby-sidekiq=6.4.1"]).collect::<Vec<_>>(), ["ruby", "ruby-sidekiq"]);
    }
}

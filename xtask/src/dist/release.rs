//! What is packed: the program, its version, and what goes with it.

use super::architecture::Architecture;
use super::elf::Elf;
use super::man::man;
use super::tar::gzip;
use super::tree::Tree;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The license of all of it, and where Debian has its text.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Basalt

Files: *
Copyright: the Basalt authors
License: Apache-2.0
 On Debian systems, the full text of the license is in
 /usr/share/common-licenses/Apache-2.0. The licenses of the libraries in the
 program are in /usr/share/doc/basalt/basalt.cdx.json.
";

/// A program, ready to be packed.
#[derive(Debug)]
pub struct Release {
    pub version: String,
    /// The time that all files have, in seconds since the epoch: that of the last commit.
    pub at_s: u64,
    /// What the program says of itself.
    pub elf: Elf,
    /// The newest version of glibc that it asks for.
    pub glibc: String,
    /// Without symbols of debuggers.
    pub program: Vec<u8>,
    /// Those, for `gdb --symbols`.
    pub symbols: Vec<u8>,
    /// How much files are compressed: 1 is the fastest, 9 the smallest.
    pub compression: u32,
}

impl Release {
    /// Takes a program apart.
    pub fn of(root: &Path, program: &Path, version: &str, folder: &Path, compression: u32) -> Result<Self, String> {
        let elf = Elf::read(&read(program)?).map_err(|why| format!("{}: {why}", program.display()))?;
        let glibc = elf.glibc().ok_or("the program asks for no version of glibc")?;
        let (stripped, symbols) = (folder.join("basalt"), folder.join("basalt.debug"));
        let shown = |path: &Path| path.display().to_string();
        objcopy(&["--only-keep-debug", &shown(program), &shown(&symbols)])?;
        let link = format!("--add-gnu-debuglink={}", shown(&symbols));
        objcopy(&["--strip-all", &link, &shown(program), &shown(&stripped)])?;
        let (program, symbols) = (read(&stripped)?, read(&symbols)?);
        let at_s = tool("git", &["-C", &shown(root), "log", "-1", "--format=%ct"])?.trim().parse().unwrap_or_default();
        Ok(Self { version: version.to_owned(), at_s, elf, glibc, program, symbols, compression })
    }

    /// The processor that it is for.
    pub fn architecture(&self) -> Architecture {
        self.elf.architecture
    }

    /// All files of a package. `program` is asked for its completions, its settings and its help.
    pub fn files(&self, root: &Path, program: &Path, sbom: &[u8]) -> Result<Tree, String> {
        let mut runs = self.architecture().emulator();
        runs.push(program.display().to_string());
        let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
        let ask = |words: &[&str]| tool(runs[0], &[&runs[1..], words].concat());
        let mut files = Tree::default();
        files.file("usr/bin/basalt", 0o755, self.program.clone());
        files.config("etc/basalt/basalt.toml", 0o640, ask(&["config", "print"])?);
        files.file("usr/lib/systemd/system/basalt.service", 0o644, read(&root.join("deploy/basalt.service"))?);
        files.file("usr/share/man/man1/basalt.1.gz", 0o644, gzip(man(&ask, &self.version, self.at_s)?.as_bytes(), 9)?);
        for (shell, path) in [
            ("bash", "usr/share/bash-completion/completions/basalt"),
            ("zsh", "usr/share/zsh/vendor-completions/_basalt"),
            ("fish", "usr/share/fish/vendor_completions.d/basalt.fish"),
        ] {
            files.file(path, 0o644, ask(&["completions", shell])?);
        }
        let doc = "usr/share/doc/basalt";
        files.file(&format!("{doc}/copyright"), 0o644, COPYRIGHT);
        files.file(&format!("{doc}/basalt.cdx.json"), 0o644, sbom);
        files.file(&format!("{doc}/changelog.gz"), 0o644, gzip(&read(&root.join("docs/CHANGELOG.md"))?, 9)?);
        for page in ["OPERATING.md", "HARDENING.md", "alerts.yml"] {
            files.file(&format!("{doc}/{page}"), 0o644, read(&root.join("docs").join(page))?);
        }
        Ok(files)
    }
}

/// Runs the objcopy that comes with Rust, which knows the programs of all processors.
fn objcopy(words: &[&str]) -> Result<String, String> {
    let rust = PathBuf::from(tool("rustc", &["--print", "sysroot"])?.trim());
    let found = std::fs::read_dir(rust.join("lib/rustlib")).map_err(|error| error.to_string())?;
    let own = |entry: std::fs::DirEntry| entry.path().join("bin/rust-objcopy");
    let program = found.flatten().map(own).find(|path| path.exists()).ok_or("Rust has no rust-objcopy: 1.82 has")?;
    let mut command = Command::new(&program);
    // It is linked with Rust's LLVM, and does not say where that is.
    command.args(words).env("LD_LIBRARY_PATH", rust.join("lib"));
    finished(&mut command)
}

/// Runs a program to its end and answers what it has printed.
pub fn tool(program: &str, words: &[&str]) -> Result<String, String> {
    finished(Command::new(program).args(words))
}

fn finished(command: &mut Command) -> Result<String, String> {
    let said = |command: &Command| format!("{command:?}").replace('"', "");
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{}: {error}", said(command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", said(command), String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What a program is loaded with, its loader included: each by the path under which its loader looks for it, with its bytes.
pub fn libraries(program: &Elf) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let architecture = program.architecture;
    let folders = architecture.library_folders();
    let found = |name: &str| {
        let path = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
        path.ok_or_else(|| match architecture == Architecture::of_machine() {
            true => format!("no library {name}"),
            false => format!(
                "no library {name} for {}: Debian has libc6-{}-cross",
                architecture.debian(),
                architecture.debian()
            ),
        })
    };
    let mut libraries = BTreeMap::new();
    let mut missing = program.needed.clone();
    if let Some(loader) = &program.interpreter {
        let name = loader.rsplit('/').next().unwrap_or_default();
        libraries.insert(loader.clone(), read(&found(name)?)?);
    }
    while let Some(name) = missing.pop() {
        let path = format!("/lib/{}-linux-gnu/{name}", architecture.rpm());
        let is_loader = program.interpreter.as_ref().is_some_and(|loader| loader.ends_with(&format!("/{name}")));
        if !is_loader && !libraries.contains_key(&path) {
            let bytes = read(&found(&name)?)?;
            missing.extend(Elf::read(&bytes).map_err(|why| format!("{name}: {why}"))?.needed);
            libraries.insert(path, bytes);
        }
    }
    Ok(libraries)
}

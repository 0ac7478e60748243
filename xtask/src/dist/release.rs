//! What is packed: the program, its version, and what goes with it.

use super::man::man;
use super::tar::gzip;
use super::tree::Tree;
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
    /// The newest version of glibc that the program asks for.
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
        let (stripped, symbols) = (folder.join("basalt"), folder.join("basalt.debug"));
        let shown = |path: &Path| path.display().to_string();
        tool("objcopy", &["--only-keep-debug", &shown(program), &shown(&symbols)])?;
        tool(
            "objcopy",
            &["--strip-all", &format!("--add-gnu-debuglink={}", shown(&symbols)), &shown(program), &shown(&stripped)],
        )?;
        let (program, symbols) = (read(&stripped)?, read(&symbols)?);
        let glibc = newest_glibc(&program).ok_or("the program asks for no version of glibc")?;
        let at_s = tool("git", &["-C", &shown(root), "log", "-1", "--format=%ct"])?.trim().parse().unwrap_or_default();
        Ok(Self { version: version.to_owned(), at_s, glibc, program, symbols, compression })
    }

    /// The architecture of this machine, as Debian and images call it.
    pub fn debian_architecture(&self) -> &'static str {
        if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
    }

    /// All files of a package. `program` is asked for its completions, its settings and its help.
    pub fn files(&self, root: &Path, program: &Path, sbom: &[u8]) -> Result<Tree, String> {
        let ask = |words: &[&str]| tool(&program.display().to_string(), words);
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

/// The newest among the versions `GLIBC_2.N` that are named in a program.
fn newest_glibc(program: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"GLIBC_2.";
    let minor = |at: usize| {
        let digits: String =
            program[at..].iter().map_while(|byte| byte.is_ascii_digit().then_some(char::from(*byte))).collect();
        digits.parse::<u32>().ok()
    };
    let places = program.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let newest = places.filter_map(|(at, _)| minor(at + MARK.len())).max()?;
    Some(format!("2.{newest}"))
}

/// Runs a program to its end and answers what it has printed.
pub fn tool(program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The libraries that a program is loaded with, by the path under which it finds each: those of this machine.
pub fn libraries(program: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = tool("ldd", &[&program.display().to_string()])?;
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(listed.lines().filter_map(path).collect())
}

#[cfg(test)]
mod tests {
    use super::newest_glibc;

    #[test]
    fn the_newest_version_is_found() {
        let program = b"x\0GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.17\0GLIBC_2.\0GLIBC_PRIVATE";
        assert_eq!(newest_glibc(program).as_deref(), Some("2.34"));
        assert_eq!(newest_glibc(b"static"), None);
    }
}

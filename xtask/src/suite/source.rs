//! Gets the source of Debian's redis package, which holds the suite, without changing the machine's configuration.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The suite is that of this release; a later one tests commands that Basalt does not claim.
const RELEASE: &str = "7.0.";

/// Units of which only the first server's tests are run: they ask for one that the suite starts itself, and do well with another. The
/// servers behind it have files of users. The copies are called `first-` and the unit's name.
const FIRST_SERVER_ONLY: &[&str] = &["acl", "acl-v2"];

/// The unpacked source below `folder`, fetched if it is not there yet.
pub fn fetch(folder: &Path) -> Result<PathBuf, String> {
    let suite = unpacked_or_fetched(folder)?;
    for unit in FIRST_SERVER_ONLY {
        let units = suite.join("tests/unit");
        let path = units.join(format!("{unit}.tcl"));
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        std::fs::write(units.join(format!("first-{unit}.tcl")), first_server(&text))
            .map_err(|error| error.to_string())?;
    }
    Ok(suite)
}

/// The tests of a unit's first server, for a server that runs already.
fn first_server(unit: &str) -> String {
    let end = unit.find("\n}\n").map_or(unit.len(), |at| at + 3);
    unit[..end].replacen(" external:skip", "", 1)
}

fn unpacked_or_fetched(folder: &Path) -> Result<PathBuf, String> {
    if let Some(suite) = unpacked(folder) {
        return Ok(suite);
    }
    std::fs::create_dir_all(folder.join("sources")).map_err(|error| format!("{}: {error}", folder.display()))?;
    download(folder).map_err(|why| format!("the source of Debian's redis cannot be had on this machine: {why}"))?;
    let archive = entries(folder)
        .into_iter()
        .find(|path| name(path).starts_with(&format!("redis_{RELEASE}")) && name(path).ends_with(".orig.tar.gz"))
        .ok_or_else(|| format!("the suite is that of Redis {RELEASE}x, and this Debian's source is another"))?;
    quiet(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder))?;
    unpacked(folder).ok_or_else(|| format!("{} holds no suite", archive.display()))
}

/// Where the current process fetched and unpacked it before.
fn unpacked(folder: &Path) -> Option<PathBuf> {
    entries(folder)
        .into_iter()
        .find(|path| name(path).starts_with(&format!("redis-{RELEASE}")) && path.join("tests/test_helper.tcl").exists())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// apt-get with lists, cache and sources of our own: the machine's sources, but for source packages.
fn download(folder: &Path) -> Result<(), String> {
    let sources = source_entries();
    if sources.is_empty() {
        return Err("apt has no Debian sources here".to_owned());
    }
    for (file, text) in sources {
        std::fs::write(folder.join("sources").join(file), text).map_err(|error| error.to_string())?;
    }
    for part in ["lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(folder.join(part)).map_err(|error| error.to_string())?;
    }
    let settings = [
        "Dir::Etc::SourceList=/dev/null".to_owned(),
        format!("Dir::Etc::SourceParts={}", folder.join("sources").display()),
        format!("Dir::State::Lists={}", folder.join("lists").display()),
        format!("Dir::Cache={}", folder.join("cache").display()),
    ];
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        for setting in &settings {
            command.args(["-o", setting]);
        }
        quiet(command.args(arguments).current_dir(folder))
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", "redis"])
}

/// The machine's Debian sources with `deb` made `deb-src`, in both of apt's formats.
fn source_entries() -> Vec<(String, String)> {
    let mut paths = entries(Path::new("/etc/apt/sources.list.d"));
    paths.push(PathBuf::from("/etc/apt/sources.list"));
    let mut found = Vec::new();
    for path in paths {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        // Only Debian's own: others have no redis, and may need keys or be slow.
        if !text.contains("debian") {
            continue;
        }
        let file = name(&path);
        if file.ends_with(".sources") {
            found.push((file, text.replace("Types: deb\n", "Types: deb-src\n").replace("deb deb-src", "deb-src")));
        } else if file.ends_with(".list") {
            let lines = text.lines().filter_map(|line| line.strip_prefix("deb "));
            found.push((file, lines.map(|rest| format!("deb-src {rest}\n")).collect()));
        }
    }
    found
}

fn quiet(command: &mut Command) -> Result<(), String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{shown}: {} {said}", output.status))
}

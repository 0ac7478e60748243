//! The packages, as people use them: dpkg and rpm install, upgrade, remove and purge them in a copy of a system that goes away; systemd
//! runs the service there; runc runs the image with a root that cannot be written, as its own user.
//!
//! In the gate they are of the program that tests use, and the system is this one. `cargo xtask dist --test` has the tests try what it
//! has made in older systems: it sets `BASALT_DIST_MADE`, the folder of its packages, and `BASALT_DIST_ROOT`, a system that debootstrap
//! has made. What the gate does not require (systemd, a program for another processor) is tried there alone.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod emulated;
mod image;
mod service;
mod system;

use flate2::read::GzDecoder;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// Packages.
struct Made {
    folder: PathBuf,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The processor that tests run on, as Debian calls it.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
/// A folder of packages to try, in place of those of the program that is built for tests.
const MADE: &str = "BASALT_DIST_MADE";

static FIRST: LazyLock<Made> = LazyLock::new(Made::new);

impl Made {
    fn new() -> Self {
        if let Some(folder) = std::env::var_os(MADE) {
            return Self { folder: folder.into() };
        }
        let xtask = Path::new(env!("CARGO_BIN_EXE_xtask"));
        // What is static is never dropped: it is made anew each time in a folder that stays.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dist");
        let program = xtask.with_file_name("basalt");
        if !program.exists() {
            // The gate has built it with all other programs.
            succeed(Command::new(env!("CARGO")).args(["build", "--package", "basalt", "--locked", "--quiet"]));
        }
        let mut dist = Command::new(xtask);
        dist.arg("dist").arg("--program").arg(&program).arg("--out").arg(&folder);
        succeed(dist.args(["--version", VERSION, "--compression", "1"]));
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(ARCHITECTURE).join(name)
    }

    fn deb(&self) -> PathBuf {
        self.path(&format!("basalt_{VERSION}_{ARCHITECTURE}.deb"))
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }
}

fn succeed(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{}", said(&output.stdout), said(&output.stderr));
    output
}

/// Runs a script in mounts of its own, which end with it.
fn in_namespace(script: &str, variables: &[(&str, &str)]) -> Output {
    let mut sh = Command::new("unshare");
    sh.args(["--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "bash", "-eu", "-c", script]);
    succeed(sh.envs(variables.iter().copied()))
}

fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn sha256(bytes: &[u8]) -> String {
    hmac_sha256::Hash::hash(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut unpacked).unwrap();
    unpacked
}

#[test]
fn sums_are_right_and_the_list_of_libraries_is_whole() {
    let made = &*FIRST;
    succeed(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(made.path("")));
    let list = made.json("basalt.cdx.json");
    assert_eq!(list["metadata"]["component"]["hashes"][0]["content"], sha256(&fs::read(made.path("basalt")).unwrap()));
    let components = list["components"].as_array().unwrap();
    let named = |name: &str| components.iter().find(|component| component["name"] == name);
    assert!(named("rustls").is_some_and(|rustls| rustls["hashes"][0]["content"].is_string()));
    assert!(
        named("shuttle").is_none() && named("windows-sys").is_none(),
        "neither what tests need nor what other systems need"
    );
    let references: Vec<&Value> = components.iter().map(|component| &component["bom-ref"]).collect();
    for dependency in list["dependencies"].as_array().unwrap() {
        for needed in dependency["dependsOn"].as_array().unwrap() {
            assert!(references.contains(&needed), "{needed} is needed and not listed");
        }
    }
}

#[test]
fn a_debian_package_holds_what_it_should() {
    let deb = FIRST.deb();
    let field = |name: &str| {
        let output = succeed(Command::new("dpkg-deb").arg("--field").arg(&deb).arg(name));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    assert_eq!((field("Package"), field("Version")), ("basalt".to_owned(), VERSION.to_owned()));
    assert!(field("Depends").starts_with("libc6 (>= 2."), "{}", field("Depends"));
    let listed = String::from_utf8(succeed(Command::new("dpkg-deb").arg("--contents").arg(&deb)).stdout).unwrap();
    for (mode, path) in [
        ("-rwxr-xr-x root/root", "./usr/bin/basalt"),
        ("-rw-r----- root/root", "./etc/basalt/basalt.toml"),
        ("-rw-r--r-- root/root", "./usr/lib/systemd/system/basalt.service"),
        ("-rw-r--r-- root/root", "./usr/share/man/man1/basalt.1.gz"),
        ("-rw-r--r-- root/root", "./usr/share/bash-completion/completions/basalt"),
        ("-rw-r--r-- root/root", "./usr/share/zsh/vendor-completions/_basalt"),
        ("-rw-r--r-- root/root", "./usr/share/fish/vendor_completions.d/basalt.fish"),
        ("-rw-r--r-- root/root", "./usr/share/doc/basalt/HARDENING.md"),
        ("-rw-r--r-- root/root", "./usr/share/doc/basalt/basalt.cdx.json"),
    ] {
        // dpkg-deb shows numbers of users that have no name.
        let (mode, numbers) = (mode.to_owned(), mode.replace("root/root", "0/0"));
        let line = listed.lines().find(|line| line.ends_with(&format!(" {path}")));
        assert!(line.is_some_and(|line| line.starts_with(&mode) || line.starts_with(&numbers)), "{path} in\n{listed}");
    }
}

fn rpm_name() -> String {
    format!("basalt-{VERSION}-1.{}.rpm", std::env::consts::ARCH)
}

/// A header of RPM: the values of its tags as bytes, and its length.
fn header(bytes: &[u8]) -> (impl Fn(u32) -> Vec<u8>, usize) {
    assert_eq!(bytes[..4], [0x8e, 0xad, 0xe8, 1]);
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (entries, store) = (number(8) as usize, number(12) as usize);
    let length = 16 + 16 * entries + store;
    let bytes = bytes[..length].to_vec();
    let value = move |tag: u32| {
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let of_entry = |n: usize| 16 + 16 * n;
        let found = (0..entries).map(of_entry).find(|at| number(*at) == tag).unwrap_or_else(|| panic!("no tag {tag}"));
        let begins = of_entry(entries) + number(found + 8) as usize;
        let after =
            (0..entries).map(|n| of_entry(entries) + number(of_entry(n) + 8) as usize).filter(|at| *at > begins);
        bytes[begins..after.min().unwrap_or(bytes.len())].to_vec()
    };
    (value, length)
}

#[test]
fn the_sums_and_files_of_an_rpm_are_right() {
    let package = fs::read(FIRST.path(&rpm_name())).unwrap();
    assert_eq!(package[..4], [0xed, 0xab, 0xee, 0xdb]);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim_end_matches('\0').to_owned();
    let (sums, length) = header(&package[96..]);
    let start = (96 + length).next_multiple_of(8);
    let (values, length) = header(&package[start..]);
    let payload = &package[start + length..];
    assert_eq!(text(sums(273)), sha256(&package[start..start + length]));
    assert_eq!(text(values(5092)), sha256(payload));
    assert_eq!(sums(1000), ((length + payload.len()) as u32).to_be_bytes());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("payload"), unpacked(payload)).unwrap();
    succeed(Command::new("python3").args(["-c", UNPACK]).current_dir(folder.path()));
    assert!(fs::read(folder.path().join("usr/bin/basalt")).unwrap() == fs::read(FIRST.path("basalt")).unwrap());
    assert!(folder.path().join("usr/lib/systemd/system/basalt.service").exists());
    let names = text(values(1117));
    assert!(names.contains("basalt.toml\0") && names.split('\0').count() > 10, "{names}");
}

/// Unpacks an archive of cpio in its form `newc`.
const UNPACK: &str = r#"
import os
data = open("payload", "rb").read()
at = 0
up = lambda n: (n + 3) // 4 * 4
while True:
    assert data[at:at + 6] == b"070701", at
    fields = [int(data[at + 6 + 8 * n:at + 14 + 8 * n], 16) for n in range(13)]
    mode, size, name_size = fields[1], fields[6], fields[11]
    name = data[at + 110:at + 110 + name_size - 1].decode()
    at = up(at + 110 + name_size)
    if name == "TRAILER!!!":
        break
    if mode & 0o170000 == 0o040000:
        os.makedirs(name, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(name), exist_ok=True)
        open(name, "wb").write(data[at:at + size])
    at = up(at + size)
"#;

/// Whether a program is installed. What the gate requires must be.
fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap().status.success();
    assert!(found || !is_required(program), "BASALT_REQUIRE lists {program}");
    if !found {
        println!("SKIPPED ({program}): it is not installed");
    }
    found
}

fn is_required(what: &str) -> bool {
    std::env::var("BASALT_REQUIRE").unwrap_or_default().split(',').any(|word| word == what)
}

/// Whether what only some machines can do is to be tried: where `cargo xtask dist --test` requires it.
fn is_asked(what: &str) -> bool {
    if !is_required(what) {
        println!("SKIPPED ({what}): `cargo xtask dist --test` tries it");
    }
    is_required(what)
}

/// In shells: waits until a command succeeds that needs the process of the first argument; if that ends, the file of the second says why.
const SERVES: &str = r#"
serves() {
    process=$1 log=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        kill -0 "$process" || { cat "$log"; exit 1; }
        sleep 0.1
    done
}
"#;

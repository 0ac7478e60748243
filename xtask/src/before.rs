//! The binary of a commit before, for tests that run two versions: `target/before/basalt`.
//!
//! Its sources are unpacked below the target folder, and it is built into the same target folder: the libraries that both
//! commits use are there already, so only the workspace's own crates are built.

use crate::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds the binary of `commit`, or of the commit before this one. Nothing is built if it is there.
pub fn build(root: &Path, commit: Option<&str>) -> Result<PathBuf, String> {
    let commit = resolved(root, commit.unwrap_or("HEAD~1"))?;
    let folder = root.join("target").join("before");
    let (binary, built, source) = (folder.join("basalt"), folder.join("commit"), folder.join("source"));
    if binary.exists() && fs::read_to_string(&built).is_ok_and(|known| known == commit) {
        return Ok(binary);
    }
    let named = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    if source.exists() {
        fs::remove_dir_all(&source).map_err(|e| named(&source, e))?;
    }
    fs::create_dir_all(&source).map_err(|e| named(&source, e))?;
    unpack(root, &commit, &source)?;
    let mut cargo = process::cargo(&["build", "-p", "basalt", "--locked", "--quiet", "--target-dir"]);
    // Without debug information the crates of that commit have names of their own in the target folder. With equal names
    // cargo takes them for this commit's, and the tests try the program of before. Dependencies are shared: their
    // profile says the same either way. Nothing measures that binary: it is built quickly rather than made quick.
    cargo.arg(root.join("target")).current_dir(&source);
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    let status = cargo.status().map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err(format!("the binary of {commit} cannot be built"));
    }
    // Cargo puts the binaries of both commits in one place: the next build of this one replaces it.
    fs::copy(root.join("target/debug/basalt"), &binary).map_err(|e| named(&binary, e))?;
    fs::write(&built, &commit).map_err(|e| named(&built, e))?;
    Ok(binary)
}

/// The whole name of a commit.
pub fn resolved(root: &Path, commit: &str) -> Result<String, String> {
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "--verify", "--quiet", commit]).current_dir(root).output();
    let output = output.map_err(|e| format!("git: {e}"))?;
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !id.is_empty() { Ok(id) } else { Err(format!("there is no commit {commit}")) }
}

/// Writes the commit's files, all of them as of now: cargo goes by their times.
pub fn unpack(root: &Path, commit: &str, source: &Path) -> Result<(), String> {
    let mut git = Command::new("git");
    let mut archive = git.args(["archive", commit]).current_dir(root).stdout(Stdio::piped()).spawn();
    let archive = archive.as_mut().map_err(|e| format!("git: {e}"))?;
    let tar = archive.stdout.take().ok_or("git archive has no output")?;
    let unpacked = Command::new("tar").args(["-x", "-m", "-C"]).arg(source).stdin(tar).status();
    let archived = archive.wait().map_err(|e| format!("git: {e}"))?;
    if unpacked.is_ok_and(|status| status.success()) && archived.success() {
        return Ok(());
    }
    Err(format!("the files of {commit} cannot be unpacked"))
}

//! Tells a release build which commit it is of, for reports. Other builds are not asked for figures, so they are not made
//! again with every commit.

use std::process::Command;

const VARIABLE: &str = "BASALT_COMMIT";

fn main() {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    // A build without the history may name its commit.
    if std::env::var_os(VARIABLE).is_some() || std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    for path in ["../../.git/logs/HEAD", "../../Cargo.lock", "../../crates", "src"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "../../crates", "."]);
    let more = if changed.is_none_or(|changed| changed.is_empty()) { "" } else { ", and changes" };
    println!("cargo:rustc-env={VARIABLE}={commit}{more}");
}

/// What git answers; none where there is no git, or no history.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

//! `cargo xtask dist --test`: what was made is tried in old systems, which debootstrap makes of Debian's packages. The tests are those of
//! `xtask/tests/dist`; here they also boot systemd, and run programs for other processors.

use super::architecture::Architecture;
use super::release::tool;
use crate::process;
use std::path::{Path, PathBuf};

/// Releases of Debian: the oldest that is still served, and a later one. Their systemd is 247 and 252.
const SUITES: [&str; 2] = ["bullseye", "bookworm"];
/// What a small system lacks to be booted.
const BOOTS: &str = "--include=systemd,systemd-sysv,dbus";
/// Tests that need only what was made; those of a system are run once a system.
const OF_A_SYSTEM: [&str; 2] = ["dpkg", "systemd"];

/// Tries the packages in `made`, which has a folder for each processor.
pub fn run(root: &Path, made: &Path) -> Result<(), String> {
    for target in Architecture::ALL.into_iter().filter(|target| made.join(target.debian()).exists()) {
        if target == Architecture::of_machine() {
            tests(root, made, "rpm,runc", &[], None)?;
            for suite in SUITES {
                let system = system(root, target, suite)?;
                tests(root, made, "systemd", &OF_A_SYSTEM, Some(("BASALT_DIST_ROOT", &system)))?;
            }
        } else {
            let system = system(root, target, SUITES[0])?;
            tests(root, made, "emulated", &["processor"], Some(("BASALT_DIST_EMULATED_ROOT", &system)))?;
        }
    }
    Ok(())
}

/// Runs the tests that have one of `names` in their names, or all.
fn tests(
    root: &Path,
    made: &Path,
    required: &str,
    names: &[&str],
    system: Option<(&str, &Path)>,
) -> Result<(), String> {
    let mut cargo = process::cargo(&["test", "--package", "xtask", "--test", "dist", "--locked", "--quiet", "--"]);
    cargo.args(names).arg("--nocapture").env("BASALT_DIST_MADE", made).env("BASALT_REQUIRE", required);
    cargo.envs(system);
    let count = process::run(root, &mut cargo).map_err(|(_, why)| why)?;
    if count.passed == 0 { Err("no test has run".to_owned()) } else { Ok(()) }
}

/// The folder of a system, which is made once.
fn system(root: &Path, architecture: Architecture, suite: &str) -> Result<PathBuf, String> {
    let name = format!("{}-{suite}", architecture.debian());
    let folders = root.join("target/roots");
    let (folder, in_the_making) = (folders.join(&name), folders.join(format!("{name}.part")));
    if !folder.exists() {
        println!("debootstrap makes {}", folder.display());
        // What a run before has left half-made.
        let _ = std::fs::remove_dir_all(&in_the_making);
        std::fs::create_dir_all(&folders).map_err(|error| format!("{}: {error}", folders.display()))?;
        let of = format!("--arch={}", architecture.debian());
        // Programs for another processor cannot finish what debootstrap begins; their libraries are there by then.
        let how = if architecture == Architecture::of_machine() { BOOTS } else { "--foreign" };
        tool("debootstrap", &["--variant=minbase", &of, how, suite, &in_the_making.display().to_string()])?;
        std::fs::rename(&in_the_making, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Ok(folder)
}

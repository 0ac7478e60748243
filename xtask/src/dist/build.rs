//! How the program is built for an old glibc, and for other processors: Rust compiles, and zig is the C compiler and the linker. zig
//! brings the symbols of every version of glibc. docs/adr/0027.

use super::architecture::Architecture;
use super::release::tool;
use crate::process;
use std::path::{Path, PathBuf};

/// The profile of what is packed: as a release, small, with lines for debuggers.
const PROFILE: &str = "dist";
/// The minor version of the oldest glibc that the program is for: 2.17, which is of 2012. Rust supports none that is older.
pub const GLIBC_MINOR_MAX: u32 = 17;
/// What is fetched from the registry of Python packages, by version.
const TOOLS: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];
/// The allocator is built for pages of up to 2^16 bytes on these processors: kernels have pages of 4, 16 or 64 KiB there, and it ends the
/// program where pages are larger than it was built for.
const ARM_PAGE_BITS: &str = "16";

/// The program for a processor.
pub fn built(root: &Path, architecture: Architecture) -> Result<PathBuf, String> {
    let target = architecture.target();
    let zig = zig(root)?;
    tool("rustup", &["target", "add", &target])?;
    let of_glibc = format!("{target}.2.{GLIBC_MINOR_MAX}");
    let mut cargo = process::cargo(&["zigbuild", "--profile", PROFILE, "--package", "basalt", "--bin", "basalt"]);
    cargo.args(["--locked", "--target", &of_glibc]);
    // There cargo finds `cargo-zigbuild`, and this one zig.
    let path = std::env::var("PATH").unwrap_or_default();
    cargo.env("PATH", format!("{}:{path}", zig.display()));
    if architecture == Architecture::Arm64 {
        cargo.env("JEMALLOC_SYS_WITH_LG_PAGE", ARM_PAGE_BITS);
    }
    process::build(root, &mut cargo)?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(folder.join(target).join(PROFILE).join("basalt"))
}

/// The folder with zig and what calls it for cargo.
fn zig(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/zig");
    let (programs, known) = (folder.join("bin"), folder.join("tools"));
    let wanted = TOOLS.join(" ");
    if std::fs::read_to_string(&known).is_ok_and(|known| known == wanted) {
        return Ok(programs);
    }
    tool("python3", &["-m", "venv", "--clear", &folder.display().to_string()])?;
    let pip = programs.join("pip").display().to_string();
    tool(&pip, &[&["install", "--quiet", "--disable-pip-version-check"][..], &TOOLS].concat())?;
    std::fs::write(&known, wanted).map_err(|error| format!("{}: {error}", known.display()))?;
    Ok(programs)
}

//! A package for Debian and what comes from it: an `ar` archive of the version of the format, what dpkg is told, and the files.

use super::release::Release;
use super::tar::{gzip, tar};
use super::texts::{DESCRIPTION, MAINTAINER, SUMMARY};
use super::tree::Tree;
use std::fmt::Write as _;

const AFTER_INSTALL: &str = include_str!("scripts/deb-postinst");
const BEFORE_REMOVAL: &str = include_str!("scripts/deb-prerm");
const AFTER_REMOVAL: &str = include_str!("scripts/deb-postrm");

/// The package of these files.
pub fn deb(release: &Release, files: &Tree) -> Result<Vec<u8>, String> {
    let mut control = Tree::default();
    control.file("control", 0o644, description(release, files));
    control.file("conffiles", 0o644, config_files(files));
    for (name, script) in [("postinst", AFTER_INSTALL), ("prerm", BEFORE_REMOVAL), ("postrm", AFTER_REMOVAL)] {
        control.file(name, 0o755, script);
    }
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&tar(&control, "./", release.at_s)?, 9)?),
        ("data.tar.gz", gzip(&tar(files, "./", release.at_s)?, release.compression)?),
    ] {
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", release.at_s, 0, 0, "100644", bytes.len());
        archive.extend(header.as_bytes());
        archive.extend(&bytes);
        if !bytes.len().is_multiple_of(2) {
            archive.push(b'\n');
        }
    }
    Ok(archive)
}

fn description(release: &Release, files: &Tree) -> String {
    let mut text = String::new();
    let architecture = release.architecture().debian();
    let unwinder = if release.elf.needed.iter().any(|name| name == "libgcc_s.so.1") { ", libgcc-s1" } else { "" };
    for (name, value) in [
        ("Package", "basalt"),
        ("Version", &*release.version),
        ("Section", "database"),
        ("Priority", "optional"),
        ("Architecture", architecture),
        ("Maintainer", MAINTAINER),
        ("Installed-Size", &files.bytes().div_ceil(1024).to_string()),
        ("Depends", &format!("libc6 (>= {}){unwinder}, passwd", release.glibc)),
        ("Description", SUMMARY),
    ] {
        let _ = writeln!(text, "{name}: {value}");
    }
    for line in DESCRIPTION.lines() {
        let _ = writeln!(text, " {line}");
    }
    text
}

fn config_files(files: &Tree) -> String {
    files.iter().filter(|(_, item)| item.is_config).map(|(path, _)| format!("/{path}\n")).collect()
}

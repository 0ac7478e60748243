//! The files that the rules read, and what a rule reports.

use std::path::Path;
use std::process::Command;

/// One file, as the rules see it.
pub struct File {
    /// Its path from the workspace's root, with `/` between folders.
    pub path: String,
    /// Its text; files that are not UTF-8 are not looked at.
    pub text: String,
}

impl File {
    /// Whether it holds Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it is a page.
    pub fn is_page(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// The crate that it belongs to, by the name of the crate's folder; `docs` for all that is in no crate.
    pub fn room(&self) -> &str {
        let mut parts = self.path.split('/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("crates" | "bin"), Some(name), Some(_)) => name,
            (Some("xtask"), Some(_), _) => "xtask",
            _ => "docs",
        }
    }

    /// `path:line`, where `line` counts from zero.
    pub fn place(&self, line: usize) -> String {
        format!("{}:{}", self.path, line + 1)
    }
}

/// One place that breaks a rule.
#[derive(Clone, Debug)]
pub struct Breach {
    /// The rule's name.
    pub rule: &'static str,
    /// `path` or `path:line`.
    pub place: String,
    /// What is wrong, and what to do instead.
    pub why: String,
}

/// The files that git tracks or would track below `root`.
pub fn files(root: &Path) -> Result<Vec<File>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut files = Vec::new();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        // A file that is deleted but still in the index has no text, and one that is not text is not ours to read.
        if let Ok(text) = std::fs::read_to_string(root.join(path)) {
            files.push(File { path: path.to_owned(), text });
        }
    }
    if files.is_empty() {
        return Err("git lists no file: run this in a clone".to_owned());
    }
    Ok(files)
}

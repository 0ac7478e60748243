//! The house rules that no compiler checks, over the files that git tracks or would track.

mod command_names;
mod rules;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// One file, as the rules see it.
pub struct File {
    /// Its path from the workspace's root, with `/` between folders.
    pub path: String,
    /// Its text; files that are not UTF-8 are not looked at.
    pub text: String,
}

/// One place that breaks a rule.
#[derive(Debug)]
pub struct Breach {
    /// The rule's name.
    pub rule: &'static str,
    /// `path` or `path:line`.
    pub place: String,
    /// What is wrong, and what to do instead.
    pub why: String,
}

/// All that was found.
pub struct Outcome {
    /// How many rules there are.
    pub rules: u64,
    /// Where they are broken.
    pub breaches: Vec<Breach>,
}

impl Outcome {
    /// How many rules are broken somewhere.
    pub fn rules_broken(&self) -> u64 {
        let mut names: Vec<_> = self.breaches.iter().map(|breach| breach.rule).collect();
        names.sort_unstable();
        names.dedup();
        names.len() as u64
    }

    /// One line a breach.
    pub fn listing(&self) -> String {
        self.breaches.iter().fold(String::new(), |mut text, breach| {
            let _ = writeln!(text, "{}: [{}] {}", breach.place, breach.rule, breach.why);
            text
        })
    }
}

/// Looks at every file by every rule.
pub fn check(root: &Path) -> Result<Outcome, String> {
    let files = files(root)?;
    if files.is_empty() {
        return Err("git lists no file: run this in a clone".to_owned());
    }
    let breaches = rules::RULES.iter().flat_map(|rule| rule(&files)).collect();
    Ok(Outcome { rules: rules::RULES.len() as u64, breaches })
}

fn files(root: &Path) -> Result<Vec<File>, String> {
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
    Ok(files)
}

//! The numbers of the house, a crate a row.

use super::ratchet;
use super::workspace::Workspace;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One crate's row.
#[derive(Default)]
struct Row {
    files: usize,
    lines: usize,
    code_lines: usize,
    circle_files: usize,
    circle_folders: usize,
    extra_impls: usize,
    banned_words: usize,
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.lines += other.lines;
        self.code_lines += other.code_lines;
        self.circle_files += other.circle_files;
        self.circle_folders += other.circle_folders;
        self.extra_impls += other.extra_impls;
        self.banned_words += other.banned_words;
    }

    fn line(&self, name: &str) -> String {
        format!(
            "{name:<10} {:>6} {:>8} {:>10} {:>13} {:>15} {:>12} {:>13}\n",
            self.files,
            self.lines,
            self.code_lines,
            self.circle_files,
            self.circle_folders,
            self.extra_impls,
            self.banned_words
        )
    }
}

/// The whole table. Files and lines are those of Rust, tests included; code lines are without tests, docs and comments.
pub fn report(workspace: &Workspace) -> String {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for file in workspace.files.iter().filter(|file| file.is_rust()) {
        let row = rows.entry(file.room().to_owned()).or_default();
        row.files += 1;
        row.lines += file.text.lines().count();
    }
    for found in &workspace.crates {
        rows.entry(found.name.clone()).or_default().code_lines =
            found.files.iter().map(|file| file.source.code_lines).sum();
    }
    for (name, figures) in ratchet::actual(workspace) {
        let row = rows.entry(name).or_default();
        (row.circle_files, row.circle_folders) = (figures.circle_files, figures.circle_folders);
        (row.extra_impls, row.banned_words) = (figures.extra_impls_all(), figures.banned_words);
    }
    let mut text = format!(
        "{:<10} {:>6} {:>8} {:>10} {:>13} {:>15} {:>12} {:>13}\n",
        "crate", "files", "lines", "code lines", "circle: files", "circle: folders", "extra impls", "banned words"
    );
    let mut all = Row::default();
    for (name, row) in &rows {
        all.add(row);
        text += &row.line(name);
    }
    text += &all.line("all");
    for found in &workspace.crates {
        let circles = found.circles();
        for circle in circles.files.iter().chain(&circles.folders) {
            let _ =
                writeln!(text, "\n{}: a circle of {}: {}", found.name, circle.members.len(), circle.members.join(" "));
            for arrow in &circle.arrows {
                let _ = writeln!(text, "    {arrow}");
            }
        }
        for (name, places) in found.extra_impls() {
            let _ = writeln!(text, "{}: impl {name} again in {}", found.name, places.join(" "));
        }
    }
    text
}

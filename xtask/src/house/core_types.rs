//! The glossary's table of core types: a type that many files name has a row, and a row names a type that there is.

use super::crates::Crate;
use super::source::Path;
use super::tree::{Breach, File};
use super::workspace::Workspace;
use std::collections::BTreeMap;

const RULE: &str = "core types";
const PAGE: &str = "docs/GLOSSARY.md";
const HEADING: &str = "## Core types";
/// The crates whose types the table is about.
const CORE: [&str; 7] = ["vocab", "resp", "storage", "replica", "cluster", "node", "server"];
/// A type that so many files name, beside the one that defines it, has a row.
const FILES_MIN: usize = 20;

/// One row of the table.
struct Row<'a> {
    name: &'a str,
    /// The crates that the row's brackets name.
    crates: Vec<&'a str>,
    line: usize,
}

/// The rule.
pub fn rule(workspace: &Workspace) -> Vec<Breach> {
    let Some(page) = workspace.files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let rows = rows(page);
    let mut breaches = Vec::new();
    for row in &rows {
        let lacking = row
            .crates
            .iter()
            .find(|name| !workspace.crates.iter().any(|of| of.name == **name && defines(of, row.name)));
        let why = match lacking {
            _ if row.crates.is_empty() => {
                format!("the row of `{}` does not say where it is, as in (`node::shard`)", row.name)
            }
            Some(name) => format!("`{}` is no type of `{name}` any more: rename the row, or remove it", row.name),
            None => continue,
        };
        breaches.push(Breach { rule: RULE, place: page.place(row.line), why });
    }
    for (name, count) in used(&workspace.crates) {
        if !rows.iter().any(|row| row.name == name) {
            let why = format!("`{name}` is named in {count} files and has no row in the table of core types");
            breaches.push(Breach { rule: RULE, place: PAGE.to_owned(), why });
        }
    }
    breaches
}

fn rows(page: &File) -> Vec<Row<'_>> {
    let lines = page.text.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    let lines = lines.take_while(|(_, line)| !line.starts_with("## "));
    lines
        .filter_map(|(line, text)| {
            let (name, rest) = text.strip_prefix("| `")?.split_once('`')?;
            let places = rest.split("(`").skip(1).filter_map(|place| place.split_once('`'));
            let crates = places.map(|(path, _)| path.split("::").next().unwrap_or(path)).collect();
            Some(Row { name, crates, line })
        })
        .collect()
}

fn is_type(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_uppercase())
        && name.contains(|letter: char| letter.is_ascii_lowercase())
}

fn defines(found: &Crate, name: &str) -> bool {
    found.files.iter().any(|file| file.source.module.items.contains(name))
}

/// The types of the core that are defined once and named in many files, with the number of these.
fn used(crates: &[Crate]) -> BTreeMap<&str, usize> {
    let core = || crates.iter().filter(|found| CORE.contains(&found.name.as_str()));
    let mut definitions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in core().flat_map(|found| &found.files) {
        for name in file.source.module.items.iter().filter(|name| is_type(name)) {
            definitions.entry(name).or_default().push(&file.path);
        }
    }
    definitions.retain(|_, files| files.len() == 1);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in core().flat_map(|found| &found.files) {
        // Of other libraries' types of the same name nothing is counted.
        let ours = |path: &&Path| {
            let first = path.segments.first().map_or("", String::as_str);
            matches!(first, "crate" | "super" | "self") || CORE.contains(&first)
        };
        let named = file.source.paths.iter().filter(ours).flat_map(|path| &path.segments).map(String::as_str);
        let mut named: Vec<&str> = named.filter(|name| definitions.contains_key(name)).collect();
        named.sort_unstable();
        named.dedup();
        for name in named.into_iter().filter(|name| definitions[name] != [file.path.as_str()]) {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts.retain(|_, count| *count >= FILES_MIN);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(table: &str) -> Vec<String> {
        let user = "use crate::much::Much; use std::much::Seldom;";
        let users = (0..FILES_MIN).map(|n| (format!("crates/node/src/user{n}.rs"), user.to_owned()));
        let modules: String = (0..FILES_MIN).map(|n| format!("mod user{n};")).collect();
        let files = [
            ("crates/node/src/lib.rs".to_owned(), format!("mod much; {modules}")),
            (
                "crates/node/src/much.rs".to_owned(),
                "pub struct Much; pub struct Seldom; pub const MAX: u8 = 1;".to_owned(),
            ),
            (
                PAGE.to_owned(),
                format!("# Glossary\n| `Other` | of no table (`node`). |\n{HEADING}\n{table}\n## Not used\n"),
            ),
        ];
        let files = files.into_iter().chain(users).map(|(path, text)| File { path, text }).collect();
        rule(&Workspace::of(files)).into_iter().map(|breach| breach.why).collect()
    }

    #[test]
    fn a_type_that_many_files_name_has_a_row_and_a_row_has_a_type() {
        let row = "| `Much` | what many files name (`node::much`). |";
        assert!(breaches(row).is_empty(), "{:?}", breaches(row));
        assert!(breaches("")[0].contains("`Much` is named in 20 files"));
        assert!(
            breaches(&format!("{row}\n| `Gone` | it was there (`node::much`). |"))[0].contains("no type of `node`")
        );
        assert!(
            breaches(&format!("{row}\n| `Seldom` | of another crate (`server`). |"))[0].contains("no type of `server`")
        );
        assert!(breaches("| `Much` | without a place. |")[0].contains("does not say where"));
    }
}

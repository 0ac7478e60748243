//! The pictures of docs/ARCHITECTURE.md that show the files on the way of a write and of a read: each file is there, and a way
//! has no more files than its bar says.

use super::tree::{Breach, File};

const RULE: &str = "pictures";
const PAGE: &str = "docs/ARCHITECTURE.md";

/// The headings of the pictures, each with the most files that its way may have.
const WAYS: [(&str, usize); 2] = [("### The way of a write", 40), ("### The way of a read", 25)];
/// What the pictures show as well, and what a request that finds everything in memory on a quick disk does not pass.
const ALTERNATIVES: [&str; 3] = ["server/log_sync/log_threads", "server/disk_reads", "node/shard/prefetch"];
/// The crates that a request goes through.
const CRATES: [&str; 7] = ["server", "node", "resp", "storage", "replica", "cluster", "vocab"];

pub(super) fn rule(files: &[File]) -> Vec<Breach> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    WAYS.iter().flat_map(|(heading, most)| way(files, page, heading, *most)).collect()
}

fn way(files: &[File], page: &File, heading: &str, most: usize) -> Vec<Breach> {
    let at = page.text.lines().position(|line| line == heading);
    let breach = |why| Breach { rule: RULE, place: page.place(at.unwrap_or(0)), why };
    let Some(picture) = page.text.split_once(heading).and_then(|(_, rest)| rest.split("```").nth(1)) else {
        return vec![breach(format!("there is no picture under `{heading}`"))];
    };
    let mut names = named(picture);
    names.sort_unstable();
    names.dedup();
    let mut breaches = Vec::new();
    for name in &names {
        let (in_crate, rest) = name.split_once('/').unwrap_or((name.as_str(), ""));
        let path = format!("crates/{in_crate}/src/{rest}");
        if !files.iter().any(|file| file.path == format!("{path}.rs") || file.path.starts_with(&format!("{path}/"))) {
            breaches.push(breach(format!("{path} is not there")));
        }
    }
    let count = names.iter().filter(|name| !ALTERNATIVES.contains(&name.as_str())).count();
    if count > most {
        breaches.push(breach(format!("{count} files are on this way; at most {most}")));
    }
    breaches
}

/// The files that a picture names, such as `node/request`, or two as `node/shard/{apply, evaluate}`.
fn named(picture: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in picture.lines() {
        let begins = CRATES
            .iter()
            .flat_map(|name| line.match_indices(&format!("{name}/")).map(|(at, _)| at).collect::<Vec<_>>());
        let is_path = |letter: char| letter.is_ascii_lowercase() || matches!(letter, '_' | '/');
        for at in begins.filter(|at| !line[..*at].ends_with(is_path)) {
            let end = line[at..].find(|letter| !is_path(letter)).map_or(line.len(), |length| at + length);
            let (path, rest) = line.split_at(end);
            let path = &path[at..];
            match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                Some((inner, _)) => names.extend(inner.split(',').map(|name| format!("{path}{}", name.trim()))),
                None => names.push(path.to_owned()),
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_names_files() {
        let line =
            "client ─► server/clients/{registry, reply_queue}, resp/request      not/a/node/path, node/format/entry";
        let mut names = named(line);
        names.sort_unstable();
        assert_eq!(
            names,
            ["node/format/entry", "resp/request", "server/clients/registry", "server/clients/reply_queue"]
        );
    }

    #[test]
    fn what_is_not_there_and_a_long_way_are_breaches() {
        let names = |count| (0..count).map(|n| format!("f{}", "a".repeat(n))).collect::<Vec<_>>();
        let breaches = |write: usize, there: usize| {
            let page = format!(
                "{}\n```\nnode/{{{}}}\n```\n{}\n```\nserver/disk_reads\n```\n",
                WAYS[0].0,
                names(write).join(", "),
                WAYS[1].0
            );
            let mut files: Vec<File> = names(there)
                .iter()
                .map(|name| File { path: format!("crates/node/src/{name}.rs"), text: String::new() })
                .collect();
            files.push(File { path: "crates/server/src/disk_reads/mod.rs".to_owned(), text: String::new() });
            files.push(File { path: PAGE.to_owned(), text: page });
            rule(&files).into_iter().map(|breach| breach.why).collect::<Vec<_>>()
        };
        assert!(breaches(40, 40).is_empty(), "{:?}", breaches(40, 40));
        assert_eq!(breaches(2, 1), ["crates/node/src/fa is not there"]);
        assert_eq!(breaches(41, 41), ["41 files are on this way; at most 40"]);
    }
}

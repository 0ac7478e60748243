//! The command table is the only list of commands: outside it and its handlers, nothing compares a command's name.

use super::tree::{Breach, File};
use resp::table;

/// Where handlers are entered under the names of their commands, those of a model included.
const HANDLERS: [&str; 6] = [
    "crates/node/src/command/",
    "crates/node/src/session/commands/",
    "crates/server/src/admin/",
    "crates/server/src/api/",
    "crates/server/src/backup.rs",
    // The plain model that the simulator holds replies to.
    "crates/sim/src/collections/",
];

/// What begins a comparison with a name, up to the name's quotation mark.
const COMPARISONS: [&str; 4] = ["eq_ignore_ascii_case(b\"", "lookup(b\"", "name == \"", "name != \""];

/// What takes a command's name apart.
const MATCHES: [&str; 3] = ["match spec.name", "matches!(spec.name", "matches!(begun.spec.name"];

pub(super) fn rule(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| is_served(&file.path)) {
        // Tests stand at the end of a file.
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        for (line, text) in code.lines().enumerate() {
            if !text.trim_start().starts_with("//") && (compares(text) || MATCHES.iter().any(|m| text.contains(m))) {
                breaches.push(Breach {
                    rule: "command names",
                    place: format!("{}:{}", file.path, line + 1),
                    why: "compares a command's name: add a bit of `behaviour` to its row of the table".to_owned(),
                });
            }
        }
    }
    breaches
}

/// Whether a file is one of those that serve commands, and neither handlers nor tests.
fn is_served(path: &str) -> bool {
    ["crates/node/src/", "crates/server/src/", "crates/sim/src/"].iter().any(|root| path.starts_with(root))
        && !HANDLERS.iter().any(|handlers| path.starts_with(handlers))
        && !path.ends_with("tests.rs")
        && !path.contains("/tests/")
}

fn compares(line: &str) -> bool {
    COMPARISONS.iter().any(|comparison| {
        line.match_indices(comparison).any(|(at, _)| {
            let name = line[at + comparison.len()..].split('"').next().unwrap_or_default();
            table::lookup_full(name.as_bytes()).is_some_and(|spec| !OPTIONS.contains(&spec.name))
        })
    })
}

/// Commands whose names are words of other commands too.
const OPTIONS: [&str; 4] = ["GET", "SET", "SYNC", "TYPE"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_with_a_commands_name_is_found() {
        let breaches = |path: &str, text: &str| rule(&[File { path: path.to_owned(), text: text.to_owned() }]).len();
        for text in [
            "if args[0].eq_ignore_ascii_case(b\"FLUSHALL\") {",
            "let spec = table::lookup(b\"debug\");",
            "let own = spec.name == \"KV.PUT\";",
            "match spec.name {",
            "matches!(spec.name, \"GETDEL\" | \"GETEX\")",
        ] {
            assert_eq!(breaches("crates/server/src/dispatch.rs", text), 1, "{text}");
            assert_eq!(breaches("crates/node/src/command/keyspace.rs", text), 0, "{text}");
            assert_eq!(breaches("crates/node/src/entry.rs", &format!("#[cfg(test)]\n{text}")), 0, "{text}");
        }
        for text in
            ["if word.eq_ignore_ascii_case(b\"DURABILITY\") {", "stats.finished(spec.name)", "// spec.name == \"GET\""]
        {
            assert_eq!(breaches("crates/server/src/dispatch.rs", text), 0, "{text}");
        }
    }
}

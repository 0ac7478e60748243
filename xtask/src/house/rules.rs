//! One function a rule. Each is shown to fail by a test below, or beside its own code.

use super::command_names;
use super::core_types;
use super::pictures;
use super::ratchet;
use super::tree::{Breach, File};
use super::workspace::Workspace;
use std::fmt::Write as _;

/// A rule that reads files as text.
type TextRule = fn(&[File]) -> Vec<Breach>;

const TEXT_RULES: &[TextRule] = &[
    long_functions,
    no_utils,
    no_machine_names,
    nothing_unfinished,
    adrs,
    words,
    links,
    command_names::rule,
    pictures::rule,
];
/// What the ratchet checks: circles between files, circles between folders, banned words, one `impl` a type.
const RATCHET_RULES: u64 = 4;
/// The length of files and the glossary's core types, which need their code.
const OTHER_RULES: u64 = 2;

/// Most lines of code in a file: without tests, docs and comments. A longer file gives up a struct.
const CODE_LINES_MAX: usize = 700;
/// How many functions may be excused from clippy's 70 lines. It only ever shrinks.
const LONG_FUNCTIONS_MAX: usize = 0;
/// What an ADR must hold, as the beginnings of its headings.
const ADR_SECTIONS: [&str; 4] = ["context", "measurement", "decision", "rejected"];

/// How the line begins that says whether an ADR holds.
const ADR_STATES: [&str; 3] = ["Status: accepted", "Status: proposed", "Status: superseded by "];
/// Longest ADR, in lines.
const ADR_LINES_MAX: usize = 80;

// Split, so that this file does not break its own rules.
const MACHINE_NAMES: [&str; 12] = [
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/t", "mp/"),
    concat!("index.cra", "tes.io"),
    concat!("static.cra", "tes.io"),
    concat!("registry.np", "mjs"),
    concat!("py", "pi.org"),
    concat!("deb.de", "bian.org"),
    concat!("archive.ubu", "ntu.com"),
    concat!("proxy.gol", "ang.org"),
    concat!("repo1.ma", "ven.org"),
];
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];

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

/// Looks at the workspace by every rule.
pub fn check(workspace: &Workspace) -> Outcome {
    let mut breaches = text_breaches(&workspace.files);
    breaches.extend(workspace.unreadable.iter().cloned());
    breaches.extend(file_length(workspace));
    breaches.extend(core_types::rule(workspace));
    breaches.extend(ratchet::rule(workspace));
    Outcome { rules: TEXT_RULES.len() as u64 + RATCHET_RULES + OTHER_RULES, breaches }
}

fn text_breaches(files: &[File]) -> Vec<Breach> {
    TEXT_RULES.iter().flat_map(|rule| rule(files)).collect()
}

fn file_length(workspace: &Workspace) -> Vec<Breach> {
    let files = workspace.crates.iter().flat_map(|found| &found.files);
    let long = files.filter(|file| file.source.code_lines > CODE_LINES_MAX);
    long.map(|file| Breach {
        rule: "file length",
        place: file.path.clone(),
        why: format!(
            "{} lines of code; at most {CODE_LINES_MAX}: it holds a struct that wants out",
            file.source.code_lines
        ),
    })
    .collect()
}

fn long_functions(files: &[File]) -> Vec<Breach> {
    let excuse = concat!("clippy::too_many", "_lines");
    let excused: Vec<String> = files
        .iter()
        .filter(|file| file.is_rust())
        .flat_map(|file| {
            let lines = file.text.lines().enumerate().filter(|(_, line)| line.contains(excuse));
            lines.map(|(i, _)| file.place(i)).collect::<Vec<_>>()
        })
        .collect();
    if excused.len().saturating_sub(LONG_FUNCTIONS_MAX) == 0 {
        return Vec::new();
    }
    vec![Breach {
        rule: "long functions",
        place: excused.join(", "),
        why: format!("{} functions are excused; at most {LONG_FUNCTIONS_MAX} may be", excused.len()),
    }]
}

fn no_utils(files: &[File]) -> Vec<Breach> {
    let named = |file: &&File| {
        file.path.split('/').any(|part| matches!(part.trim_end_matches(".rs"), "utils" | "util" | "helpers" | "misc"))
    };
    files
        .iter()
        .filter(named)
        .map(|file| Breach {
            rule: "no utils",
            place: file.path.clone(),
            why: "a helper lives beside its only caller, or earns a noun".to_owned(),
        })
        .collect()
}

fn no_machine_names(files: &[File]) -> Vec<Breach> {
    // A lock file is cargo's, and names its registry as cargo does everywhere.
    let ours = files.iter().filter(|file| !file.path.ends_with("Cargo.lock"));
    lines_with(ours, "machine names", &MACHINE_NAMES, "means something on one machine only")
}

fn nothing_unfinished(files: &[File]) -> Vec<Breach> {
    lines_with(files.iter(), "nothing unfinished", &UNFINISHED, "finish it, or open an issue")
}

fn lines_with<'a>(
    files: impl Iterator<Item = &'a File>,
    rule: &'static str,
    needles: &[&str],
    why: &str,
) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in files {
        for (i, line) in file.text.lines().enumerate() {
            if let Some(needle) = needles.iter().find(|needle| line.contains(**needle)) {
                breaches.push(Breach { rule, place: file.place(i), why: format!("`{needle}`: {why}") });
            }
        }
    }
    breaches
}

fn adrs(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("docs/adr/") && file.is_page()) {
        let headings: Vec<String> = file
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .map(|heading| heading.trim().to_ascii_lowercase())
            .collect();
        if !file.text.lines().any(|line| ADR_STATES.iter().any(|state| line.starts_with(state))) {
            let why = format!("an ADR has a line `{}`", ADR_STATES.join("…` or `"));
            breaches.push(Breach { rule: "decision records", place: file.path.clone(), why });
        }
        let lines = file.text.lines().count();
        if lines > ADR_LINES_MAX {
            let why = format!("{lines} lines; an ADR is one page, at most {ADR_LINES_MAX}");
            breaches.push(Breach { rule: "decision records", place: file.path.clone(), why });
        }
        for section in ADR_SECTIONS {
            if !headings.iter().any(|heading| heading.starts_with(section)) {
                let why = format!("an ADR has a heading `## {section}…`");
                breaches.push(Breach { rule: "decision records", place: file.path.clone(), why });
            }
        }
    }
    breaches
}

/// A link from a page to a file of ours leads somewhere.
fn links(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_page()) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (i, line) in file.text.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target) {
                let target = target.split('#').next().unwrap_or_default();
                let ours = !target.is_empty() && !target.contains("://");
                let path = joined(folder, target);
                if ours && !files.iter().any(|file| file.path == path || file.path.starts_with(&format!("{path}/"))) {
                    breaches.push(Breach {
                        rule: "links",
                        place: file.place(i),
                        why: format!("{target} is not there"),
                    });
                }
            }
        }
    }
    breaches
}

/// `target` as seen from `folder`, without `.` and `..`.
fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The words that docs/GLOSSARY.md says are not used must not stand in prose or in comments.
fn words(files: &[File]) -> Vec<Breach> {
    let rule = "glossary";
    let Some(glossary) = files.iter().find(|file| file.path == "docs/GLOSSARY.md") else {
        let why = "the glossary is missing".to_owned();
        return vec![Breach { rule, place: "docs/GLOSSARY.md".to_owned(), why }];
    };
    let banned = banned_words(&glossary.text);
    if banned.is_empty() {
        let why = "its table of words not to use is missing".to_owned();
        return vec![Breach { rule, place: glossary.path.clone(), why }];
    }
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| (file.is_rust() || file.is_page()) && file.path != glossary.path) {
        for (i, line) in file.text.lines().enumerate() {
            let Some(prose) = prose(file, line) else { continue };
            let lower = prose.to_ascii_lowercase();
            let mut parts = lower.split(|c: char| !c.is_alphanumeric() && c != '-');
            let Some((word, instead)) = parts.find_map(|part| banned.iter().find(|(word, _)| word == part)) else {
                continue;
            };
            breaches.push(Breach { rule, place: file.place(i), why: format!("`{word}`: say {instead}") });
        }
    }
    breaches
}

/// What of a line is prose: a comment in Rust, all in Markdown.
fn prose<'a>(file: &File, line: &'a str) -> Option<&'a str> {
    if file.is_page() { Some(line) } else { line.trim_start().starts_with("//").then_some(line) }
}

/// The rows `| word | say |` under the glossary's heading "Not used".
fn banned_words(glossary: &str) -> Vec<(String, String)> {
    let table = glossary.lines().skip_while(|line| !line.starts_with("## Not used"));
    table
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
        .filter(|(word, _)| *word != "not")
        .map(|(word, say)| (word.trim().to_ascii_lowercase(), say.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn glossary() -> File {
        file("docs/GLOSSARY.md", "## Not used\n| not | say |\n|-|-|\n| tablet | shard |\n")
    }

    const ADR: &str = "# 1\nStatus: accepted\n## Context\n## Decision\n## Measurement\n## Rejected alternatives\n";

    #[test]
    fn a_clean_tree_breaks_no_rule() {
        let files =
            [glossary(), file("crates/a/src/lib.rs", "//! A shard.\nfn a() {}\n"), file("docs/adr/0001-a.md", ADR)];
        let breaches = text_breaches(&files);
        assert!(breaches.is_empty(), "{breaches:?}");
        let workspace = Workspace::of(files.into());
        assert!(workspace.unreadable.is_empty() && file_length(&workspace).is_empty());
    }

    #[test]
    fn each_rule_sees_its_breach() {
        let long = format!("{ADR}{}", "\n".repeat(ADR_LINES_MAX));
        let cases: [(&str, File); 11] = [
            ("links", file("docs/A.md", "[here](GLOSSARY.md#top), [there](../docs), [nowhere](../B.md)")),
            ("long functions", file("a.rs", concat!("#[expect(clippy::too_many", "_lines)]"))),
            ("no utils", file("crates/a/src/utils.rs", "")),
            ("no utils", file("crates/utils/src/lib.rs", "")),
            ("machine names", file("README.md", concat!("see /wo", "rk/main"))),
            ("nothing unfinished", file("a.rs", concat!("// TO", "DO: all of it"))),
            ("decision records", file("docs/adr/0001-a.md", &ADR.replace("## Measurement\n", ""))),
            ("decision records", file("docs/adr/0001-a.md", &ADR.replace("accepted", "perhaps"))),
            ("decision records", file("docs/adr/0001-a.md", &long)),
            ("glossary", file("a.rs", "/// The tablet's leader.\n")),
            ("glossary", file("docs/A.md", "Tablets? A tablet.\n")),
        ];
        for (rule, bad) in cases {
            let breaches = text_breaches(&[glossary(), bad]);
            let rules: Vec<_> = breaches.iter().map(|breach| breach.rule).collect();
            assert_eq!(rules, [rule], "{breaches:?}");
        }
    }

    #[test]
    fn a_file_is_as_long_as_its_code() {
        let lines = |count: usize| {
            let code = "const A: u8 = 1;\n".repeat(count);
            let docs = "/// A shard.\n// Why.\n\n".repeat(500);
            let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "fn a() {}\n".repeat(500));
            Workspace::of(vec![file("crates/a/src/lib.rs", &format!("{code}{docs}const B: u8 = 1;\n{tests}"))])
        };
        assert_eq!(file_length(&lines(CODE_LINES_MAX - 1)).len(), 0);
        assert_eq!(file_length(&lines(CODE_LINES_MAX)).len(), 1);
    }

    #[test]
    fn rust_that_cannot_be_read_is_a_breach() {
        assert_eq!(Workspace::of(vec![file("crates/a/src/lib.rs", "fn {")]).unreadable.len(), 1);
    }
}

//! docs/COMMANDS.md, from the table.

use super::resolve::all;
use super::spec::{CommandSpec, Group, flag};
use super::syntax::plain;
use std::fmt::Write;

/// The page of all commands, in Markdown.
#[must_use]
pub fn docs_markdown() -> String {
    let mut page = String::from(
        "# Commands\n\n\
         Generated from the command table (`crates/resp/src/table`); edit the rows there. Words in capitals are typed\n\
         as they are, `[…]` may be left out, `|` separates alternatives, `...` repeats.\n",
    );
    for group in Group::ALL {
        let (title, release) = heading(group);
        writeln!(page, "\n## {title}").expect("a string takes any text");
        for spec in all().iter().filter(|spec| spec.group == group && !spec.summary.starts_with("Groups the")) {
            write_command(&mut page, spec, release);
        }
    }
    page
}

fn heading(group: Group) -> (&'static str, &'static str) {
    match group {
        Group::Basalt => ("Basalt's own", "Basalt"),
        Group::String => ("Strings", "Redis"),
        Group::Hash => ("Hashes", "Redis"),
        Group::Set => ("Sets", "Redis"),
        Group::List => ("Lists", "Redis"),
        Group::SortedSet => ("Sorted sets", "Redis"),
        Group::Geo => ("Places on the earth", "Redis"),
        Group::Bitmap => ("Bitmaps", "Redis"),
        Group::HyperLogLog => ("HyperLogLogs", "Redis"),
        Group::Stream => ("Streams", "Redis"),
        Group::Generic => ("Keys", "Redis"),
        Group::Transactions => ("Transactions", "Redis"),
        Group::Connection => ("Connection", "Redis"),
        Group::PubSub => ("Messages", "Redis"),
        Group::Server => ("Server", "Redis"),
        Group::Cluster => ("Cluster", "Redis"),
        Group::Scripting => ("Scripts", "Redis"),
    }
}

fn write_command(page: &mut String, spec: &CommandSpec, release: &str) {
    let usage = format!("{} {}", spec.typed_name(), plain(spec.arguments));
    let kind = if spec.is_write() {
        "write"
    } else if spec.has(flag::READONLY) {
        "read"
    } else if spec.has(flag::ADMIN) {
        "for operators"
    } else {
        "no keys"
    };
    let complexity = spec.complexity.trim_end_matches('.');
    writeln!(page, "\n### `{}`\n\n{}", usage.trim_end(), spec.summary).expect("a string takes any text");
    writeln!(page, "*{complexity}; {kind}; since {release} {}.*", spec.since).expect("a string takes any text");
    if let Some((since, by)) = spec.deprecated {
        writeln!(page, "Deprecated since {release} {since}: use {by}.").expect("a string takes any text");
    }
}

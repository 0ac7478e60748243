//! docs/APPLICATIONS.md: a row an application, with what came of its last trials.

use super::application::{Application, Listener};
use super::situation::{SITUATIONS, Situation};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const HEAD: &str = "\
# Applications

Unmodified applications and client libraries, from their registries, that do their jobs against a store. `cargo xtask apps`
installs them below `target/apps`, runs them and writes this table; `--only NAME` runs one. The gate runs, a quarter at a time,
those that pip, npm, Go and Maven install, without suites of packages, and one of them while a node is killed. The programs are in
`xtask/apps`: each checks what the application promises, and fails otherwise. A *suite* is a package's own tests, from its source
distribution: those that pass on redis-server have to pass here, but for those that its program names with the reason.

Applications of *databases* connect to a node's `database-listen`, as to a plain Redis: on three nodes to one that does not lead
their database. *Cluster* means that they connect as to a Redis Cluster. *Node killed*: half-way, the node that leads the shard of
their keys gets `kill -9`. Numbers are those of the last trial. Jobs are counted outside the store.

";
const COLUMNS: &str =
    "| application | version | listener | what it did | single node | three nodes | node killed |\n|-|-|-|-|-|-|-|\n";
/// The number of cells of a row before those of the trials.
const CELLS_BEFORE: usize = 4;
/// The text of a cell before the first trial.
const NOT_YET: &str = "not run yet";
/// Longest text of a failure.
const FAILURE_CHARS: usize = 160;

/// What came of trials: the application, the situation, and what it did or saw.
pub type Results<'a> = &'a [(&'a str, Situation, Result<String, String>)];

/// Writes the page anew: cells of trials that were not made keep what they hold.
pub fn write(root: &Path, applications: &[Application], results: Results<'_>) -> Result<(), String> {
    let path = path(root);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(&path, page(&before, applications, results)).map_err(|error| format!("{}: {error}", path.display()))
}

fn path(root: &Path) -> PathBuf {
    root.join("docs/APPLICATIONS.md")
}

fn page(before: &str, applications: &[Application], results: Results<'_>) -> String {
    let mut text = format!("{HEAD}{COLUMNS}");
    for application in applications {
        let listener = match application.listener {
            Listener::Databases => "databases",
            Listener::Cluster => "cluster",
        };
        let _ =
            write!(text, "| {} | {} | {listener} | {} |", application.name, application.version(), application.does);
        for (column, situation) in SITUATIONS.into_iter().enumerate() {
            let result = results.iter().find(|(name, of, _)| *name == application.name && *of == situation);
            let cell = match result {
                Some((_, _, Ok(what))) => escaped(what),
                Some((_, _, Err(why))) => format!("**fails**: {}", shortened(&escaped(why))),
                None if !application.situations.contains(&situation) => "–".to_owned(),
                None => cell(before, application.name, column).unwrap_or_else(|| NOT_YET.to_owned()),
            };
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text
}

/// What a page holds in a column of trials.
fn cell(page: &str, name: &str, column: usize) -> Option<String> {
    let row =
        page.lines().find(|line| line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(&format!("{name} |"))))?;
    let cell = row.trim_matches('|').split(" | ").nth(CELLS_BEFORE + column)?;
    Some(cell.trim().to_owned())
}

/// One line without what ends a cell.
fn escaped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/")
}

fn shortened(text: &str) -> String {
    let short: String = text.chars().take(FAILURE_CHARS).collect();
    if short.len() < text.len() { short + " …" } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::toolchain::Toolchain;
    use std::time::Duration;

    const QUEUE: Application = Application {
        name: "queue",
        toolchain: Toolchain::Python,
        packages: &["queue==1.0", "redis==8.1.0"],
        listener: Listener::Databases,
        situations: &SITUATIONS,
        bound: Duration::from_secs(60),
        is_killed_in_gate: false,
        is_suite: false,
        does: "120 jobs",
    };

    #[test]
    fn a_page_keeps_what_was_not_tried_again() {
        let first = page("", &[QUEUE], &[("queue", Situation::Single, Ok("120 jobs, each once".to_owned()))]);
        let row = "| queue | queue 1.0, redis 8.1.0 | databases | 120 jobs | 120 jobs, each once | not run yet | not run yet |";
        assert!(first.contains(row), "{first}");
        let failed = Err("it ended with 1\nERR | no".to_owned());
        let second = page(&first, &[QUEUE], &[("queue", Situation::Killed, failed)]);
        let row = "| 120 jobs | 120 jobs, each once | not run yet | **fails**: it ended with 1 ERR / no |";
        assert!(second.contains(row), "{second}");
    }
}

//! docs/APPLICATIONS.md: a row an application, with what came of its last trials.

use super::application::{Application, Listener};
use super::situation::{SITUATIONS, Situation};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const HEAD: &str = "\
# Applications

Unmodified applications and client libraries, from their registries, that do their jobs against a store. `cargo xtask apps`
installs them below `target/apps`, runs them and writes this table; `--only NAME` runs one. The gate runs, a quarter at a time,
those that pip, npm, Go and Maven install, without suites of packages, and one of them while a node is killed. The programs are in
`xtask/apps`: each checks what the application promises, and fails otherwise. A *suite* is a package's own tests, from its source
distribution: those that pass on redis-server have to pass here, but for those that its program names with the reason.

Applications of *databases* connect to a node's `database-listen`, as to a plain Redis: on three nodes to one that does not lead
their database. *Cluster* means that they connect as to a Redis Cluster. *Node killed*: half-way, the node that leads the shard of
their keys gets `kill -9`. Numbers are those of the last trial. *Tried* is the day on which all of a row was tried. Jobs are counted outside the
store.

";
const COLUMNS: &str = "| application | version | listener | what it did | single node | three nodes | node killed | tried |\n|-|-|-|-|-|-|-|-|\n";
/// The number of cells of a row before those of the trials.
const CELLS_BEFORE: usize = 4;
/// The text of a cell before the first trial.
const NOT_YET: &str = "not run yet";
/// When a row was tried that is of a time when the page had no days.
const EARLIER: &str = "earlier";
/// Longest text of a failure.
const FAILURE_CHARS: usize = 160;

/// What came of trials: the application, the situation, and what it did or saw.
pub type Results<'a> = &'a [(&'a str, Situation, Result<String, String>)];

/// Writes the page anew: cells of trials that were not made keep what they hold.
pub fn write(root: &Path, applications: &[Application], results: Results<'_>) -> Result<(), String> {
    let path = path(root);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(&path, page(&before, applications, results, &today()))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn path(root: &Path) -> PathBuf {
    root.join("docs/APPLICATIONS.md")
}

/// The day by UTC.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// Year, month and day of a day since the epoch, by the Gregorian calendar: years begin in March here, so that a leap day is their last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

fn page(before: &str, applications: &[Application], results: Results<'_>, today: &str) -> String {
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
        let is_tried = |of: &Situation| results.iter().any(|(name, tried, _)| *name == application.name && tried == of);
        let tried = match application.situations.iter().all(is_tried) {
            true => today.to_owned(),
            false => cell(before, application.name, SITUATIONS.len()).unwrap_or_else(|| {
                let is_known = cell(before, application.name, 0).is_some();
                if is_known { EARLIER.to_owned() } else { NOT_YET.to_owned() }
            }),
        };
        let _ = writeln!(text, " {tried} |");
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
        let first = page("", &[QUEUE], &[("queue", Situation::Single, Ok("120 jobs, each once".to_owned()))], "day 1");
        let row = "| queue | queue 1.0, redis 8.1.0 | databases | 120 jobs | 120 jobs, each once | not run yet | not run yet | not run yet |";
        assert!(first.contains(row), "{first}");
        let failed = || Err("it ended with 1\nERR | no".to_owned());
        let of_old = first.replace(" | not run yet |\n", " |\n");
        assert!(
            page(&of_old, &[QUEUE], &[], "day 2").contains("| not run yet | not run yet | earlier |\n"),
            "{of_old}"
        );
        let second = page(&first, &[QUEUE], &[("queue", Situation::Killed, failed())], "day 2");
        let row =
            "| 120 jobs | 120 jobs, each once | not run yet | **fails**: it ended with 1 ERR / no | not run yet |";
        assert!(second.contains(row), "{second}");
        let all = SITUATIONS.map(|situation| ("queue", situation, failed()));
        let third = page(&second, &[QUEUE], &all, "day 3");
        assert!(third.contains("**fails**: it ended with 1 ERR / no | day 3 |"), "{third}");
        let fourth = page(&third, &[QUEUE], &all[1..], "day 4");
        assert!(fourth.contains("**fails**: it ended with 1 ERR / no | day 3 |"), "{fourth}");
    }

    #[test]
    fn days_have_dates() {
        for (day, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_785, (2026, 11, 28)),
        ] {
            assert_eq!(date(day), expected);
        }
    }
}

//! Aligned columns, numbers as people read them, and colours where there is a terminal.

use std::io::IsTerminal;

/// What a cell says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Odd,
    Bad,
    Dim,
    Bold,
}

/// A piece of text, and its tone.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.to_string(), tone: Tone::Plain }
    }
}

impl Cell {
    pub(super) fn toned(text: impl ToString, tone: Tone) -> Self {
        Self { text: text.to_string(), tone }
    }

    /// A word for how something is.
    pub(super) fn state(word: &str) -> Self {
        let tone = match word {
            "up" | "ok" | "done" | "running" | "leader" => Tone::Good,
            "silent" | "under-replicated" | "behind" | "paused" | "coming" | "learner" | "unknown" => Tone::Odd,
            "lost" | "no-leader" | "no-majority" | "broken" | "failed" => Tone::Bad,
            _ => Tone::Plain,
        };
        Self::toned(word, tone)
    }
}

/// Whether colours are shown: on a terminal that can, unless NO_COLOR is set.
pub(super) fn colours() -> bool {
    std::io::stdout().is_terminal() && !is_dumb() && std::env::var_os("NO_COLOR").is_none()
}

/// Whether the terminal only prints: it has neither colours nor a cursor that moves.
pub(super) fn is_dumb() -> bool {
    std::env::var("TERM").is_ok_and(|term| term == "dumb")
}

/// Text in its tone.
pub(super) fn painted(text: &str, tone: Tone, colours: bool) -> String {
    let code = match tone {
        Tone::Good => "32",
        Tone::Odd => "33",
        Tone::Bad => "1;31",
        Tone::Dim => "2",
        Tone::Bold => "1",
        Tone::Plain => return text.to_owned(),
    };
    if colours && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Rows of cells. Columns whose name ends with a blank are aligned to the left, all others to the right.
pub(super) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.head.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The whole table, without blanks at the ends of lines. Columns in which no row has anything are left out.
    pub(super) fn text(&self, colours: bool) -> String {
        let width = |i: usize| self.rows.iter().map(|row| row[i].text.chars().count()).max().unwrap_or(0);
        let shown: Vec<usize> = (0..self.head.len()).filter(|i| self.rows.is_empty() || width(*i) > 0).collect();
        let heads: Vec<Cell> = self.head.iter().map(|name| Cell::toned(name.trim_end(), Tone::Dim)).collect();
        let mut text = String::new();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for (at, i) in shown.iter().enumerate() {
                let cell = &row[*i];
                let wide = width(*i).max(self.head[*i].trim_end().chars().count());
                let blank = " ".repeat(wide - cell.text.chars().count());
                let shown = painted(&cell.text, cell.tone, colours);
                let gap = if at == 0 { "" } else { "  " };
                line += &if self.head[*i].ends_with(' ') {
                    format!("{gap}{shown}{blank}")
                } else {
                    format!("{gap}{blank}{shown}")
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// `1.5 GB`, in powers of a thousand, as disks are sold.
pub(super) fn bytes(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.iter().find(|(unit, _)| bytes as f64 >= *unit);
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{:.1} {name}", bytes as f64 / unit))
}

/// `12.3k`, from ten thousand on.
pub(super) fn number(number: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units.iter().find(|(unit, _)| number >= *unit && number >= 1e4);
    unit.map_or_else(|| format!("{number:.0}"), |(unit, name)| format!("{:.1}{name}", number / unit))
}

/// `1h 2m`, `2m 3s`, `45s`.
pub(super) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match () {
        () if days > 0 => format!("{days}d {hours}h"),
        () if hours > 0 => format!("{hours}h {minutes}m"),
        () if minutes > 0 => format!("{minutes}m {}s", seconds % 60),
        () => format!("{seconds}s"),
    }
}

/// `2026-11-22 04:31:40Z`
pub(super) fn time(unix_ms: u64) -> String {
    bench::report::rfc3339(unix_ms).replace('T', " ")
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        for (given, shown) in [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000_000, "2.0 GB")] {
            assert_eq!(bytes(given), shown);
        }
        for (given, shown) in [(0.4, "0"), (9999.0, "9999"), (12_345.0, "12.3k"), (2.5e6, "2.5M")] {
            assert_eq!(number(given), shown);
        }
        for (given, shown) in [(5, "5s"), (125, "2m 5s"), (3_720, "1h 2m"), (90_000, "1d 1h")] {
            assert_eq!(duration(given), shown);
        }
    }

    #[test]
    fn columns_are_aligned_with_and_without_colours() {
        let mut table = Table::new(&["name ", "n", "none"]);
        table.row(vec!["a".into(), 10.into(), "".into()]);
        table.row(vec![Cell::state("lost"), 5.into(), "".into()]);
        assert_eq!(table.text(false), "name   n\na     10\nlost   5\n");
        let coloured = table.text(true);
        assert!(coloured.contains("\x1b[1;31mlost\x1b[0m   5\n"), "{coloured:?}");
    }
}

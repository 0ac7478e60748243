//! The report on the terminal: one table, with what must be known above it.

use std::io::IsTerminal;

use crate::model::RunReport;

use super::facts;
use super::headline::{self, COLUMNS, HeadlineRow};
use super::resources;
use super::warnings::{Severity, warnings};

/// Phases with longer names are cut, so that the table keeps to 120 columns.
const PHASE_WIDTH_MAX: usize = 10;
/// Least width of each column of figures, so that tables of several runs line up.
const WIDTHS: [usize; COLUMNS.len()] = [9, 7, 7, 7, 7, 7, 7, 6, 9, 7, 7, 8];

/// How the terminal takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    /// Whether colours are understood and wanted.
    pub colours: bool,
}

impl Paint {
    /// Colours if standard output is a terminal and NO_COLOR is not set.
    #[must_use]
    pub fn of_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colours: std::io::stdout().is_terminal() && !refused }
    }

    /// `text` in the colour that the terminal knows as `code`.
    /// A severity's word, right-aligned.
    pub(crate) fn severity(self, severity: Severity) -> String {
        let code = match severity {
            Severity::Failure => "1;31",
            Severity::Caution => "33",
            Severity::Note => "2",
        };
        self.with(code, &format!("{:>7}", severity.word()))
    }

    pub(crate) fn with(self, code: &str, text: &str) -> String {
        if self.colours && !text.trim().is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The whole text, ending in a newline.
#[must_use]
pub fn render(report: &RunReport, paint: Paint) -> String {
    let asked = &report.configuration;
    let mut out = format!(
        "\n{}  {}\n{} · {} · durability {} · consistency {}\n\n",
        paint.with("1", &report.identity.name),
        paint.with("2", &facts::command_line(report)),
        asked.target,
        asked.system,
        asked.durability,
        asked.consistency,
    );
    for warning in warnings(report) {
        let label = paint.severity(warning.severity);
        out.push_str(&format!("{label}  {}\n", wrap(&warning.text, 9, 108)));
    }
    out.push('\n');
    out.push_str(&table(&headline::rows(report), paint));
    // What an embedded store cost is in the table.
    for phase in report.phases.iter().filter(|phase| phase.cpu.process.is_none()) {
        for sentence in resources::sentences(phase) {
            out.push_str(&format!("\n{}", wrap(&format!("{}: {sentence}", phase.name), 2, 117)));
        }
        out.push('\n');
    }
    let closing = format!("{} The figures show {}.", headline::verdict(report), headline::latency_basis(report));
    out.push_str(&format!("\n{}\n", wrap(&closing, 0, 117)));
    out
}

fn table(rows: &[HeadlineRow], paint: Paint) -> String {
    let phase_width = rows.iter().map(|row| row.phase.chars().count()).max().unwrap_or(0).clamp(5, PHASE_WIDTH_MAX);
    let op_width = rows.iter().map(|row| short(&row.op).chars().count()).max().unwrap_or(0).max(6);
    let mut widths = WIDTHS;
    for (column, width) in widths.iter_mut().enumerate() {
        let widest = rows.iter().map(|row| row.cells[column].chars().count()).max().unwrap_or(0);
        *width = widest.max(*width);
    }
    let mut head = format!("{:<phase_width$} {:<op_width$}", "phase", "");
    for (column, width) in COLUMNS.iter().zip(widths) {
        head.push_str(&format!(" {:>width$}", column.name));
    }
    let mut out = format!("{}\n", paint.with("2", head.trim_end()));
    for row in rows {
        let phase: String = row.phase.chars().take(phase_width).collect();
        let mut line = paint.with("1", &format!("{phase:<phase_width$}"));
        line.push_str(&format!(" {:<op_width$}", short(&row.op)));
        for (column, width) in widths.into_iter().enumerate() {
            let cell = format!(" {:>width$}", row.cells[column]);
            let code = match column {
                _ if row.alarms(column) => "1;31",
                0 if !row.phase.is_empty() => "1",
                7 | 8 => "2",
                _ => "0",
            };
            line.push_str(&if code == "0" { cell } else { paint.with(code, &cell) });
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// YCSB's longest name would cost the table eleven columns.
fn short(op: &str) -> &str {
    if op == "READ-MODIFY-WRITE" { "RMW" } else { op }
}

/// Breaks at blanks so that a line has at most `width` characters; later lines are indented.
fn wrap(text: &str, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

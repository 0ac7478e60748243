//! A suite's report as Markdown: its tables and what differs. The figures of each phase are in the steps' own files.

use std::fmt::Write as _;

use crate::report::SuiteReport;

use super::super::facts;
use super::super::markdown::{self, text};
use super::{Grid, differences, grids};

/// The whole document.
#[must_use]
pub fn render(report: &SuiteReport) -> String {
    let about = &report.about;
    let mut out = format!("# {}: {}\n\n{}\n\n", text(&about.name), text(&about.title), text(about.about.trim()));
    push(&mut out, format_args!("Scale {}: {}. {}.\n", text(&about.scale), text(&about.takes), about.identity.date));
    for warning in report.warnings() {
        push(&mut out, format_args!("\n> **{}**: {}\n", warning.severity.word(), text(&warning.text)));
    }
    for grid in grids(report) {
        push_grid(&mut out, &grid);
    }
    for step in &report.steps {
        for search in step.report.iter().flat_map(|report| &report.searches) {
            push(&mut out, format_args!("\n## {}, {}\n\n", text(&step.part.1), text(&step.step.1)));
            markdown::searches(&mut out, search, 3);
        }
    }
    for (of, sentences) in differences(report) {
        push(
            &mut out,
            format_args!("\n## What differs from {}\n\n{}, {}.\n\n", text(&of.system), text(&of.source), of.date),
        );
        for sentence in sentences {
            push(&mut out, format_args!("- {}\n", text(&sentence)));
        }
    }
    let environment: Vec<String> =
        report.environment().iter().map(|(name, value)| format!("{name}: {value}")).collect();
    push(&mut out, format_args!("\n## Environment\n\n{}\n", text(&environment.join("; "))));
    push(&mut out, format_args!("\n## Run it again\n\n```sh\n{}\n```\n", facts::quoted(&about.identity.command_line)));
    out
}

fn push(out: &mut String, piece: std::fmt::Arguments<'_>) {
    out.write_fmt(piece).expect("a String takes all that is written to it");
}

fn push_grid(out: &mut String, grid: &Grid) {
    let heads: Vec<String> = grid.heads.iter().map(|(head, _)| text(head)).collect();
    push(
        out,
        format_args!("\n## {}\n\n| {} |\n|-|{}\n", text(&grid.title), heads.join(" | "), "-:|".repeat(heads.len() - 1)),
    );
    for row in &grid.rows {
        let cell = |cell: &String| match (row.published, cell.is_empty()) {
            (true, false) => format!("*{}*", text(cell)),
            _ => text(cell),
        };
        push(out, format_args!("| {} |\n", row.cells.iter().map(cell).collect::<Vec<_>>().join(" | ")));
    }
    if !grid.remark.is_empty() {
        push(out, format_args!("\n{}\n", text(&grid.remark)));
    }
}

//! The run as Markdown, for issues, commit messages and documents.

use std::fmt::Write as _;

use crate::model::{Phase, RunReport, Search};

use super::headline::{self, COLUMNS, HeadlineRow};
use super::warnings::warnings;
use super::{facts, resources, searched};
use crate::figure;

/// The whole document.
#[must_use]
pub fn render(report: &RunReport) -> String {
    let mut out = format!("# {}: {}\n\n", text(&report.identity.name), text(&report.configuration.target));
    for warning in warnings(report) {
        push(&mut out, &format!("> **{}**: {}\n>\n", warning.severity.word(), text(&warning.text)));
    }
    if out.ends_with(">\n") {
        out.truncate(out.len() - 2);
        out.push('\n');
    }
    for search in &report.searches {
        searches(&mut out, search, 2);
    }
    push(&mut out, "## Results\n\n");
    results(&mut out, &headline::rows(report));
    push(&mut out, &format!("\n{} The figures show {}.\n", headline::verdict(report), headline::latency_basis(report)));
    for phase in &report.phases {
        details(&mut out, phase);
    }
    push(&mut out, "\n## Configuration\n\n");
    pairs(&mut out, facts::configuration(report).into_iter().map(|(name, value)| (name.to_owned(), value)));
    push(&mut out, "\n### Workload properties\n\n");
    let properties = report.configuration.properties.iter();
    pairs(&mut out, properties.map(|(name, value)| (name.clone(), value.clone())));
    push(&mut out, "\n## Environment\n\n");
    pairs(&mut out, facts::environment(report).into_iter().map(|(name, value)| (name.to_owned(), value)));
    push(&mut out, "\n## Method\n\n");
    for (heading, paragraph) in facts::method(report) {
        push(&mut out, &format!("**{heading}.** {}\n\n", text(&paragraph)));
    }
    push(&mut out, &format!("## Run it again\n\n{}", fenced(&facts::command_line(report))));
    out
}

fn push(out: &mut String, piece: &str) {
    out.push_str(piece);
}

fn results(out: &mut String, rows: &[HeadlineRow]) {
    let heads: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    push(out, &format!("| phase | operation | {} |\n|-|-|{}\n", heads.join(" | "), "-:|".repeat(COLUMNS.len())));
    for row in rows {
        let cells: Vec<String> = (0..COLUMNS.len())
            .map(
                |column| {
                    if row.alarms(column) { format!("**{}**", row.cells[column]) } else { row.cells[column].clone() }
                },
            )
            .collect();
        push(out, &format!("| {} | {} | {} |\n", text(&row.phase), text(&row.op), cells.join(" | ")));
    }
}

/// A search with all its trials, below a heading of that level.
pub(super) fn searches(out: &mut String, search: &Search, level: usize) {
    push(out, &format!("{} {}\n\n**{}**", "#".repeat(level), text(&searched::title(search)), text(&search.answer)));
    push(out, &searched::interval(search).map_or_else(String::new, |sure| format!(" {}", text(&sure))));
    push(out, &format!("\n\n| {} |\n|-|-:|-:|-:|-:|-|-|\n", searched::HEADS.join(" | ")));
    for row in searched::rows(search) {
        push(out, &format!("| {} |\n", row.map(|cell| text(&cell)).join(" | ")));
    }
    push(out, "\n");
}

fn details(out: &mut String, phase: &Phase) {
    let title = if phase.title.is_empty() { String::new() } else { format!(": {}", text(&phase.title)) };
    push(out, &format!("\n## Phase {}{title}\n\n", text(&phase.name)));
    let offered = phase.offered_per_s.map_or_else(String::new, |rate| format!(" of {} offered", figure::rate(rate)));
    push(
        out,
        &format!(
            "{} to {}; {} measured after {} of warm-up; {} operations, {}/s{offered}.\n\n",
            phase.started_at,
            phase.ended_at,
            figure::span(phase.duration_s),
            figure::span(phase.warm_up_s),
            figure::count(phase.operations),
            figure::rate(phase.throughput_per_s),
        ),
    );
    push(out, "| operation | from | count | min | p50 | p90 | p95 | p99 | p99.9 | p99.99 | max |\n");
    push(out, "|-|-|-:|-:|-:|-:|-:|-:|-:|-:|-:|\n");
    for op in &phase.ops {
        let intended = op.latency.intended.iter().map(|latency| ("due", latency));
        let failed = op.failed_latency.iter().map(|latency| ("sent, failed", latency));
        for (from, latency) in std::iter::once(("sent", &op.latency.measured)).chain(intended).chain(failed) {
            let figures: Vec<String> = latency.ladder().iter().map(|(_, us)| figure::latency(*us)).collect();
            let count = figure::count(latency.count);
            push(out, &format!("| {} | {from} | {count} | {} |\n", text(&op.op), figures.join(" | ")));
        }
    }
    for (whose, cpu) in [("client", phase.cpu.client), ("server", phase.cpu.server), ("process", phase.cpu.process)] {
        let Some(cpu) = cpu else { continue };
        let share = phase
            .per_million(cpu.total_s())
            .map_or_else(String::new, |seconds| format!(", {} s per million operations", figure::cpu_seconds(seconds)));
        push(out, &format!("\nCPU of the {whose}: {:.2} s user, {:.2} s system{share}.\n", cpu.user_s, cpu.system_s));
    }
    for sentence in resources::sentences(phase) {
        push(out, &format!("\n{}\n", text(&sentence)));
    }
    let nodes = resources::node_rows(phase);
    if !nodes.is_empty() {
        push(out, &format!("\n| {} |\n|-|-:|-:|-:|\n", resources::NODE_HEADS.join(" | ")));
        for row in nodes {
            push(out, &format!("| {} |\n", row.map(|cell| text(&cell)).join(" | ")));
        }
    }
}

fn pairs(out: &mut String, pairs: impl Iterator<Item = (String, String)>) {
    push(out, "| | |\n|-|-|\n");
    for (name, value) in pairs {
        push(out, &format!("| {} | {} |\n", text(&name), text(&value)));
    }
}

/// Text that Markdown takes as it is: in a table's cell, too.
pub(super) fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// A code block whose fence is longer than any run of backticks inside.
fn fenced(code: &str) -> String {
    let mut fence = String::from("```");
    while code.contains(&fence) {
        fence.push('`');
    }
    let mut out = String::new();
    writeln!(out, "{fence}sh\n{code}\n{fence}").expect("a String takes all that is written to it");
    out
}

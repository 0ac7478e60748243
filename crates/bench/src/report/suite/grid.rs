//! The tables that a report shows first: our rows, and the published ones below them, cell by cell in text.

use std::collections::BTreeMap;

use crate::model::OpStats;
use crate::model::{StepRecord, TableFile, TableKind, plain};
use crate::published::{self, PublishedRow};
use crate::report::SuiteReport;

use super::figures::Figure;
use super::median::Scatter;
use crate::figure;

/// Percentiles of a ladder from the slowest on, as Voldemort's users print them.
pub const LADDER: [f64; 10] = [100.0, 99.5, 99.0, 98.0, 95.0, 90.0, 80.0, 75.0, 66.0, 50.0];

/// A table in text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Above it.
    pub title: String,
    /// The columns' names, and what each holds.
    pub heads: Vec<(String, String)>,
    /// In order.
    pub rows: Vec<GridRow>,
    /// Below it.
    pub remark: String,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct GridRow {
    /// As many as there are heads.
    pub cells: Vec<String>,
    /// Figures of a publication.
    pub published: bool,
    /// Something went wrong.
    pub alarming: bool,
}

/// All tables of a report that have rows.
#[must_use]
pub fn grids(report: &SuiteReport) -> Vec<Grid> {
    let tables = report.about.tables.iter().map(|table| grid(report, table));
    tables.filter(|grid| !grid.rows.is_empty()).collect()
}

fn grid(report: &SuiteReport, table: &TableFile) -> Grid {
    let steps: Vec<&StepRecord> = report.steps.iter().filter(|step| is_of(step, table)).collect();
    let mut grid = match table.kind {
        TableKind::Steps => rows_of_steps(&steps, table),
        TableKind::Percentiles => ladders(&steps, table),
        TableKind::Medians => medians(&steps, table),
    };
    (grid.title, grid.remark) = (table.title.clone(), table.remark.clone());
    grid
}

fn is_of(step: &StepRecord, table: &TableFile) -> bool {
    let named = table.steps.is_empty() || table.steps.iter().any(|name| step.step.1.starts_with(name.as_str()));
    named && step.phase().is_some()
}

fn system(step: &StepRecord) -> String {
    let told = step.report.as_ref().map(|report| report.configuration.system.clone()).unwrap_or_default();
    if told.is_empty() { step.system.clone() } else { told }
}

/// The published row beside a step.
#[must_use]
pub fn beside(step: &StepRecord) -> Option<PublishedRow<'static>> {
    if step.published.is_empty() { None } else { published::row(&step.published).ok() }
}

fn heads(columns: &[String], first: &[&str]) -> Vec<(String, String)> {
    let first = first.iter().map(|name| ((*name).to_owned(), String::new()));
    first.chain(columns.iter().map(|name| (name.clone(), Figure::help(name).to_owned()))).collect()
}

fn rows_of_steps(steps: &[&StepRecord], table: &TableFile) -> Grid {
    let mut rows = Vec::new();
    for step in steps {
        let row = beside(step);
        let cell = |name: &String| match Figure::named(name) {
            Some(figure) => figure.of(step, row).unwrap_or_default(),
            None => step.shows.get(name).cloned().unwrap_or_default(),
        };
        let cells = std::iter::once(system(step)).chain(table.columns.iter().map(cell)).collect();
        let alarming = step.report.as_ref().is_some_and(|report| !report.is_clean());
        rows.push(GridRow { cells, published: false, alarming });
        // One that has none of the table's figures says nothing.
        if let Some(row) = row.filter(|row| has_figures(*row, table)) {
            rows.push(GridRow { cells: published_cells(row, step, table), published: true, alarming: false });
        }
    }
    Grid { heads: heads(&table.columns, &["system"]), rows, ..Grid::default() }
}

fn has_figures(row: PublishedRow<'_>, table: &TableFile) -> bool {
    let mut figures = table.columns.iter().filter_map(|name| Figure::named(name));
    figures.any(|figure| figure.published(row).is_some_and(|text| !text.is_empty()))
}

fn published_cells(row: PublishedRow<'_>, step: &StepRecord, table: &TableFile) -> Vec<String> {
    let cell = |name: &String| match Figure::named(name) {
        Some(figure) => figure.published(row).unwrap_or_default(),
        None => match row.values.get(name) {
            Some(value) => value.as_integer().map_or_else(|| plain(value), |count| figure::count(count.unsigned_abs())),
            // What the row was found by is the same in both.
            None if step.published.contains_key(name) => step.shows.get(name).cloned().unwrap_or_default(),
            None => String::new(),
        },
    };
    std::iter::once(row.of.system.clone()).chain(table.columns.iter().map(cell)).collect()
}

fn ladders(steps: &[&StepRecord], table: &TableFile) -> Grid {
    let mut rows = Vec::new();
    for step in steps {
        let Some(phase) = step.phase() else { continue };
        let shown = |step: &StepRecord| {
            table
                .columns
                .iter()
                .map(|name| {
                    let figure = Figure::named(name).and_then(|figure| figure.of(step, None));
                    figure.unwrap_or_else(|| step.shows.get(name).cloned().unwrap_or_default())
                })
                .collect::<Vec<_>>()
        };
        for op in phase.ops.iter().filter(|op| op.op != "CLEANUP" && op.latency.measured.count > 0) {
            let mut cells = vec![system(step), step.step.1.clone()];
            cells.extend(shown(step));
            cells.extend(LADDER.map(|percentile| ladder_cell(op, percentile)));
            rows.push(GridRow { cells, published: false, alarming: false });
        }
        if let Some(row) = beside(step)
            && let Some(ms) = row.numbers("percentile_ms")
        {
            let mut cells = vec![row.of.system.clone(), row.values.get("phase").map(plain).unwrap_or_default()];
            cells.extend(published_cells(row, step, table).into_iter().skip(1));
            cells.extend(ms.iter().map(|ms| figure::milliseconds(*ms)));
            rows.push(GridRow { cells, published: true, alarming: false });
        }
    }
    let mut heads = heads(&table.columns, &["system", "phase"]);
    let names = LADDER.map(|percentile| (format!("{percentile} %"), format!("{percentile} % took at most so many ms")));
    heads.extend(names);
    Grid { heads, rows, ..Grid::default() }
}

fn ladder_cell(op: &OpStats, percentile: f64) -> String {
    figure::measured_milliseconds(op.latency.headline().value_at(percentile) / 1e3)
}

/// One row for all runs that show the same values, but for `run`.
fn medians(steps: &[&StepRecord], table: &TableFile) -> Grid {
    let mut groups: BTreeMap<(Vec<String>, String), Vec<&StepRecord>> = BTreeMap::new();
    for step in steps {
        let values = table.columns.iter().filter(|name| Figure::named(name).is_none());
        let key = values.map(|name| step.shows.get(name).cloned().unwrap_or_default()).collect();
        groups.entry((key, system(step))).or_default().push(step);
    }
    let rows = groups.into_iter().map(|((_, system), runs)| {
        let cell = |name: &String| match Figure::named(name) {
            Some(figure) => Scatter::of(figure, &runs).map(|scatter| scatter.text()).unwrap_or_default(),
            None => runs[0].shows.get(name).cloned().unwrap_or_default(),
        };
        let cells = [system, runs.len().to_string()].into_iter().chain(table.columns.iter().map(cell)).collect();
        let alarming = runs.iter().any(|step| step.report.as_ref().is_some_and(|report| !report.is_clean()));
        GridRow { cells, published: false, alarming }
    });
    let rows = rows.collect();
    Grid { heads: heads(&table.columns, &["system", "runs"]), rows, ..Grid::default() }
}

/// The systems beside each other at one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct MedianGroup {
    /// The workload.
    pub title: String,
    /// One a system.
    pub rows: Vec<MedianRow>,
}

/// One system's median of operations a second.
#[derive(Clone, Debug, PartialEq)]
pub struct MedianRow {
    /// The system, and what else tells it apart.
    pub label: String,
    /// The median with its interval.
    pub text: String,
    /// The median.
    pub median: f64,
    /// The ends of its interval.
    pub interval: (f64, f64),
}

/// For each table of medians and each workload in it: the systems, and their medians of operations a second.
#[must_use]
pub fn median_bars(report: &SuiteReport) -> Vec<MedianGroup> {
    let mut found: Vec<MedianGroup> = Vec::new();
    for table in report.about.tables.iter().filter(|table| table.kind == TableKind::Medians) {
        let mut groups: BTreeMap<(String, String), Vec<&StepRecord>> = BTreeMap::new();
        for step in report.steps.iter().filter(|step| is_of(step, table)) {
            let values = table.columns.iter().filter(|name| Figure::named(name).is_none());
            let values: Vec<(&str, &str)> =
                values.filter_map(|name| Some((name.as_str(), step.shows.get(name)?.as_str()))).collect();
            let first = values.first().map(|(_, value)| (*value).to_owned()).unwrap_or_default();
            let label = format!("{}{}", system(step), distinct(&values));
            groups.entry((first, label)).or_default().push(step);
        }
        for ((workload, label), runs) in groups {
            let Some(scatter) = Scatter::of(Figure::Rate, &runs) else { continue };
            let title = format!("Operations a second: {workload}");
            let row = MedianRow {
                label,
                text: scatter.text(),
                median: scatter.median,
                interval: (scatter.low, scatter.high),
            };
            match found.iter_mut().find(|group| group.title == title) {
                Some(group) => group.rows.push(row),
                None => found.push(MedianGroup { title, rows: vec![row] }),
            }
        }
    }
    found
}

/// What tells rows of one workload apart, beside the system. A number says nothing without its name.
fn distinct(values: &[(&str, &str)]) -> String {
    let named = |(name, value): &(&str, &str)| match value.parse::<f64>() {
        Ok(_) => format!(", {name} {value}"),
        Err(_) => format!(", {value}"),
    };
    values.get(1..).unwrap_or_default().iter().map(named).collect()
}

impl Grid {
    /// As lines for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut widths: Vec<usize> = self.heads.iter().map(|(head, _)| head.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(&row.cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |cells: &[String]| {
            let cell = |(index, (cell, width)): (usize, (&String, &usize))| {
                if index == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            };
            let cells: Vec<String> = cells.iter().zip(&widths).enumerate().map(cell).collect();
            cells.join("  ").trim_end().to_owned()
        };
        let heads: Vec<String> = self.heads.iter().map(|(head, _)| head.clone()).collect();
        let mut out = format!("\n{}\n{}\n", self.title, line(&heads));
        for row in &self.rows {
            out.push_str(&line(&row.cells));
            out.push_str(if row.alarming { "  SOMETHING WENT WRONG\n" } else { "\n" });
        }
        out
    }
}

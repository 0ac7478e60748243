//! A suite's report as one page: the tables that stand beside published ones, what differs, then all that was measured.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::model::StepRecord;
use crate::report::SuiteReport;
use crate::workload::KNOWN;

use super::super::facts;
use super::super::suite::{
    Curve, CurveLine, Grid, MedianRow, beside, curves, differences, grids, median_bars, per_busy_core_s, per_core_s,
    timelines,
};
use super::super::warnings::Severity;
use super::bars::{Bar, figure_of, image_of};
use super::chart::{Across, Chart, Line, Mark, View};
use super::image::Image;
use super::scale::Quantity;
use super::{escape, page, plots, search};
use crate::figure;

/// The whole document.
#[must_use]
pub fn render(report: &SuiteReport) -> String {
    let mut out = String::with_capacity(512 * 1024);
    let mut data = Vec::new();
    header(&mut out, report);
    out.push_str("<section id=\"results\">\n");
    for grid in grids(report) {
        table(&mut out, &grid);
    }
    out.push_str("<div class=\"charts\">\n");
    out.push_str(&per_core(report));
    for (title, bars) in medians(report) {
        out.push_str(&figure_of(&title, "median; the whisker and the figures have its confidence interval", &bars));
    }
    out.push_str(&search_bars(report).map_or_else(String::new, |bars| figure_of(SEARCHED, SEARCHED_REMARK, &bars)));
    for (index, curve) in curves(report).iter().enumerate() {
        let chart = load_chart(index, curve);
        out.push_str(&chart.figure());
        data.extend(chart.data());
    }
    out.push_str("</div>\n</section>\n");
    differs(&mut out, report);
    for (index, (name, phase)) in timelines(report).iter().enumerate() {
        push(
            &mut out,
            format_args!(
                "<section class=\"wide\">\n<h2>{}: all steps on one axis</h2>\n<div class=\"charts\">\n",
                escape::text(name)
            ),
        );
        for chart in timeline_charts(report.steps.len() + index, phase) {
            out.push_str(&chart.figure());
            data.extend(chart.data());
        }
        out.push_str("</div>\n</section>\n");
    }
    parts(&mut out, report, &mut data);
    about(&mut out, report);
    page::document(&format!("{}: {}", report.about.name, report.about.title), &out, data)
}

fn push(out: &mut String, piece: std::fmt::Arguments<'_>) {
    out.write_fmt(piece).expect("a String takes all that is written to it");
}

fn header(out: &mut String, report: &SuiteReport) {
    let about = &report.about;
    push(
        out,
        format_args!(
            "<header>\n<p class=\"product\">Basalt bench · suite {}</p>\n<h1>{}</h1>\n<p class=\"subject\">scale {} · Basalt {} \
             · {}</p>\n<p>{}</p>\n",
            escape::text(&about.name),
            escape::text(&about.title),
            escape::text(&about.scale),
            escape::text(&about.identity.product_version),
            escape::text(&about.identity.date),
            escape::text(about.about.trim()),
        ),
    );
    page::warning_list(out, &report.warnings());
    out.push_str("</header>\n");
}

fn table(out: &mut String, grid: &Grid) {
    push(
        out,
        format_args!(
            "<h2>{}</h2>\n<div class=\"scroll\"><table class=\"grid-table\">\n<thead><tr>",
            escape::text(&grid.title)
        ),
    );
    for (head, help) in &grid.heads {
        push(out, format_args!("<th scope=\"col\" title=\"{}\">{}</th>", escape::text(help), escape::text(head)));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &grid.rows {
        out.push_str(if row.published { "<tr class=\"published\">" } else { "<tr>" });
        for cell in &row.cells {
            out.push_str(&table_cell(cell, row.alarming));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    if !grid.remark.is_empty() {
        push(out, format_args!("<p class=\"remark\">{}</p>\n", escape::text(&grid.remark)));
    }
}

/// A cell that breaks, where the table would be wider than the page, before an interval or a remark and nowhere else.
fn table_cell(cell: &str, alarming: bool) -> String {
    let alarm = if alarming { " class=\"alarm\"" } else { "" };
    let place = cell.find(" (").or_else(|| cell.find("×, ").map(|at| at + "×,".len()));
    match place.map(|at| (&cell[..at], &cell[at + 1..])) {
        Some((figure, rest)) => format!(
            "<td{alarm}><span class=\"piece\">{}</span> <span class=\"piece\">{}</span></td>",
            escape::text(figure),
            escape::text(rest)
        ),
        None => format!("<td{alarm}>{}</td>", escape::unbroken(cell)),
    }
}

/// Every chart as an image: those of the whole suite, then those of each step.
#[must_use]
pub fn images(report: &SuiteReport) -> Vec<Image> {
    let mut found = Vec::new();
    let bars = core_bars(report);
    if !bars.is_empty() {
        found.push(image_of(
            "per-core",
            "Operations a second of one core: ours, and the published one below it",
            &bars,
        ));
    }
    for (index, (title, bars)) in medians(report).iter().enumerate() {
        found.push(image_of(&format!("medians{index}"), title, bars));
    }
    found.extend(search_bars(report).map(|bars| image_of("highest-rates", SEARCHED, &bars)));
    found.extend(curves(report).iter().enumerate().map(|(index, curve)| load_chart(index, curve).image()));
    for (index, step) in report.steps.iter().enumerate() {
        let Some(report) = &step.report else { continue };
        let searches = report.searches.iter().enumerate();
        let charts =
            searches.flat_map(|(number, of)| search::charts(&format!("step{index}-search{number}"), of, report));
        found.extend(charts.map(|chart| chart.image()));
    }
    for (index, (_, phase)) in timelines(report).iter().enumerate() {
        found.extend(timeline_charts(report.steps.len() + index, phase).iter().map(Chart::image));
    }
    for (index, step) in report.steps.iter().enumerate() {
        let Some(phase) = step.phase() else { continue };
        found.extend(plots::of_phase(index, phase).iter().map(Chart::image));
    }
    found
}

/// The charts of a timeline: as wide as the page.
fn timeline_charts(index: usize, phase: &crate::model::Phase) -> Vec<Chart> {
    let charts = plots::of_phase(index, phase).into_iter();
    charts.map(|chart| Chart { wide: true, ..chart }).collect()
}

const SEARCHED: &str = "The highest rate that keeps the SLO";
const SEARCHED_REMARK: &str = "operations a second: the highest that held, and the lowest that did not";

/// What the searches found.
fn search_bars(report: &SuiteReport) -> Option<Vec<Bar>> {
    let mut bars = Vec::new();
    for step in &report.steps {
        for search in step.report.iter().flat_map(|report| &report.searches) {
            let label = format!("{}: {}", step.part.1, search.goal);
            let figures = match (search.best_per_s, search.failed_per_s) {
                (Some(best), Some(failed)) => format!("{} to {}", figure::rate(best), figure::rate(failed)),
                (Some(best), None) => format!("{} at least", figure::rate(best)),
                (None, _) => "none was found".to_owned(),
            };
            bars.push(Bar::plain(&label, figures, search.best_per_s.unwrap_or(0.0), "op-insert"));
        }
    }
    (!bars.is_empty()).then_some(bars)
}

/// Ours and theirs, core by core.
fn per_core(report: &SuiteReport) -> String {
    let bars = core_bars(report);
    if bars.is_empty() {
        return String::new();
    }
    let remark = "dark: ours by all cores of this machine, clients included; light: by the time that the store was busy; grey: \
                  published, by all cores of the servers";
    figure_of("Operations a second of one core", remark, &bars)
}

/// Systems beside each other: the medians of each workload.
fn medians(report: &SuiteReport) -> Vec<(String, Vec<Bar>)> {
    let bar = |row: MedianRow| {
        let class = if row.label.starts_with("Basalt") { "op-read" } else { "op-other" };
        Bar::plain(&row.label, row.text, row.median, class).between(row.interval.0, row.interval.1)
    };
    median_bars(report).into_iter().map(|group| (group.title, group.rows.into_iter().map(bar).collect())).collect()
}

fn core_bars(report: &SuiteReport) -> Vec<Bar> {
    let mut bars = Vec::new();
    for step in &report.steps {
        let (Some(phase), Some(row)) = (step.phase(), beside(step)) else { continue };
        let ours = step.report.as_ref().and_then(|report| per_core_s(report, phase));
        let (Some(ours), Some(theirs)) = (ours, row.per_core_s()) else { continue };
        let label = format!("{}, {}", step.part.1, step.step.1);
        bars.push(Bar::within(&label, ours, per_busy_core_s(phase), "op-read"));
        bars.push(Bar::plain(&row.of.system, figure::rate(theirs), theirs, "op-other"));
    }
    bars
}

fn load_chart(index: usize, curve: &Curve) -> Chart {
    let classes = ["op-read", "op-insert", "op-update", "op-scan"];
    let line = |(line, class): (&CurveLine, &str)| Line {
        name: line.percentile.to_owned(),
        class: class.to_owned(),
        dashed: false,
        mark: Mark::Line,
        points: line.points.clone(),
    };
    let short: Vec<String> = curve
        .loads
        .iter()
        .filter(|(offered, achieved)| *achieved < offered * 0.98)
        .map(|(offered, achieved)| format!("{} of {}", figure::rate(*achieved), figure::rate(*offered)))
        .collect();
    Chart {
        id: format!("curve{index}"),
        group: format!("curve{index}"),
        title: format!("{}: latency from the intended start against offered load", curve.name),
        summary: format!("Latency of {} at {} offered loads.", curve.name, curve.loads.len()),
        across: Across::Load,
        quantity: Quantity::Latency,
        stacked: false,
        views: vec![View { name: String::new(), lines: curve.lines.iter().zip(classes).map(line).collect() }],
        shown: 0,
        warm_up_s: 0.0,
        until_s: 0.0,
        events: Vec::new(),
        level: None,
        stretch: None,
        wide: false,
        remark: match short.is_empty() {
            true => "All that was offered was done.".to_owned(),
            false => format!("Not all was done that was offered: {} a second.", short.join(", ")),
        },
    }
}

fn differs(out: &mut String, report: &SuiteReport) {
    for (of, sentences) in differences(report) {
        push(
            out,
            format_args!(
                "<section>\n<h2>What differs from {} <small>{}, {}</small></h2>\n<ul class=\"differs\">\n",
                escape::text(&of.system),
                escape::text(&of.source),
                escape::text(&of.date)
            ),
        );
        for sentence in sentences {
            push(out, format_args!("<li>{}</li>\n", escape::text(&sentence)));
        }
        out.push_str("</ul>\n</section>\n");
    }
}

/// Every step, folded until the reader opens it.
fn parts(out: &mut String, report: &SuiteReport, data: &mut Vec<serde_json::Value>) {
    let mut parts: BTreeMap<usize, Vec<(usize, &StepRecord)>> = BTreeMap::new();
    for (index, step) in report.steps.iter().enumerate() {
        parts.entry(step.part.0).or_default().push((index, step));
    }
    out.push_str("<section>\n<h2>All steps</h2>\n");
    for steps in parts.values() {
        push(out, format_args!("<h3>{}</h3>\n", escape::text(&steps[0].1.part.1)));
        for (index, step) in steps {
            // The timelines have the numbers that follow the steps' own; further phases of one step lie beyond them.
            one(out, *index, report.steps.len() * 2, step, data);
        }
    }
    out.push_str("</section>\n");
}

fn one(out: &mut String, index: usize, report_steps: usize, step: &StepRecord, data: &mut Vec<serde_json::Value>) {
    let line = match step.phase() {
        Some(phase) => format!(
            "{} · {} operations/s over {}",
            phase.title,
            figure::rate(phase.throughput_per_s),
            figure::span(phase.duration_s)
        ),
        None => format!("{} · {}", step.does, figure::span(step.took_s)),
    };
    let unfinished = if step.done { "" } else { " · not done" };
    push(
        out,
        format_args!(
            "<details><summary>{} <small>{}{unfinished}</small></summary>\n",
            escape::text(&step.step.1),
            escape::text(&line)
        ),
    );
    for text in step.notes.iter().cloned().chain(step.events.iter().map(|event| format!("{}.", event.label))) {
        push(out, format_args!("<p class=\"remark\">{}</p>\n", escape::text(&text)));
    }
    if let Some(report) = &step.report {
        let mut warnings = super::super::warnings(report);
        // What holds for all steps is told once, above.
        warnings.retain(|warning| warning.severity != Severity::Note && !warning.text.contains("debug build"));
        page::warning_list(out, &warnings);
        for (number, of) in report.searches.iter().enumerate() {
            search::section(out, &format!("step{index}-search{number}"), of, report, data);
        }
        // From a search only the trial that stands for it is drawn whole: the others are points of its chart.
        let drawn: Vec<_> = match report.searches.is_empty() {
            true => report.phases.iter().collect(),
            false => step.phase().into_iter().collect(),
        };
        for (number, phase) in drawn.into_iter().enumerate() {
            page::section(out, index + number * report_steps, phase, data);
        }
        out.push_str("<div class=\"columns\"><section>\n");
        let facts = facts::configuration(report);
        page::pairs(out, facts.iter().map(|(name, value)| (*name, value.as_str())));
        out.push_str("</section>\n<section>\n");
        let chosen = report.configuration.properties.iter().filter(|(name, value)| {
            !KNOWN.iter().any(|known| known.name == name.as_str() && known.default == value.as_str())
        });
        page::pairs(out, chosen.map(|(name, value)| (name.as_str(), value.as_str())));
        out.push_str("</section></div>\n");
    }
    out.push_str("</details>\n");
}

fn about(out: &mut String, report: &SuiteReport) {
    out.push_str("<div class=\"columns\">\n<section>\n<h2>Environment</h2>\n");
    page::pairs(out, report.environment().iter().map(|(name, value)| (*name, value.as_str())));
    push(
        out,
        format_args!(
            "</section>\n<section>\n<h2>Scale {}</h2>\n<p>{}</p>\n",
            escape::text(&report.about.scale),
            escape::text(&report.about.takes)
        ),
    );
    page::pairs(out, report.about.names.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    out.push_str("</section>\n</div>\n");
    if let Some(first) = report.steps.iter().find_map(|step| step.report.as_ref()) {
        out.push_str("<section class=\"method\">\n<h2>Method</h2>\n<dl>\n");
        for (heading, paragraph) in facts::method(first) {
            push(out, format_args!("<dt>{heading}</dt><dd>{}</dd>\n", escape::text(&paragraph)));
        }
        out.push_str("</dl>\n</section>\n");
    }
    push(
        out,
        format_args!(
            "<section>\n<h2>Run it again</h2>\n<pre>{}</pre>\n<p class=\"remark\">The raw data of every step are in the folder \
             `steps` beside this page, the suite's file is suite.toml; `basalt bench report` draws this page from them \
             again.</p>\n</section>\n",
            escape::text(&facts::quoted(&report.about.identity.command_line))
        ),
    );
}

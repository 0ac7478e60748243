//! The page's parts in the order in which a sceptical reader wants them: what is wrong, the figures, the charts, what
//! was measured, how, and how to repeat it.

use std::fmt::Write as _;

use crate::model::{CpuTime, LatencySummary, Phase, RunReport};

use super::super::headline::{self, COLUMNS};
use super::super::warnings::{Warning, warnings};
use super::super::{facts, resources, searched};
use super::{bars, escape, plots, search};
use crate::figure;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("charts.js");

/// The whole document.
#[must_use]
pub fn render(report: &RunReport) -> String {
    let mut out = String::with_capacity(256 * 1024);
    header(&mut out, report);
    let mut data = Vec::new();
    for (index, search) in report.searches.iter().enumerate() {
        let title = escape::text(&searched::title(search));
        push(&mut out, format_args!("<section id=\"search{index}\">\n<h2>{title}</h2>\n"));
        search::section(&mut out, &format!("search{index}"), search, report, &mut data);
        out.push_str("</section>\n");
    }
    // A search shows its trials; the figures of each trial are folded up, for readers who doubt.
    let closed = !report.searches.is_empty();
    if closed {
        let phases = figure::plural(report.phases.len() as u64, "phase");
        push(&mut out, format_args!("<details>\n<summary>All that was measured <small>{phases}</small></summary>\n"));
    }
    results(&mut out, report);
    for (index, phase) in report.phases.iter().enumerate() {
        section(&mut out, index, phase, &mut data);
    }
    if closed {
        out.push_str("</details>\n");
    }
    about(&mut out, report);
    document(&format!("{}: {}", report.identity.name, report.configuration.target), &out, data)
}

/// A document around `body`, with the data of its charts.
pub(super) fn document(title: &str, body: &str, data: Vec<serde_json::Value>) -> String {
    let mut out = String::with_capacity(body.len() + 64 * 1024);
    // The policy keeps the page to that: the browser itself refuses to fetch anything.
    push(
        &mut out,
        format_args!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{} · Basalt bench</title>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
            escape::text(title)
        ),
    );
    out.push_str(body);
    let json = escape::json(&serde_json::Value::Array(data).to_string());
    push(
        &mut out,
        format_args!(
            "</main>\n<script type=\"application/json\" id=\"data\">{json}</script>\n<script>\n{SCRIPT}</script>\n\
             </body>\n</html>\n"
        ),
    );
    out
}

fn push(out: &mut String, piece: std::fmt::Arguments<'_>) {
    out.write_fmt(piece).expect("a String takes all that is written to it");
}

fn header(out: &mut String, report: &RunReport) {
    let asked = &report.configuration;
    push(
        out,
        format_args!(
            "<header>\n<p class=\"product\">Basalt bench</p>\n<h1>{}</h1>\n<p class=\"subject\">{} · {} · durability {} · \
             replication {} · consistency {} · {}</p>\n",
            escape::text(&report.identity.name),
            escape::text(&asked.target),
            escape::text(&asked.system),
            escape::text(&asked.durability),
            escape::text(&asked.replication),
            escape::text(&asked.consistency),
            escape::text(&report.identity.date),
        ),
    );
    warning_list(out, &warnings(report));
    out.push_str("</header>\n");
}

/// What to know first.
pub(super) fn warning_list(out: &mut String, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    out.push_str("<ul class=\"warnings\" aria-label=\"What to know first\">\n");
    for warning in warnings {
        let word = warning.severity.word();
        let text = escape::text(&warning.text);
        push(out, format_args!("<li class=\"{word}\"><b>{word}</b><span>{text}</span></li>\n"));
    }
    out.push_str("</ul>\n");
}

fn results(out: &mut String, report: &RunReport) {
    out.push_str(
        "<section id=\"results\">\n<h2>Results</h2>\n<div class=\"scroll\"><table class=\"results\">\n<thead><tr>",
    );
    out.push_str("<th scope=\"col\">phase</th><th scope=\"col\">operation</th>");
    for column in &COLUMNS {
        push(out, format_args!("<th scope=\"col\" class=\"n\" title=\"{}\">{}</th>", column.help, column.name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut phases = report.phases.iter().enumerate();
    for row in headline::rows(report) {
        let first = if row.phase.is_empty() { None } else { phases.next() };
        out.push_str(if first.is_some() { "<tr class=\"first\">" } else { "<tr>" });
        match first {
            Some((index, phase)) => {
                let name = escape::text(&phase.name);
                push(out, format_args!("<th scope=\"row\"><a href=\"#phase{index}\">{name}</a></th>"));
            }
            None => out.push_str("<td></td>"),
        }
        let class = if row.is_total { "total" } else { plots::class_of(&row.op) };
        push(out, format_args!("<td><i class=\"key {class}\"></i>{}</td>", escape::text(&row.op)));
        for (column, cell) in row.cells.iter().enumerate() {
            let class = if row.alarms(column) { "n alarm" } else { "n" };
            push(out, format_args!("<td class=\"{class}\">{}</td>", escape::unbroken(cell)));
        }
        out.push_str("</tr>\n");
    }
    push(
        out,
        format_args!(
            "</tbody>\n</table></div>\n<p class=\"remark\">{} The figures show {}. CPU s/M: CPU seconds per million \
             operations. Warm-up is in none of the figures.</p>\n<div class=\"charts\">\n{}</div>\n</section>\n",
            escape::text(&headline::verdict(report)),
            headline::latency_basis(report),
            bars::render(report)
        ),
    );
}

pub(super) fn section(out: &mut String, index: usize, phase: &Phase, data: &mut Vec<serde_json::Value>) {
    let title = if phase.title.is_empty() { String::new() } else { format!(" {}", phase.title) };
    push(
        out,
        format_args!(
            "<section class=\"phase\" id=\"phase{index}\">\n<h2>Phase {} <small>{}</small></h2>\n<p class=\"facts\">{}</p>\n",
            escape::text(&phase.name),
            escape::text(title.trim()),
            escape::text(&facts_of(phase))
        ),
    );
    out.push_str("<div class=\"charts\">\n");
    for chart in plots::of_phase(index, phase) {
        out.push_str(&chart.figure());
        // A figure that is not a number has failed the validation; without data the drawing still stands.
        data.extend(chart.data());
    }
    out.push_str("</div>\n");
    ladder(out, phase);
    nodes(out, phase);
    out.push_str("</section>\n");
}

/// What each node used.
fn nodes(out: &mut String, phase: &Phase) {
    let rows = resources::node_rows(phase);
    if rows.is_empty() {
        return;
    }
    out.push_str("<div class=\"scroll\"><table class=\"ladder\">\n<thead><tr>");
    for (index, head) in resources::NODE_HEADS.iter().enumerate() {
        let class = if index == 0 { "" } else { " class=\"n\"" };
        push(out, format_args!("<th scope=\"col\"{class}>{head}</th>"));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let class = if index == 0 { "" } else { " class=\"n\"" };
            push(out, format_args!("<td{class}>{}</td>", escape::unbroken(cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn facts_of(phase: &Phase) -> String {
    let offered = phase.offered_per_s.map_or_else(String::new, |rate| format!(" of {} offered", figure::rate(rate)));
    let warm_up = match phase.warm_up_s {
        0.0 => "without warm-up".to_owned(),
        seconds => format!("after {} of warm-up", figure::span(seconds)),
    };
    let failed = match phase.failed() {
        0 => String::new(),
        failed => format!(", of which {} failed,", figure::count(failed)),
    };
    let mut text = format!(
        "{} operations{failed} in {} {warm_up}: {}/s{offered}. From {} to {}.",
        figure::count(phase.operations),
        figure::span(phase.duration_s),
        figure::rate(phase.throughput_per_s),
        phase.started_at,
        phase.ended_at,
    );
    let whose = [("client", phase.cpu.client), ("server", phase.cpu.server), ("process", phase.cpu.process)];
    for (whose, cpu) in whose {
        let Some(cpu) = cpu else { continue };
        text.push_str(&format!(" CPU of the {whose}: {}.", cpu_text(phase, &cpu)));
    }
    for sentence in resources::sentences(phase) {
        text.push(' ');
        text.push_str(&sentence);
    }
    text
}

fn cpu_text(phase: &Phase, cpu: &CpuTime) -> String {
    let each = phase
        .per_million(cpu.total_s())
        .map_or_else(String::new, |seconds| format!(", {} s per million operations", figure::cpu_seconds(seconds)));
    let cores = if phase.duration_s > 0.0 {
        format!(" ({:.2} cores)", cpu.total_s() / phase.duration_s)
    } else {
        String::new()
    };
    format!("{:.1} s user, {:.1} s system{cores}{each}", cpu.user_s, cpu.system_s)
}

fn ladder(out: &mut String, phase: &Phase) {
    out.push_str(
        "<div class=\"scroll\"><table class=\"ladder\">\n<thead><tr><th scope=\"col\">operation</th><th scope=\"col\">from</th>",
    );
    for head in ["count", "mean", "min", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"] {
        push(out, format_args!("<th scope=\"col\" class=\"n\">{head}</th>"));
    }
    out.push_str("<th scope=\"col\">returned</th></tr></thead>\n<tbody>\n");
    for op in &phase.ops {
        let returned: Vec<String> =
            op.returned.iter().map(|(code, times)| format!("{code} {}", figure::count(*times))).collect();
        let kinds = op.errors.iter().map(|(kind, times)| format!("{kind} {}", figure::count(*times)));
        let counted = [("verified", op.verified), ("wrong", op.verification_failures)];
        let more = [("retries", op.retries), ("conflicts", op.conflicts), ("unknown", op.unknown), ("stale", op.stale)];
        let counted = counted.into_iter().chain(more);
        let counted = counted.filter(|(_, times)| *times > 0);
        let counted = counted.map(|(name, times)| format!("{} {name}", figure::count(times)));
        let more: Vec<String> = returned.into_iter().chain(kinds).chain(counted).collect();
        let intended = op.latency.intended.iter().map(|latency| ("due", latency, ""));
        let failed = op.failed_latency.iter().map(|latency| ("sent, failed", latency, ""));
        for (from, latency, more) in
            std::iter::once(("sent", &op.latency.measured, more.join(", ").as_str())).chain(intended).chain(failed)
        {
            ladder_row(out, &op.op, from, latency, more);
        }
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn ladder_row(out: &mut String, op: &str, from: &str, latency: &LatencySummary, more: &str) {
    let class = plots::class_of(op);
    push(
        out,
        format_args!(
            "<tr><td><i class=\"key {class}\"></i>{}</td><td>{from}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
            escape::text(op),
            figure::count(latency.count),
            escape::unbroken(&figure::latency(latency.mean_us))
        ),
    );
    for (_, us) in latency.ladder() {
        push(out, format_args!("<td class=\"n\">{}</td>", escape::unbroken(&figure::latency(us))));
    }
    push(out, format_args!("<td>{}</td></tr>\n", escape::text(more)));
}

fn about(out: &mut String, report: &RunReport) {
    out.push_str("<div class=\"columns\">\n<section>\n<h2>Configuration</h2>\n");
    pairs(out, facts::configuration(report).iter().map(|(name, value)| (*name, value.as_str())));
    out.push_str("</section>\n<section>\n<h2>Environment</h2>\n");
    pairs(out, facts::environment(report).iter().map(|(name, value)| (*name, value.as_str())));
    out.push_str("</section>\n<section>\n<h2>Workload properties</h2>\n");
    pairs(out, report.configuration.properties.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    out.push_str("</section>\n</div>\n<section class=\"method\">\n<h2>Method</h2>\n<dl>\n");
    for (heading, paragraph) in facts::method(report) {
        push(out, format_args!("<dt>{heading}</dt><dd>{}</dd>\n", escape::text(&paragraph)));
    }
    push(
        out,
        format_args!(
            "</dl>\n</section>\n<section>\n<h2>Run it again</h2>\n<pre>{}</pre>\n<p class=\"remark\">The data behind this \
             page is in report.json beside it.</p>\n</section>\n",
            escape::text(&facts::command_line(report))
        ),
    );
}

pub(super) fn pairs<'a>(out: &mut String, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push_str("<table class=\"pairs\"><tbody>\n");
    for (name, value) in pairs {
        let (name, value) = (escape::text(name), escape::text(value));
        push(out, format_args!("<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>\n"));
    }
    out.push_str("</tbody></table>\n");
}

//! A search for a rate as it is looked at: all trials as points under the bound that they had to keep, and as a table.

use std::fmt::Write as _;

use crate::model::{RunReport, Search};

use super::super::searched::{self, HEADS, Trials};
use super::chart::{Across, Chart, Line, Mark, View};
use super::escape;
use super::scale::Quantity;
use crate::figure;

/// The answer, the charts and the trials. `place` tells its charts from others of the page.
pub(super) fn section(
    out: &mut String,
    place: &str,
    search: &Search,
    report: &RunReport,
    data: &mut Vec<serde_json::Value>,
) {
    let interval = searched::interval(search).unwrap_or_default();
    push(
        out,
        format_args!(
            "<p class=\"answer\"><b>{}</b> {}</p>\n<div class=\"charts\">\n",
            escape::text(&search.answer),
            escape::text(&interval)
        ),
    );
    for chart in charts(place, search, report) {
        out.push_str(&chart.figure());
        data.extend(chart.data());
    }
    out.push_str("</div>\n");
    table(out, search);
}

/// One chart for each latency of the objective.
pub(super) fn charts(place: &str, search: &Search, report: &RunReport) -> Vec<Chart> {
    let pictures = searched::pictures(search, report);
    let drawn = pictures.iter().filter(|trials| trials.held.len() + trials.failed.len() > 0);
    drawn.enumerate().map(|(number, trials)| chart(&format!("{place}-{number}"), search, trials)).collect()
}

fn chart(id: &str, search: &Search, trials: &Trials) -> Chart {
    let line = |name: &str, class: &str, mark: Mark, points: &[(f64, f64)]| Line {
        name: name.to_owned(),
        class: class.to_owned(),
        dashed: false,
        mark,
        points: points.to_vec(),
    };
    let (kept, broken) = if trials.bound_us.is_some() { ("holds", "does not") } else { ("keeps up", "falls behind") };
    let lines =
        vec![line(kept, "op-insert", Mark::Disc, &trials.held), line(broken, "op-update", Mark::Cross, &trials.failed)];
    let bound = trials.bound_us.map(|us| (us, format!("bound {}", figure::latency(us))));
    Chart {
        id: id.to_owned(),
        group: id.to_owned(),
        title: format!("{} of each trial against offered load", trials.name),
        summary: format!("{} of {} trials. {}", trials.name, search.trials.len(), search.answer),
        across: Across::Load,
        quantity: Quantity::Latency,
        stacked: false,
        views: vec![View { name: String::new(), lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect() }],
        shown: 0,
        warm_up_s: 0.0,
        until_s: 0.0,
        events: Vec::new(),
        level: bound,
        stretch: search.best_per_s.zip(search.failed_per_s),
        wide: false,
        remark: "Open loop, latency from the intended start; of the slowest kind of operation unless one is named. The \
                 stretch that is marked is where the answer lies. A trial may stay below the bound and fail all the same, \
                 because it fell behind or operations failed: the table says why."
            .to_owned(),
    }
}

fn table(out: &mut String, search: &Search) {
    out.push_str("<div class=\"scroll\"><table class=\"ladder trials\">\n<thead><tr>");
    for (index, head) in HEADS.iter().enumerate() {
        push(out, format_args!("<th scope=\"col\"{}>{head}</th>", class(index, "")));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (row, one) in searched::rows(search).iter().zip(&search.trials) {
        out.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let more = if index == VERDICT && !one.holds && !one.set_aside { " alarm" } else { "" };
            let text = if index == WHY { escape::text(cell) } else { escape::unbroken(cell) };
            push(out, format_args!("<td{}>{text}</td>", class(index, more)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// Columns of [`HEADS`] that are not figures.
const VERDICT: usize = 5;
const WHY: usize = 6;

fn class(column: usize, more: &str) -> String {
    let figure = if (1..VERDICT).contains(&column) { "n" } else { "" };
    match (figure, more) {
        ("", "") => String::new(),
        _ => format!(" class=\"{}\"", format!("{figure}{more}").trim()),
    }
}

fn push(out: &mut String, piece: std::fmt::Arguments<'_>) {
    out.write_fmt(piece).expect("a String takes all that is written to it");
}

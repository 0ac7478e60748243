//! Bars that compare the phases at a glance: throughput by phase, and median and 99th percentile by operation. Each bar
//! begins at zero and carries its figures, so that it can be read without its axis.

use std::fmt::Write as _;

use crate::model::{OpStats, Phase, RunReport};

use super::escape;
use super::image::Image;
use super::plots::class_of;
use crate::figure;

const WIDTH: f64 = 560.0;
/// Room for figures beside the longest bar, at least.
const FIGURES: f64 = 132.0;
const FIGURE_CHARACTER: f64 = 7.0;
const LABEL_CHARACTER: f64 = 7.0;
const LABEL_MAX: usize = 30;
/// Longer labels stand above their bars, and are cut here.
const LABEL_ABOVE_MAX: usize = 84;
const LABEL_LINE: f64 = 14.0;
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;

/// One piece of a bar: from zero, or from the end of the one before.
struct Piece {
    class: String,
    from: f64,
    to: f64,
    tooltip: String,
}

pub(super) struct Bar {
    label: String,
    figures: String,
    pieces: Vec<Piece>,
    /// Where the true value lies, as far as is known.
    interval: Option<(f64, f64)>,
}

impl Bar {
    /// A bar of one piece from zero on.
    pub(super) fn plain(label: &str, figures: String, value: f64, class: &str) -> Self {
        let piece = Piece { class: class.to_owned(), from: 0.0, to: value, tooltip: format!("{label}: {figures}") };
        Self { label: label.to_owned(), figures, pieces: vec![piece], interval: None }
    }

    /// The same bar with a whisker over it.
    pub(super) fn between(self, low: f64, high: f64) -> Self {
        Self { interval: (low < high).then_some((low, high)), ..self }
    }

    /// A bar within a longer and lighter one, if there is that.
    pub(super) fn within(label: &str, value: f64, most: Option<f64>, class: &str) -> Self {
        let mut bar = Self::plain(label, figure::rate(value), value, class);
        if let Some(most) = most {
            let text = figure::rate(most);
            let tooltip = format!("{label}: {text}");
            bar.figures = format!("{} · {text}", bar.figures);
            bar.pieces.insert(0, Piece { class: format!("{class} light"), from: 0.0, to: most, tooltip });
        }
        bar
    }

    /// How far it reaches.
    fn end(&self) -> f64 {
        let pieces = self.pieces.iter().map(|piece| piece.to).fold(0.0, f64::max);
        self.interval.map_or(pieces, |(_, high)| pieces.max(high))
    }
}

/// Both figures.
#[must_use]
pub fn render(report: &RunReport) -> String {
    let phases = &report.phases;
    let latencies: Vec<Bar> = phases.iter().flat_map(|phase| phase.ops.iter().map(|op| latency(phase, op))).collect();
    let rates: Vec<Bar> = phases.iter().map(throughput).collect();
    let mut out = figure_of("Operations a second of each phase", "", &rates);
    out.push_str(&figure_of("Latency of each operation", "dark: median; light: 99th percentile", &latencies));
    out
}

fn throughput(phase: &Phase) -> Bar {
    let mut end = 0.0;
    let total = phase.operations.max(1) as f64;
    let pieces = phase
        .ops
        .iter()
        .map(|op| {
            let (from, rate) = (end, phase.throughput_per_s * op.count() as f64 / total);
            end += rate;
            let tooltip = format!("{}: {}/s", op.op, figure::rate(rate));
            Piece { class: class_of(&op.op).to_owned(), from, to: end, tooltip }
        })
        .collect();
    Bar { label: phase.name.clone(), figures: figure::rate(phase.throughput_per_s), pieces, interval: None }
}

fn latency(phase: &Phase, op: &OpStats) -> Bar {
    let shown = op.latency.headline();
    let piece = |name: &str, light: &str, us: f64| Piece {
        class: format!("{}{light}", class_of(&op.op)),
        from: 0.0,
        to: us,
        tooltip: format!("{name} {}", figure::latency(us)),
    };
    let op_name = if op.op == "READ-MODIFY-WRITE" { "RMW" } else { &op.op };
    Bar {
        label: format!("{} {op_name}", phase.name),
        figures: format!("{} / {}", figure::latency(shown.p50_us), figure::latency(shown.p99_us)),
        pieces: vec![piece("p99", " light", shown.p99_us), piece("p50", "", shown.p50_us)],
        interval: None,
    }
}

pub(super) fn figure_of(title: &str, remark: &str, bars: &[Bar]) -> String {
    let spoken: Vec<String> = bars.iter().map(|bar| format!("{}: {}", bar.label, bar.figures)).collect();
    let (inside, height) = drawing(bars);
    format!(
        "<figure class=\"bars\"><figcaption>{title}</figcaption><div class=\"legend\">{remark}</div>\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}. {}\">{inside}</svg></figure>\n",
        escape::text(title),
        escape::text(&spoken.join("; "))
    )
}

/// The bars as an image of their own.
pub(super) fn image_of(id: &str, title: &str, bars: &[Bar]) -> Image {
    let (inside, height) = drawing(bars);
    Image::new(id, title, std::iter::empty(), (WIDTH, height), &inside)
}

/// What is inside of the picture, and how high it is.
fn drawing(bars: &[Bar]) -> (String, f64) {
    let longest = bars.iter().map(Bar::end).fold(0.0, f64::max);
    let widest = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    let above = widest > LABEL_MAX;
    let labels = if above { 2.0 } else { widest as f64 * LABEL_CHARACTER + 10.0 };
    let figures =
        bars.iter().map(|bar| bar.figures.chars().count() as f64 * FIGURE_CHARACTER + 8.0).fold(FIGURES, f64::max);
    let unit = if longest > 0.0 { (WIDTH - labels - figures).max(WIDTH / 5.0) / longest } else { 0.0 };
    let row = if above { ROW + LABEL_LINE } else { ROW };
    let height = bars.len() as f64 * row + 4.0;
    let mut out = String::new();
    for (index, bar) in bars.iter().enumerate() {
        let top = index as f64 * row + 4.0 + if above { LABEL_LINE } else { 0.0 };
        let label: String = bar.label.chars().take(LABEL_ABOVE_MAX).collect();
        let mut end = labels;
        let (class, x, y) = match above {
            true => ("bar-label above", labels + 4.0, top - 3.0),
            false => ("bar-label", labels - 8.0, top + BAR - 3.0),
        };
        push(&mut out, format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y:.1}\">{}</text>", escape::text(&label)));
        for piece in &bar.pieces {
            let width = ((piece.to - piece.from) * unit).max(0.6);
            let x = labels + piece.from * unit;
            end = f64::max(end, x + width);
            push(
                &mut out,
                format_args!(
                    "<rect class=\"bar {}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR}\"><title>{}\
                     </title></rect>",
                    piece.class,
                    escape::text(&piece.tooltip)
                ),
            );
        }
        if let Some((low, high)) = bar.interval {
            let (from, to, middle) = (labels + low * unit, labels + high * unit, top + BAR / 2.0);
            end = f64::max(end, to);
            push(
                &mut out,
                format_args!(
                    "<path class=\"whisker\" d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {:.1}v8M{to:.1} {:.1}v8\"/>",
                    middle - 4.0,
                    middle - 4.0
                ),
            );
        }
        push(
            &mut out,
            format_args!(
                "<text class=\"bar-figure\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                end + 6.0,
                top + BAR - 3.0,
                escape::text(&bar.figures)
            ),
        );
    }
    push(&mut out, format_args!("<path class=\"axis\" d=\"M{labels} 0V{height}\"/>"));
    (out, height)
}

fn push(out: &mut String, piece: std::fmt::Arguments<'_>) {
    out.write_fmt(piece).expect("a String takes all that is written to it");
}

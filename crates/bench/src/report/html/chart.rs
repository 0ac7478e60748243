//! A chart of lines or stacked areas over time, or of distributions, as SVG that stands without a script. The same
//! figures go into the page as data, from which `charts.js` adds the read-out and zooming.

use std::fmt::Write as _;

use serde::Serialize;

use super::escape;
use super::image::Image;
use super::scale::{self, Quantity};

/// The drawing's size in its own units, and the margins of the plot inside it.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 236.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 28.0;
/// Labels of events that stand too close move down by one of these steps, in turn.
const EVENT_ROWS: usize = 3;
/// Room that a character of an event's label takes.
const EVENT_CHARACTER: f64 = 5.4;
/// Longer labels are cut; the whole one is in the tooltip and the list below the chart.
const EVENT_LABEL_MAX: usize = 34;

/// What the horizontal axis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Across {
    /// Seconds since the phase began.
    Time,
    /// Nines of a percentile, see [`scale::nines`].
    Percentile,
    /// Operations a second that are offered.
    Load,
}

/// One line or area.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// The CSS class that colours it.
    pub class: String,
    /// Whether it is drawn dashed.
    pub dashed: bool,
    /// Its points, in order of x.
    pub points: Vec<(f64, f64)>,
}

/// A choice of lines, e.g. those of one percentile.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// What the button that shows it says.
    pub name: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// The whole chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Unique in the page.
    pub id: String,
    /// Charts of one group share their horizontal axis.
    pub group: String,
    /// Above the chart.
    pub title: String,
    /// For those who cannot see it.
    pub summary: String,
    /// The horizontal axis.
    pub across: Across,
    /// The vertical one; logarithmic for distributions only.
    pub quantity: Quantity,
    /// Whether lines are areas on top of each other.
    pub stacked: bool,
    /// What can be shown.
    pub views: Vec<View>,
    /// Which of the views is.
    pub shown: usize,
    /// Where the measured part begins.
    pub warm_up_s: f64,
    /// When what happened.
    pub events: Vec<(f64, String)>,
    /// A line of explanation below.
    pub remark: String,
}

/// What the script needs to draw it again.
#[derive(Serialize)]
struct Data<'a> {
    id: &'a str,
    group: &'a str,
    across: Across,
    quantity: &'static str,
    stacked: bool,
    views: &'a [View],
    shown: usize,
    warm: f64,
    events: &'a [(f64, String)],
    frame: [f64; 6],
}

/// Maps values to the drawing.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    logarithmic: bool,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        let (low, high) = self.x;
        LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let (low, high) = self.y;
        let share = if self.logarithmic {
            (value.max(low) / low).log10() / (high / low).log10()
        } else {
            (value - low) / (high - low)
        };
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }
}

impl Chart {
    /// The data for the script.
    ///
    /// # Errors
    /// When a figure is not a number.
    pub fn data(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(Data {
            id: &self.id,
            group: &self.group,
            across: self.across,
            quantity: self.quantity.name(),
            stacked: self.stacked,
            views: &self.views,
            shown: self.shown,
            warm: self.warm_up_s,
            events: &self.events,
            frame: [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM],
        })
    }

    /// The figure element.
    #[must_use]
    pub fn figure(&self) -> String {
        let mut out = format!(
            "<figure class=\"chart\" id=\"{}\"><figcaption>{} <span class=\"view\">{}</span></figcaption>{}",
            self.id,
            escape::text(&self.title),
            self.views.get(self.shown).map_or("", |view| &view.name),
            self.legend()
        );
        push(
            &mut out,
            format_args!(
                "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
                escape::text(&self.summary)
            ),
        );
        self.drawing(&mut out);
        out.push_str("</svg>");
        if !self.remark.is_empty() {
            push(&mut out, format_args!("<p class=\"remark\">{}</p>", escape::text(&self.remark)));
        }
        out.push_str("</figure>\n");
        out
    }

    /// The chart with its title and legend as an image of its own.
    #[must_use]
    pub fn image(&self) -> Image {
        let lines = self.views.get(self.shown).map_or(&[][..], |view| &view.lines);
        let view = self.views.get(self.shown).map_or("", |view| view.name.as_str());
        let names = lines.iter().map(|line| (line.class.clone(), line.name.clone()));
        let title = format!("{} {view}", self.title);
        let mut out = String::new();
        self.drawing(&mut out);
        Image::new(&self.id, title.trim(), names, (WIDTH, HEIGHT), &out)
    }

    /// What is inside of the picture.
    fn drawing(&self, out: &mut String) {
        let (frame, ticks) = self.frame();
        let right = WIDTH - RIGHT;
        push(
            out,
            format_args!(
                "<defs><clipPath id=\"{}-clip\">\
                 <rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/></clipPath></defs>",
                self.id,
                right - LEFT,
                HEIGHT - TOP - BOTTOM,
            ),
        );
        out.push_str("<g class=\"axes\">");
        self.axes(out, &frame, &ticks);
        push(out, format_args!("</g><g class=\"plot\" clip-path=\"url(#{}-clip)\">", self.id));
        let lines = self.views.get(self.shown).map_or(&[][..], |view| &view.lines);
        if self.stacked {
            areas(out, lines, &frame);
        } else {
            for line in lines {
                let dashed = if line.dashed { " dashed" } else { "" };
                let path = path(&line.points, &frame);
                push(out, format_args!("<path class=\"line {}{dashed}\" d=\"{path}\"/>", line.class));
            }
        }
        out.push_str("</g><g class=\"marks\">");
        self.marks(out, &frame);
        out.push_str("</g>");
    }

    fn legend(&self) -> String {
        let mut out = String::from("<div class=\"legend\">");
        for line in self.views.get(self.shown).map_or(&[][..], |view| &view.lines) {
            let dashed = if line.dashed { " dashed" } else { "" };
            push(
                &mut out,
                format_args!("<span><i class=\"key {}{dashed}\"></i>{}</span>", line.class, escape::text(&line.name)),
            );
        }
        out.push_str("</div>");
        out
    }

    /// The map from values to the drawing that shows everything, and the ticks of the vertical axis.
    fn frame(&self) -> (Frame, Vec<f64>) {
        let lines = self.views.get(self.shown).map_or(&[][..], |view| &view.lines);
        let xs = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let ys = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let high_x = xs().fold(0.0, f64::max);
        let x = (0.0, if high_x > 0.0 { high_x } else { 1.0 });
        if self.across != Across::Time {
            let ticks = scale::logarithmic(ys().fold(f64::INFINITY, f64::min), ys().fold(0.0, f64::max));
            let y = (ticks[0], ticks[ticks.len() - 1]);
            return (Frame { x, y, logarithmic: true }, ticks);
        }
        let high_y = if self.stacked {
            stack(lines).last().map_or(0.0, |top| top.iter().map(|point| point.1).fold(0.0, f64::max))
        } else {
            ys().fold(0.0, f64::max)
        };
        let ticks = scale::linear(high_y);
        (Frame { x, y: (0.0, ticks[ticks.len() - 1]), logarithmic: false }, ticks)
    }

    fn axes(&self, out: &mut String, frame: &Frame, ticks: &[f64]) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        if self.warm_up_s > 0.0 {
            let end = frame.x(self.warm_up_s).clamp(LEFT, right);
            push(
                out,
                format_args!(
                    "<rect class=\"warm\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\
                     <text class=\"warm-name\" x=\"{:.1}\" y=\"{:.1}\">warm-up</text>",
                    end - LEFT,
                    bottom - TOP,
                    LEFT + 4.0,
                    TOP + 11.0
                ),
            );
        }
        for tick in ticks {
            let y = frame.y(*tick);
            let label = self.quantity.tick(*tick);
            push(
                out,
                format_args!(
                    "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>\
                     <text class=\"y\" x=\"{}\" y=\"{:.1}\">{label}</text>",
                    LEFT - 6.0,
                    y + 3.5
                ),
            );
        }
        let (low, high) = frame.x;
        let across = match self.across {
            Across::Time => scale::time(low, high),
            Across::Percentile => scale::percentiles(high),
            Across::Load => scale::loads(low, high),
        };
        for (value, label) in across {
            let x = frame.x(value);
            if self.across == Across::Percentile {
                push(out, format_args!("<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>"));
            }
            push(
                out,
                format_args!(
                    "<path class=\"tick\" d=\"M{x:.1} {bottom}v4\"/>\
                     <text class=\"x\" x=\"{x:.1}\" y=\"{}\">{label}</text>",
                    bottom + 17.0
                ),
            );
        }
        push(out, format_args!("<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>"));
    }

    fn marks(&self, out: &mut String, frame: &Frame) {
        for (index, (t_s, label)) in self.events.iter().enumerate() {
            let x = frame.x(*t_s);
            if !(LEFT..=WIDTH - RIGHT).contains(&x) {
                continue;
            }
            let y = TOP - 6.0 + (index % EVENT_ROWS) as f64 * 11.0;
            let short: String = label.chars().take(EVENT_LABEL_MAX).collect();
            let leftwards = x + short.chars().count() as f64 * EVENT_CHARACTER > WIDTH - RIGHT;
            let (anchor, at) = if leftwards { ("end", x - 4.0) } else { ("start", x + 4.0) };
            push(
                out,
                format_args!(
                    "<g class=\"event\"><title>{}</title><path d=\"M{x:.1} {:.1}V{}\"/>\
                     <text x=\"{at:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text></g>",
                    escape::text(label),
                    TOP - 14.0,
                    HEIGHT - BOTTOM,
                    escape::text(&short)
                ),
            );
        }
    }
}

fn push(out: &mut String, piece: std::fmt::Arguments<'_>) {
    out.write_fmt(piece).expect("a String takes all that is written to it");
}

fn path(points: &[(f64, f64)], frame: &Frame) -> String {
    let mut out = String::with_capacity(points.len() * 12);
    for (index, (x, y)) in points.iter().enumerate() {
        let letter = if index == 0 { 'M' } else { 'L' };
        push(&mut out, format_args!("{letter}{:.1} {:.1}", frame.x(*x), frame.y(*y)));
    }
    out
}

/// Each line raised by the sum of those below it at the same x; a line without a point there counts as 0.
fn stack(lines: &[Line]) -> Vec<Vec<(f64, f64)>> {
    let mut xs: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut below: Vec<(f64, f64)> = xs.into_iter().map(|x| (x, 0.0)).collect();
    lines
        .iter()
        .map(|line| {
            let mut own = line.points.iter().peekable();
            for (x, sum) in &mut below {
                if let Some((_, y)) = own.next_if(|point| point.0 == *x) {
                    *sum += y;
                }
            }
            below.clone()
        })
        .collect()
}

fn areas(out: &mut String, lines: &[Line], frame: &Frame) {
    let stacked = stack(lines);
    for (index, line) in lines.iter().enumerate() {
        let top = &stacked[index];
        let ground: Vec<(f64, f64)> = match index {
            0 => top.iter().rev().map(|(x, _)| (*x, 0.0)).collect(),
            _ => stacked[index - 1].iter().rev().copied().collect(),
        };
        let (edge, back) = (path(top, frame), path(&ground, frame).replacen('M', "L", 1));
        push(
            out,
            format_args!(
                "<path class=\"area {0}\" d=\"{edge}{back}Z\"/><path class=\"line {0}\" d=\"{edge}\"/>",
                line.class
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Line {
        Line { name: "x".to_owned(), class: "op-read".to_owned(), dashed: false, points: points.to_vec() }
    }

    #[test]
    fn a_stack_adds_up_where_both_have_points() {
        let lines = [line(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]), line(&[(1.0, 10.0), (3.0, 20.0)])];
        let tops = stack(&lines);
        assert_eq!(tops[0], [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 0.0)]);
        assert_eq!(tops[1], [(0.0, 1.0), (1.0, 12.0), (2.0, 3.0), (3.0, 20.0)]);
    }
}

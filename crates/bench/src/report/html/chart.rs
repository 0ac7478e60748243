//! A chart of lines or stacked areas over time, or of distributions, as SVG that stands without a script. The same
//! figures go into the page as data, from which `charts.js` adds the read-out and zooming.

use std::fmt::Write as _;

use serde::Serialize;

use super::bounds;
use super::escape;
use super::events::{self, Size};
use super::image::{self, Image};
use super::scale::{self, Quantity};

/// The drawing's size in its own units, and the margins of the plot inside it.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 236.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 28.0;
/// How far an axis of loads goes beyond the highest.
const LOAD_MARGIN: f64 = 1.04;

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

/// How points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// As a line through all of them.
    #[default]
    Line,
    /// Each as a disc.
    Disc,
    /// Each as a cross.
    Cross,
}

/// One line or area, or points that nothing joins.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// The CSS class that colours it.
    pub class: String,
    /// Whether it is drawn dashed.
    pub dashed: bool,
    /// How its points are drawn.
    pub mark: Mark,
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
    /// Where the horizontal axis ends at least.
    pub until_s: f64,
    /// When what happened.
    pub events: Vec<(f64, String)>,
    /// A height that is marked, such as a bound that is to be kept.
    pub level: Option<(f64, String)>,
    /// A stretch of the horizontal axis that is marked.
    pub stretch: Option<(f64, f64)>,
    /// It is drawn as wide as the page.
    pub wide: bool,
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
    until: f64,
    events: &'a [(f64, String)],
    level: Option<&'a (f64, String)>,
    stretch: Option<(f64, f64)>,
    /// Room of a character of an event's label, and from one row of them to the next.
    label: [f64; 2],
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
            until: self.until_s,
            events: &self.events,
            level: self.level.as_ref(),
            stretch: self.stretch,
            label: [self.size().character, self.size().row],
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
        // Charts of one group have the same events: they are explained once.
        if self.stacked && self.is_numbered() {
            events::list(&mut out, &self.events);
        }
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
        let numbered = if self.is_numbered() { &self.events[..] } else { &[] };
        let mut height = HEIGHT;
        for line in image::wrapped(numbered.iter().enumerate().map(|(at, (_, label))| format!("{} {label}", at + 1))) {
            height += image::NOTE_LINE;
            let y = height - 4.0;
            push(
                &mut out,
                format_args!("<text class=\"note\" x=\"{LEFT}\" y=\"{y:.1}\">{}</text>", escape::text(&line)),
            );
        }
        Image::new(&self.id, title.trim(), names, (WIDTH, height), &out)
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
            lines.iter().for_each(|line| drawn(out, line, &frame));
        }
        out.push_str("</g><g class=\"marks\">");
        events::draw(out, &self.placed_events(&frame), right, (TOP, HEIGHT - BOTTOM), self.size());
        out.push_str("</g>");
    }

    fn legend(&self) -> String {
        let mut out = String::from("<div class=\"legend\">");
        for line in self.views.get(self.shown).map_or(&[][..], |view| &view.lines) {
            let shape = match (line.mark, line.dashed) {
                (Mark::Disc, _) => " disc",
                (Mark::Cross, _) => " cross",
                (Mark::Line, true) => " dashed",
                (Mark::Line, false) => "",
            };
            push(
                &mut out,
                format_args!("<span><i class=\"key {}{shape}\"></i>{}</span>", line.class, escape::text(&line.name)),
            );
        }
        out.push_str("</div>");
        out
    }

    /// The map from values to the drawing that shows everything, and the ticks of the vertical axis.
    fn frame(&self) -> (Frame, Vec<f64>) {
        let lines = self.views.get(self.shown).map_or(&[][..], |view| &view.lines);
        let xs = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let level = self.level.iter().map(|level| level.0);
        let ys = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.1)).chain(level.clone());
        let high_x = xs().fold(self.until_s, f64::max);
        // Marks at the end of the axis are not cut.
        let high_x = if self.across == Across::Load { high_x * LOAD_MARGIN } else { high_x };
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
        // Leaders, shards: there is no half of one.
        let whole = self.quantity == Quantity::Number && ys().all(|y| y.fract() == 0.0);
        let ticks = scale::linear(high_y, whole);
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
        if let Some((from, to)) = self.stretch {
            let (from, to) = (frame.x(from).clamp(LEFT, right), frame.x(to).clamp(LEFT, right));
            bounds::stretch(out, (from, to), (TOP, bottom));
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
        if let Some((height, name)) = &self.level {
            bounds::level(out, frame.y(*height), (LEFT, right), name);
        }
    }

    /// What happened, where the drawing has it.
    fn placed_events(&self, frame: &Frame) -> Vec<(f64, String)> {
        let at = self.events.iter().map(|(t_s, label)| (frame.x(*t_s), label.clone()));
        at.filter(|(x, _)| (LEFT..=WIDTH - RIGHT).contains(x)).collect()
    }

    fn size(&self) -> Size {
        if self.wide { Size::WIDE } else { Size::HALF }
    }

    /// Whether what happened is drawn as numbers, which have to be explained.
    #[must_use]
    fn is_numbered(&self) -> bool {
        let (frame, _) = self.frame();
        events::are_numbered(&self.placed_events(&frame), WIDTH - RIGHT, self.size())
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

fn drawn(out: &mut String, line: &Line, frame: &Frame) {
    let class = &line.class;
    if line.mark == Mark::Line {
        let dashed = if line.dashed { " dashed" } else { "" };
        let path = broken_path(&line.points, frame);
        return push(out, format_args!("<path class=\"line {class}{dashed}\" d=\"{path}\"/>"));
    }
    for (x, y) in &line.points {
        let (x, y) = (frame.x(*x), frame.y(*y));
        if line.mark == Mark::Disc {
            push(out, format_args!("<circle class=\"bar {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\"/>"));
        } else {
            let (left, top) = (x - 3.4, y - 3.4);
            let strokes = "l6.8 6.8m-6.8 0l6.8 -6.8";
            push(out, format_args!("<path class=\"line {class}\" d=\"M{left:.1} {top:.1}{strokes}\"/>"));
        }
    }
}

/// A line over time that ends where nothing was measured, and begins again: between points that lie farther apart than
/// so many times the usual step.
fn broken_path(points: &[(f64, f64)], frame: &Frame) -> String {
    const GAP: f64 = 4.0;
    if frame.logarithmic {
        return path(points, frame);
    }
    // The shortest may be a splinter, where one phase followed another.
    let mut steps: Vec<f64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    steps.sort_by(f64::total_cmp);
    let step = steps.get(steps.len() / 2).copied().unwrap_or(f64::INFINITY);
    points.chunk_by(|a, b| b.0 - a.0 <= step * GAP).map(|points| path(points, frame)).collect()
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
        Line {
            name: "x".to_owned(),
            class: "op-read".to_owned(),
            dashed: false,
            mark: Mark::Line,
            points: points.to_vec(),
        }
    }

    #[test]
    fn a_stack_adds_up_where_both_have_points() {
        let lines = [line(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]), line(&[(1.0, 10.0), (3.0, 20.0)])];
        let tops = stack(&lines);
        assert_eq!(tops[0], [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 0.0)]);
        assert_eq!(tops[1], [(0.0, 1.0), (1.0, 12.0), (2.0, 3.0), (3.0, 20.0)]);
    }
}

//! Charts as files of their own, for slides: SVG that needs no page, and PNG drawn from it.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, OnceLock};

use resvg::{tiny_skia, usvg};

use super::escape;

/// Dots for each unit of the drawing: a slide is some 1,700 dots wide.
const SCALE: f32 = 3.0;
/// Above the drawing, for title and legend.
const HEAD: f64 = 46.0;
/// Room that a character of the legend takes.
const LEGEND_CHARACTER: f64 = 6.2;
const LEGEND_LEFT: f64 = 14.0;
/// A line of explanations below a drawing.
pub(super) const NOTE_LINE: f64 = 13.0;
/// Characters of such a line.
const NOTE_CHARACTERS: usize = 92;

/// Colours on white by class: style.css has the same.
const COLOURS: [(&str, &str); 14] = [
    ("op-read", "#0072b2"),
    ("op-update", "#d55e00"),
    ("op-insert", "#00805e"),
    ("op-scan", "#a8498c"),
    ("op-rmw", "#86680a"),
    ("op-delete", "#3d4651"),
    ("op-other", "#6b7683"),
    ("metric", "#4b5563"),
    ("node-0", "#0072b2"),
    ("node-1", "#d55e00"),
    ("node-2", "#00805e"),
    ("node-3", "#a8498c"),
    ("node-4", "#86680a"),
    ("node-5", "#3d4651"),
];

const STYLE: &str = "text{font:11px 'Liberation Sans','DejaVu Sans',Arial,sans-serif;fill:#59636e}\
.title{font-size:14px;font-weight:bold;fill:#1b1f24}.legend{font-size:11.5px;fill:#1b1f24}\
.x{text-anchor:middle}.y{text-anchor:end}.grid{stroke:#e8ebef;fill:none}.axis,.tick{stroke:#59636e;fill:none}\
.warm{fill:#eef0f3}.warm-name{font-size:10px}.line{fill:none;stroke-width:1.6;stroke-linejoin:round}\
.dashed{stroke-dasharray:5 3}.area{fill-opacity:.28;stroke:none}.light{fill-opacity:.38}\
.bar-label{text-anchor:end;font-size:11.5px;fill:#1b1f24}.bar-label.above{text-anchor:start}.bar-figure{font-size:11.5px;fill:#1b1f24}\
.whisker{stroke:#1b1f24;fill:none}.stretch{fill:#00805e;fill-opacity:.2}.level path{stroke:#b3261e;stroke-dasharray:6 3;fill:none}.level text{fill:#b3261e}\
.note{font-size:10px}.event path{stroke:#8a3ffc;stroke-dasharray:3 2;fill:none}.event text{fill:#8a3ffc;font-size:10.5px}";

/// A chart that stands alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// For its files' names.
    pub id: String,
    /// The whole SVG.
    pub svg: String,
}

impl Image {
    /// Around `drawing`, which has that size.
    pub(super) fn new(
        id: &str,
        title: &str,
        names: impl Iterator<Item = (String, String)>,
        (width, height): (f64, f64),
        drawing: &str,
    ) -> Self {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {0}\" width=\"{width}\" height=\"{0}\"><style>{STYLE}{1}\
             </style><rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/><text class=\"title\" x=\"{LEGEND_LEFT}\" y=\"20\">{2}</text>",
            height + HEAD,
            colours(),
            escape::text(title)
        );
        let mut x = LEGEND_LEFT;
        for (class, name) in names {
            let room = 18.0 + name.chars().count() as f64 * LEGEND_CHARACTER + 12.0;
            // What does not fit is in the page.
            if x + room > width {
                break;
            }
            push(
                &mut svg,
                format_args!(
                    "<rect class=\"bar {class}\" x=\"{x:.1}\" y=\"29\" width=\"10\" height=\"10\" rx=\"2\"/>\
                     <text class=\"legend\" x=\"{:.1}\" y=\"38\">{}</text>",
                    x + 15.0,
                    escape::text(&name)
                ),
            );
            x += room;
        }
        push(&mut svg, format_args!("<g transform=\"translate(0 {HEAD})\">{drawing}</g></svg>\n"));
        Self { id: id.to_owned(), svg }
    }

    /// As PNG. None where the system has no font: a chart without its figures says nothing.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn png(&self) -> io::Result<Option<Vec<u8>>> {
        let fonts = fonts();
        if fonts.is_empty() {
            return Ok(None);
        }
        let broken = |e: &dyn std::fmt::Display| io::Error::other(format!("chart {}: {e}", self.id));
        let options = usvg::Options { fontdb: Arc::clone(fonts), ..usvg::Options::default() };
        let tree = usvg::Tree::from_str(&self.svg, &options).map_err(|e| broken(&e))?;
        let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| broken(&"it has no size"))?;
        let mut dots = tiny_skia::Pixmap::new(size.width(), size.height()).ok_or_else(|| broken(&"it is too large"))?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut dots.as_mut());
        dots.encode_png().map(Some).map_err(|e| broken(&e))
    }
}

fn push(out: &mut String, piece: std::fmt::Arguments<'_>) {
    out.write_fmt(piece).expect("a String takes all that is written to it");
}

/// Explanations in lines, as many on each as fit.
pub(super) fn wrapped(notes: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for note in notes {
        match lines.last_mut() {
            Some(line) if line.chars().count() + note.chars().count() + 3 <= NOTE_CHARACTERS => {
                line.push_str(" · ");
                line.push_str(&note);
            }
            _ => lines.push(note),
        }
    }
    lines
}

fn colours() -> String {
    let rule = |(class, colour): &(&str, &str)| {
        format!(".line.{class}{{stroke:{colour}}}.area.{class},.bar.{class}{{fill:{colour}}}")
    };
    COLOURS.iter().map(rule).collect()
}

/// The system's fonts, looked for once.
fn fonts() -> &'static Arc<usvg::fontdb::Database> {
    static FONTS: OnceLock<Arc<usvg::fontdb::Database>> = OnceLock::new();
    FONTS.get_or_init(|| {
        let mut found = usvg::fontdb::Database::new();
        found.load_system_fonts();
        Arc::new(found)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_chart_becomes_a_picture_with_its_line_in_it() {
        let names = [("op-read".to_owned(), "READ".to_owned())].into_iter();
        let image =
            Image::new("x", "A <title>", names, (100.0, 50.0), "<path class=\"line op-read\" d=\"M0 25H100\"/>");
        assert!(image.svg.contains("A &lt;title&gt;"));
        let Some(png) = image.png().unwrap() else { return };
        let dots = tiny_skia::Pixmap::decode_png(&png).unwrap();
        assert_eq!((dots.width(), dots.height()), (300, 288));
        let blue = dots.pixels().iter().filter(|dot| dot.blue() > 150 && dot.red() < 40).count();
        assert!(blue > 600, "{blue} blue dots");
    }
}

//! Marks across a chart: a height that is a bound, and a stretch of the horizontal axis in which an answer lies.

use std::fmt::Write as _;

use super::escape;

/// Narrower stretches would not be seen.
const WIDTH_MIN: f64 = 1.5;
/// Between a bound and its name.
const GAP: f64 = 4.0;

/// Marks what lies between two places of the horizontal axis, from the plot's top to its bottom.
pub(super) fn stretch(out: &mut String, (from, to): (f64, f64), (top, bottom): (f64, f64)) {
    push(
        out,
        format_args!(
            "<rect class=\"stretch\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            (to - from).max(WIDTH_MIN),
            bottom - top
        ),
    );
}

/// Marks a height, with its name, from the plot's left to its right.
pub(super) fn level(out: &mut String, y: f64, (left, right): (f64, f64), name: &str) {
    push(
        out,
        format_args!(
            "<g class=\"level\"><path d=\"M{left} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\">{}</text></g>",
            left + GAP,
            y - GAP,
            escape::text(name)
        ),
    );
}

fn push(out: &mut String, piece: std::fmt::Arguments<'_>) {
    out.write_fmt(piece).expect("a String takes all that is written to it");
}

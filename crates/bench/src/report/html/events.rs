//! Marks of what happened when: labels where they fit without touching each other, and otherwise numbers whose meaning
//! stands below the chart. `charts.js` places them by the same rules when a chart is zoomed.

use std::fmt::Write as _;

use super::escape;

/// Labels that would touch stand in one of so many rows.
const ROWS: usize = 3;
/// Longer labels are cut; the whole one is in the tooltip and the list below the chart.
const LABEL_CHARACTERS_MAX: usize = 34;

/// How large marks are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    /// Room that a character takes.
    pub(super) character: f64,
    /// From one row to the next.
    pub(super) row: f64,
}

impl Size {
    /// The size in a chart that is one of two side by side.
    pub(super) const HALF: Self = Self { character: 5.6, row: 11.0 };
    /// The size in a chart as wide as the page, where the same letters are half as many units.
    pub(super) const WIDE: Self = Self { character: 3.1, row: 6.5 };
}

/// Where a label stands.
#[derive(Clone, Debug, PartialEq)]
struct Placed {
    x: f64,
    row: usize,
    leftwards: bool,
    text: String,
    /// In the list of all events.
    index: usize,
}

/// A label that is short enough to be drawn.
fn short(label: &str) -> String {
    label.chars().take(LABEL_CHARACTERS_MAX).collect()
}

/// Each label in a row in which it touches no other, or the numbers of all where there is not room enough.
fn placed(events: &[(f64, String)], right: f64, size: Size) -> Vec<Placed> {
    let numbers = || events.iter().enumerate().map(|(index, (x, _))| (index, *x, (index + 1).to_string()));
    let labels = events.iter().enumerate().map(|(index, (x, label))| (index, *x, short(label)));
    rows(labels, right, size, false).or_else(|| rows(numbers(), right, size, true)).unwrap_or_default()
}

fn rows(
    events: impl Iterator<Item = (usize, f64, String)>,
    right: f64,
    size: Size,
    squeezed: bool,
) -> Option<Vec<Placed>> {
    let mut taken: [Vec<(f64, f64)>; ROWS] = Default::default();
    let mut list = Vec::new();
    for (index, x, text) in events {
        let width = (text.chars().count() + 1) as f64 * size.character;
        let leftwards = x + width > right;
        let (from, to) = if leftwards { (x - width, x) } else { (x, x + width) };
        let is_free = |row: &Vec<(f64, f64)>| row.iter().all(|(start, end)| *end <= from || *start >= to);
        let row = match taken.iter().position(is_free) {
            Some(row) => row,
            // Numbers are drawn however little room there is: tooltips tell them apart.
            None if squeezed => index % ROWS,
            None => return None,
        };
        taken[row].push((from, to));
        list.push(Placed { x, row, leftwards, text, index });
    }
    Some(list)
}

/// Whether the events of a chart are numbered, at x of its drawing.
pub(super) fn are_numbered(events: &[(f64, String)], right: f64, size: Size) -> bool {
    placed(events, right, size).iter().any(|mark| mark.text != short(&events[mark.index].1))
}

/// The marks of `events` at x of a drawing whose plot ends at `right` and reaches from `top` to `bottom`.
pub(super) fn draw(out: &mut String, events: &[(f64, String)], right: f64, (top, bottom): (f64, f64), size: Size) {
    for mark in placed(events, right, size) {
        let y = top - 6.0 + mark.row as f64 * size.row;
        let (anchor, at) = if mark.leftwards { ("end", mark.x - 3.0) } else { ("start", mark.x + 3.0) };
        push(
            out,
            format_args!(
                "<g class=\"event\"><title>{}</title><path d=\"M{:.1} {:.1}V{bottom}\"/>\
                 <text x=\"{at:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text></g>",
                escape::text(&events[mark.index].1),
                mark.x,
                top - 14.0,
                escape::text(&mark.text)
            ),
        );
    }
}

/// What the numbers mean.
pub(super) fn list(out: &mut String, events: &[(f64, String)]) {
    out.push_str("<ol class=\"events\">");
    for (t_s, label) in events {
        push(out, format_args!("<li>{} <span>{t_s:.1} s</span></li>", escape::text(label)));
    }
    out.push_str("</ol>");
}

fn push(out: &mut String, piece: std::fmt::Arguments<'_>) {
    out.write_fmt(piece).expect("a String takes all that is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(list: &[(f64, &str)]) -> Vec<(f64, String)> {
        list.iter().map(|(x, label)| (*x, (*label).to_owned())).collect()
    }

    #[test]
    fn labels_that_would_touch_stand_in_rows_and_too_many_become_numbers() {
        let few =
            events(&[(100.0, "node 5 added"), (120.0, "plan 2: running"), (300.0, "plan 2: done"), (540.0, "end")]);
        let marks = placed(&few, 546.0, Size::HALF);
        let rows: Vec<(usize, bool)> = marks.iter().map(|mark| (mark.row, mark.leftwards)).collect();
        assert_eq!(rows, [(0, false), (1, false), (0, false), (0, true)]);
        assert!(!are_numbered(&few, 546.0, Size::HALF));
        let many = events(&[(100.0, "one label"), (105.0, "another"), (110.0, "a third"), (115.0, "and a fourth")]);
        let texts: Vec<String> = placed(&many, 546.0, Size::HALF).into_iter().map(|mark| mark.text).collect();
        assert_eq!(texts, ["1", "2", "3", "4"]);
        assert!(are_numbered(&many, 546.0, Size::HALF));
    }
}

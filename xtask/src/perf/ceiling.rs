//! One ceiling: what one request may cost at most, in time, memory or bytes read.

use super::progress;
use super::spread::Spread;
use serde_json::{Value, json};

/// One row of the table of ceilings.
#[derive(Debug)]
pub struct Ceiling {
    /// What is measured.
    pub what: String,
    /// Of the figures.
    pub unit: &'static str,
    /// What no run should pass.
    pub at_most: f64,
    /// In the order in which they were measured.
    pub figures: Vec<f64>,
}

impl Ceiling {
    /// What stands above such rows.
    pub const HEAD: &'static str = "| | bar | median (min–max) | |\n|-|-|-|-|\n";

    /// A row that was measured once.
    pub fn new(what: impl Into<String>, unit: &'static str, at_most: f64, figure: f64) -> Self {
        Self { what: what.into(), unit, at_most, figures: vec![figure] }
    }

    /// The same without a bar: a figure that is asked for.
    pub fn told(what: impl Into<String>, unit: &'static str, figure: f64) -> Self {
        Self::new(what, unit, f64::INFINITY, figure)
    }

    fn has_bar(&self) -> bool {
        self.at_most.is_finite()
    }

    /// All figures; none if nothing was measured.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(self.figures.iter().copied())
    }

    /// Whether no run has passed it: a promise, not an average.
    pub fn held(&self) -> bool {
        self.spread().is_some_and(|spread| spread.max <= self.at_most)
    }

    /// All of it.
    pub fn json(&self) -> Value {
        json!({
            "what": self.what,
            "unit": self.unit,
            "at_most": self.has_bar().then_some(self.at_most),
            "held": self.has_bar().then(|| self.held()),
            "runs": self.figures,
        })
    }

    /// Its row in Markdown.
    pub fn row(&self) -> String {
        let Some(Spread { median, min, max }) = self.spread() else { return String::new() };
        let unit = self.unit;
        let (bar, verdict) = match self.has_bar() {
            true if self.held() => (format!("≤ {:.1} {unit}", self.at_most), "held"),
            true => (format!("≤ {:.1} {unit}", self.at_most), "**missed**"),
            false => ("–".to_owned(), ""),
        };
        format!("| {} | {bar} | {median:.1} ({min:.1}–{max:.1}) {unit} | {verdict} |\n", self.what)
    }
}

/// The rows of one run, each told as soon as it is known.
#[derive(Default)]
pub struct Rows(Vec<Ceiling>);

impl Rows {
    /// Adds a row; an error if the time of a quick run is over.
    pub fn push(&mut self, row: Ceiling) -> Result<(), String> {
        eprint!("{}", row.row());
        self.0.push(row);
        progress::step()
    }

    /// Adds several.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Ceiling>) -> Result<(), String> {
        rows.into_iter().try_for_each(|row| self.push(row))
    }

    /// All of them.
    pub fn all(self) -> Vec<Ceiling> {
        self.0
    }
}

/// The rows of another run, added to those of the runs before.
pub fn join(mut all: Vec<Ceiling>, run: Vec<Ceiling>) -> Vec<Ceiling> {
    for row in run {
        match all.iter_mut().find(|known| known.what == row.what) {
            Some(known) => known.figures.extend(row.figures),
            None => all.push(row),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_run_decides() {
        let run = |figure| vec![Ceiling::new("HGETALL", "s", 1.5, figure)];
        let rows = join(join(Vec::new(), run(1.0)), run(1.5));
        assert!(rows[0].held());
        assert_eq!(rows[0].row(), "| HGETALL | ≤ 1.5 s | 1.2 (1.0–1.5) s | held |\n");
        assert!(!join(rows, run(1.6))[0].held());
    }

    #[test]
    fn what_has_no_bar_is_told() {
        let row = Ceiling::told("a message", "µs", 2.0);
        assert_eq!(row.row(), "| a message | – | 2.0 (2.0–2.0) µs |  |\n");
        assert_eq!((&row.json()["at_most"], &row.json()["held"]), (&Value::Null, &Value::Null));
    }
}

//! One floor: what a store of several nodes must do for each core that it and its client use.

use super::phase::Phase;
use super::progress;
use super::spread::{Spread, grouped};
use serde_json::{Value, json};

/// One row of the table of floors.
#[derive(Debug)]
pub struct Floor {
    /// What is measured.
    pub what: String,
    /// Operations a second per core that it should reach.
    pub at_least: f64,
    /// In the order in which they were measured.
    pub runs: Vec<Phase>,
}

impl Floor {
    /// What stands above such rows.
    pub const HEAD: &'static str = "| | bar, 1/s per core | 1/s per core | 1/s | CPU, µs an operation (client; nodes) | p99, ms | |\n|-|-|-|-|-|-|-|\n";

    /// Measures `runs` times.
    pub fn measure(
        what: impl Into<String>,
        at_least: f64,
        runs: usize,
        mut run: impl FnMut() -> Result<Phase, String>,
    ) -> Result<Self, String> {
        let mut floor = Self { what: what.into(), at_least, runs: Vec::new() };
        progress::row(&floor.what);
        for number in 1..=runs {
            let phase = run()?;
            let (rate, per_core) = (phase.rate, phase.per_core);
            eprintln!("{}, run {number} of {runs}: {rate:.0}/s, {per_core:.0}/s per core", floor.what);
            floor.runs.push(phase);
            progress::step()?;
        }
        progress::print(Self::HEAD, &floor.row());
        Ok(floor)
    }

    /// Its row in Markdown.
    pub fn row(&self) -> String {
        let shown = |figure, show: fn(Spread) -> String| self.spread(figure).map(show).unwrap_or_default();
        format!(
            "| {} | ≥ {} | {} | {} | {}; {} | {} | {} |\n",
            self.what,
            grouped(self.at_least),
            shown(|run| run.per_core, Spread::rate),
            shown(|run| run.rate, Spread::rate),
            shown(|run| run.client_us_per_op, Spread::middle),
            shown(|run| run.nodes_us_per_op, Spread::middle),
            shown(|run| run.p99_ms, Spread::ratio),
            if self.held() { "held" } else { "**missed**" },
        )
    }

    /// One figure of all runs; none if nothing was measured.
    pub fn spread(&self, figure: fn(&Phase) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().map(figure))
    }

    /// Whether the median reaches the floor.
    pub fn held(&self) -> bool {
        self.spread(|run| run.per_core).is_some_and(|spread| spread.median >= self.at_least)
    }

    /// All of it.
    pub fn json(&self) -> Value {
        let run = |run: &Phase| {
            json!({
                "per_s": run.rate,
                "per_core_s": run.per_core,
                "client_cpu_us_per_op": run.client_us_per_op,
                "nodes_cpu_us_per_op": run.nodes_us_per_op,
                "p99_ms": run.p99_ms,
            })
        };
        json!({
            "what": self.what,
            "at_least_per_core_s": self.at_least,
            "held": self.held(),
            "per_core_s": self.spread(|run| run.per_core).map(Spread::json),
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_all_of_it() {
        let phase =
            Phase { rate: 60_000.0, per_core: 31_000.0, client_us_per_op: 4.0, nodes_us_per_op: 28.26, p99_ms: 2.5 };
        let floor = Floor::measure("reads", 52_000.0, 1, || Ok(phase)).expect("no run fails");
        let row = "| reads | ≥ 52,000 | 31,000 (31,000–31,000) | 60,000 (60,000–60,000) | 4.00; 28.26 \
                   | 2.50 (2.50–2.50) | **missed** |\n";
        assert_eq!(floor.row(), row);
    }

    #[test]
    fn the_median_run_decides() {
        let mut rates = [90.0, 120.0, 100.0].into_iter();
        let run = || {
            let per_core = rates.next().expect("three runs");
            Ok(Phase { rate: 1.0, per_core, client_us_per_op: 1.0, nodes_us_per_op: 1.0, p99_ms: 1.0 })
        };
        let mut floor = Floor::measure("reads", 100.0, 3, run).expect("no run fails");
        assert!(floor.held());
        floor.at_least = 101.0;
        assert!(!floor.held());
        floor.runs.clear();
        assert!(!floor.held(), "nothing measured holds nothing");
    }
}

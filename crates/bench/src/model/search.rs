//! What a search for a rate found.

use serde::{Deserialize, Serialize};

/// A search, with everything that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// What it looked for, e.g. `p99 < 5 ms`; `curve` when rates were given.
    pub goal: String,
    /// The answer in a sentence or two.
    pub answer: String,
    /// The highest rate that kept the objective, in operations a second; of a curve, the highest before the knee.
    #[serde(default)]
    pub best_per_s: Option<f64>,
    /// The lowest rate above it that did not.
    #[serde(default)]
    pub failed_per_s: Option<f64>,
    /// How close the two had to come, as a share.
    pub tolerance: f64,
    /// In order.
    #[serde(rename = "tries")]
    pub trials: Vec<Trial>,
}

impl Search {
    /// The goal of one that looks for nothing.
    pub(crate) const CURVE: &str = "curve";

    /// Whether rates were given rather than looked for.
    #[must_use]
    pub fn is_curve(&self) -> bool {
        self.goal == Self::CURVE
    }

    /// How many trials decide nothing.
    #[must_use]
    pub fn set_aside(&self) -> usize {
        self.trials.iter().filter(|one| one.set_aside).count()
    }
}

/// One rate that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The phase with all its figures.
    pub phase: String,
    /// Operations a second that were offered.
    pub offered_per_s: f64,
    /// Operations a second that were done.
    pub achieved_per_s: f64,
    /// The median of the slowest kind of operation, from the intended start.
    pub p50_us: f64,
    /// Its 99th percentile.
    pub p99_us: f64,
    /// Whether the objective was kept; of a curve, whether the store kept up.
    pub holds: bool,
    /// Why, in words.
    pub why: String,
    /// It did not hold while the machine's host gave cores to other machines: it decides nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set_aside: bool,
}

impl Trial {
    /// In a word or two.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.set_aside, self.holds) {
            (true, _) => "set aside",
            (false, true) => "holds",
            (false, false) => "does not",
        }
    }
}

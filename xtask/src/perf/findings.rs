//! What measurements found, by kind.

use super::bar::Bar;
use super::ceiling::Ceiling;
use super::death::Death;
use super::floor::Floor;

/// What was measured.
#[derive(Default)]
pub struct Findings {
    /// Against something else.
    pub bars: Vec<Bar>,
    /// For each core.
    pub floors: Vec<Floor>,
    /// Of what one client may cost.
    pub ceilings: Vec<Ceiling>,
    /// While a node dies.
    pub deaths: Vec<Death>,
}

impl From<Vec<Bar>> for Findings {
    fn from(bars: Vec<Bar>) -> Self {
        Self { bars, ..Self::default() }
    }
}

impl From<Vec<Ceiling>> for Findings {
    fn from(ceilings: Vec<Ceiling>) -> Self {
        Self { ceilings, ..Self::default() }
    }
}

impl From<Vec<Death>> for Findings {
    fn from(deaths: Vec<Death>) -> Self {
        Self { deaths, ..Self::default() }
    }
}

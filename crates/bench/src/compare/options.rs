//! What `bench compare` is asked.

use clap::Args;

/// Say what differs between runs, and whether it is more than noise
///
/// Give two sides or more; each is set against the first. A side is a run's folder, a folder of such folders, or several
/// joined by commas: they are pooled. The exit code is 0 when no side is worse than the first, 1 when one is worse by
/// more than noise, and 2 when they cannot be compared.
///
/// How it decides: throughput is the mean of the measured seconds, with an error that allows for their likeness
/// (blocking after Flyvbjerg and Petersen, and a cosine estimate; the larger holds). A latency's bounds are where the
/// distribution has the bounds of the share of operations above it, with the same kind of error (Woodruff). Runs of one
/// side that differ from each other more than that widen the bounds. All questions together say "worse" or "better"
/// wrongly at most as often as one in twenty (Holm).
#[derive(Clone, Debug, Args)]
pub struct CompareOptions {
    /// The sides: folders of runs, those of one side joined by commas
    #[arg(required = true, num_args = 2.., value_name = "SIDE")]
    pub sides: Vec<String>,
    /// Look at this phase only; may be repeated
    #[arg(long = "phase", value_name = "NAME")]
    pub phases: Vec<String>,
    /// How sure it must be, between 0.5 and 1
    #[arg(long, default_value_t = 0.95)]
    pub confidence: f64,
    /// A difference of less than so many per cent does not count, however sure it is
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT")]
    pub matters: f64,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

impl CompareOptions {
    /// Whether the numbers can be.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(0.5..1.0).contains(&self.confidence) {
            return Err(format!("--confidence {}: expected at least 0.5 and less than 1", self.confidence));
        }
        if !(0.0..100.0).contains(&self.matters) {
            return Err(format!("--matters {}: expected per cent, from 0 to less than 100", self.matters));
        }
        Ok(())
    }
}

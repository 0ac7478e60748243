//! The options of `bench compare`.

use clap::Args;

/// What is to be compared.
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

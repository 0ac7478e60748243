//! The options of a search.

use clap::Args;

use crate::coordinator::LoaderOptions;
use crate::driver::Pace;
use crate::options::{PhaseOptions, Span};
use crate::slo::Slo;
use crate::workload::{OpKind, Workload};

/// How much does it take?
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "How much does it take")]
pub struct SearchOptions {
    /// Look for the highest rate of an open loop that keeps an SLO, such as "p99 < 5ms" or
    /// "READ p99 < 2ms and UPDATE p99.9 < 20ms and failed < 0.1%"
    ///
    /// An SLO without an operation is one for each kind of operation. Latency counts from the intended start, and a
    /// store that does less than 98 % of what is offered keeps no SLO. Begins at --rate, or at half of what a closed
    /// loop gets, goes up or down until one rate holds and one does not, then halves the distance until it is within
    /// --tolerance. A result that is close to the SLO is tried again, up to --repeats times, and most of them
    /// decide; so is the answer. Each trial has --warm-up (3s) and --duration (10s).
    #[arg(long, value_name = "SLO", conflicts_with = "rates")]
    pub find_max_rate: Option<Slo>,
    /// Measure at each of these rates in turn, up to the first that is too much: numbers, or per cent of what a closed
    /// loop gets, such as 20%,40%,60%,80%,90%,100%
    #[arg(long, value_name = "RATE,RATE…", value_delimiter = ',')]
    pub rates: Vec<OfferedRate>,
    /// How close the answer must be, in per cent
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    pub tolerance: f64,
    /// Trials of a rate that most of them decide about; odd
    #[arg(long, default_value_t = 3)]
    pub repeats: u32,
}

/// A rate that is to be offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OfferedRate {
    /// Operations a second.
    PerSecond(f64),
    /// A share of what a closed loop gets.
    Share(f64),
}

impl std::str::FromStr for OfferedRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
            number.ok_or_else(|| format!("`{text}`: expected a number above 0, or per cent"))
        };
        match text.trim().strip_suffix('%') {
            Some(share) => Ok(Self::Share(number(share)? / 100.0)),
            None => match number(text)? {
                rate if rate <= Pace::RATE_MAX_PER_S => Ok(Self::PerSecond(rate)),
                rate => Err(format!("`{rate}`: expected {} operations a second at most", Pace::RATE_MAX_PER_S)),
            },
        }
    }
}

impl SearchOptions {
    /// Whether anything is to be searched for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.find_max_rate.is_some() || !self.rates.is_empty()
    }

    /// Whether the numbers can be.
    fn check_numbers(&self, warm_up: Option<Span>) -> Result<(), String> {
        if !(0.5..=100.0).contains(&self.tolerance) {
            return Err(format!("--tolerance {}: expected per cent, from 0.5 to 100", self.tolerance));
        }
        if self.repeats.is_multiple_of(2) || self.repeats > 15 {
            return Err(format!("--repeats {}: expected an odd number up to 15", self.repeats));
        }
        if let Some(Span::Operations(_)) = warm_up {
            return Err("--warm-up of a search is a time: rates differ".to_owned());
        }
        Ok(())
    }

    /// Whether it can be searched with phases of these options on `workload`, by these processes.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(
        &self,
        options: &PhaseOptions,
        workload: &Workload,
        loader: &LoaderOptions,
    ) -> Result<(), String> {
        self.check_numbers(options.warm_up)?;
        if loader.is_asked() && workload.mix().share(OpKind::Insert) > 0.0 {
            let text =
                "a search over several processes needs a workload without inserts: each trial would insert the same";
            return Err(text.to_owned());
        }
        let of_goal = |goal: &Slo| goal.check(workload.mix()).map_err(|problem| format!("{goal}: {problem}"));
        self.find_max_rate.as_ref().map_or(Ok(()), of_goal)
    }
}

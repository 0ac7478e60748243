//! What may be concluded from figures that scatter.

mod correction;
mod fit;
mod mean;
mod noisy;
mod student;

pub(crate) use correction::holm;
pub(crate) use fit::{Fitted, fit};
#[cfg(test)]
pub(crate) use mean::tests as mean_tests;
pub(crate) use mean::{Estimate, POINTS_MIN, pool, steady_mean};
pub(crate) use noisy::{Difference, Noisy, Scale};
pub(crate) use student::quantile;

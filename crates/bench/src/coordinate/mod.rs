//! A load that several processes make together: agents here or elsewhere, which begin at one time, and whose figures
//! become one run's.

mod clock;
mod conduct;
mod crew;
mod member;
mod options;
mod spawn;
mod team;
#[cfg(test)]
mod tests;

pub use options::CrewOptions;

pub(crate) use crew::{Crew, with_crew};

//! A load that several processes make together: agents here or elsewhere, which begin at one time, and whose figures
//! become one run's.

mod agent_link;
mod agents;
mod clock;
mod loader;
mod options;
mod phase_run;
mod spawn;
#[cfg(test)]
mod tests;

pub use options::LoaderOptions;

pub(crate) use loader::{Loader, with_loader};

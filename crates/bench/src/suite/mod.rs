//! `basalt bench suite`: whole experiments from readable files, run unattended, one report each.

mod act;
mod builtin;
mod check;
mod command;
mod file;
mod names;
mod options;
mod outlook;
mod peer_store;
mod plan;
mod record;
mod runner;
mod settle;

pub use command::SuiteOptions;
pub(crate) use command::{redraw, run};
pub(crate) use record::Folder;

#[cfg(test)]
mod tests;

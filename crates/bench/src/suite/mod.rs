//! `basalt bench suite`: whole experiments from readable files, run unattended, one report each.

mod act;
mod builtin;
mod check;
mod command;
mod file;
mod lent;
mod names;
mod options;
mod outlook;
mod peer_store;
mod plan;
mod record;
mod report;
mod runner;
mod settle;

pub use command::SuiteOptions;
pub(crate) use command::{redraw, run};
pub use file::{ActionFile, DiskFile, StoreFile, TableFile, TableKind};
pub use lent::{LentStore, NoStores, Stores, words};
pub use names::plain;
pub(crate) use record::Folder;
pub use record::{StepRecord, SuiteRecord};
pub use report::SuiteReport;

#[cfg(test)]
mod tests;

//! One phase of a run, from the options that ask for it to the report that tells of it: what it will do (`setup`), on
//! which system (`open_target`, `access`, `store`), whether its records are there (`loaded`), what is said while it runs
//! (`status`), and the report around it (`assemble`).

pub(crate) mod access;
pub(crate) mod assemble;
pub(crate) mod loaded;
pub(crate) mod open_target;
pub(crate) mod setup;
pub(crate) mod status;
pub(crate) mod store;

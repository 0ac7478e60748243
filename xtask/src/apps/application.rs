//! An application: what is installed for it, what its program does, and where that connects.

use super::toolchain::Toolchain;

/// The listener that an application connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// A plain Redis with databases: for applications that do not know clusters.
    Databases,
    /// A Redis Cluster.
    Cluster,
}

/// An application as its registry has it, and the program here that makes it do its job.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    /// Its name: that of the program in `xtask/apps/LANGUAGE`, without the extension.
    pub name: &'static str,
    /// What installs and runs it.
    pub toolchain: Toolchain,
    /// What is installed, with versions, as the package manager writes it. The first is the application.
    pub packages: &'static [&'static str],
    /// Where it connects.
    pub listener: Listener,
    /// What the program has it do, for the page.
    pub does: &'static str,
}

impl Application {
    /// The packages and their versions, as the page shows them.
    pub fn version(&self) -> String {
        self.packages.join(", ")
    }
}

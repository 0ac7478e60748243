//! Which processes make the load.

use std::path::PathBuf;

use clap::Args;

/// Several processes
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Several processes")]
pub struct LoaderOptions {
    /// Let these agents make the load (`basalt bench agent`, here or on other hosts)
    ///
    /// --clients, --rate and operationcount are of all of them together, --threads and --connections of each. A load
    /// splits the records among them; with -p basalt.zipfian=process each has its own hot keys.
    #[arg(long, value_name = "HOST:PORT,HOST:PORT…", value_delimiter = ',', conflicts_with = "processes")]
    pub agents: Vec<String>,
    /// Make the load with so many processes of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub processes: Option<u16>,
    /// The file with the secret that the agents know; without it, what BASALT_BENCH_SECRET says
    #[arg(long, value_name = "FILE", requires = "agents")]
    pub secret_file: Option<PathBuf>,
}

impl LoaderOptions {
    /// Whether other processes make the load.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        !self.agents.is_empty() || self.processes.is_some()
    }
}

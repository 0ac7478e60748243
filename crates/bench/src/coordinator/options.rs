//! Which processes make the load.

use std::path::PathBuf;

use clap::Args;

use crate::options::PhaseOptions;
use crate::workload::{Config, Properties};

/// Most processes of this machine.
const PROCESSES_MAX: i64 = 64;

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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=PROCESSES_MAX))]
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

    /// Whether these processes can make the load of a phase, as far as that can be told before they are asked.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, options: &PhaseOptions, properties: &Properties, config: &Config) -> Result<(), String> {
        if !self.is_asked() {
            return Ok(());
        }
        if let Some(processes) = self.processes.filter(|&count| !(1..=PROCESSES_MAX).contains(&i64::from(count))) {
            return Err(format!("processes {processes}: from 1 to {PROCESSES_MAX} make the load"));
        }
        if config.processes > 1 {
            let text = "basalt.processes is for processes that are started by hand: the coordinator sets it itself";
            return Err(text.to_owned());
        }
        if options.target == "embedded" {
            let text = "an embedded store belongs to one process: several need a --target over the network";
            return Err(text.to_owned());
        }
        if let Some(twice) = self.agents.iter().enumerate().find(|(index, name)| self.agents[..*index].contains(name)) {
            return Err(format!("--agents: {} is given twice", twice.1));
        }
        let processes = self.processes.map_or(self.agents.len(), usize::from);
        let clients = options.clients.or_else(|| properties.get("threadcount").parse().ok()).unwrap_or(0);
        if clients < processes {
            return Err(format!("{processes} processes need as many --clients at least; there are {clients}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_options::Given;
    use clap::Parser;

    #[derive(Args)]
    struct Both {
        #[command(flatten)]
        phase: PhaseOptions,
        #[command(flatten)]
        loader: LoaderOptions,
    }

    #[test]
    fn processes_that_cannot_make_a_load_are_refused_before_they_are_asked() {
        for (line, why) in [
            ("--clients 2", ""),
            ("--target redis://h:1 --clients 2 --processes 2", ""),
            ("--target redis://h:1 -p threadcount=3 --agents a:1,b:1", ""),
            ("--target redis://h:1 --clients 2 --processes 3", "3 processes need as many"),
            ("--target redis://h:1 --agents a:1,b:1", "2 processes need as many --clients at least; there are 1"),
            ("--target redis://h:1 --clients 2 --agents a:1,a:1", "a:1 is given twice"),
            ("--clients 2 --processes 2", "belongs to one process"),
            ("--target redis://h:1 --clients 2 --processes 2 -p basalt.processes=2", "started by hand"),
        ] {
            let given: Both = Given::by(["run"].into_iter().chain(line.split(' ')));
            let mut properties = Properties::new();
            properties.set("recordcount", "10");
            given.phase.properties.iter().for_each(|given| properties.add_assignment(given).unwrap());
            let config = Config::read(&properties).unwrap();
            let found = given.loader.check(&given.phase, &properties, &config);
            assert_eq!(found.is_ok(), why.is_empty(), "{line}: {found:?}");
            assert!(found.err().unwrap_or_default().contains(why), "{line}");
        }
        assert!(Given::<Both>::try_parse_from(["run", "--processes", "0"]).is_err());
        let none = LoaderOptions { processes: Some(0), ..LoaderOptions::default() };
        let given: Both = Given::by(["run", "--target", "redis://h:1"]);
        let mut properties = Properties::new();
        properties.set("recordcount", "10");
        let config = Config::read(&properties).unwrap();
        assert!(none.check(&given.phase, &properties, &config).unwrap_err().starts_with("processes 0: "));
    }
}

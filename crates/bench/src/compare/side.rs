//! One side of a comparison: runs that are pooled.

use std::collections::BTreeSet;
use std::path::Path;

use super::run_folder::RunFolder;
use crate::model::RunReport;

/// Runs under one letter.
pub(super) struct Side {
    /// `A`, `B`…
    pub(super) letter: String,
    /// As it was given.
    pub(super) given: String,
    pub(super) runs: Vec<RunFolder>,
}

impl Side {
    /// Reads the folders that `given` names.
    pub(super) fn read(index: usize, given: &str) -> Result<Self, String> {
        let mut runs = Vec::new();
        for path in given.split(',').filter(|path| !path.is_empty()) {
            runs.extend(RunFolder::all_in(Path::new(path))?);
        }
        if runs.is_empty() {
            return Err("a side without a folder".to_owned());
        }
        let letter = char::from_u32('A' as u32 + index as u32).filter(char::is_ascii_uppercase);
        let letter = letter.ok_or("more sides than letters: compare fewer at once")?;
        Ok(Self { letter: letter.to_string(), given: given.to_owned(), runs })
    }

    /// The phases that each of its runs has, in order.
    pub(super) fn phases(&self) -> Vec<&str> {
        let names = self.runs[0].report.phases.iter().map(|phase| phase.name.as_str());
        names.filter(|name| self.runs.iter().all(|run| run.phase(name).is_some())).collect()
    }

    /// What of its runs' settings and machines is worth comparing: names and values, each once.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let all: Vec<Vec<(&'static str, String)>> = self.runs.iter().map(|run| facts(&run.report)).collect();
        (0..all[0].len())
            .map(|at| {
                let values: BTreeSet<&str> = all.iter().map(|facts| facts[at].1.as_str()).collect();
                (all[0][at].0, values.into_iter().collect::<Vec<_>>().join(" | "))
            })
            .collect()
    }

    /// In what `other` was set up differently, in words.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let (ours, theirs) = (self.facts(), other.facts());
        let pairs = ours.iter().zip(&theirs).filter(|(a, b)| a.1 != b.1);
        let mut list: Vec<String> = pairs.map(|(a, b)| format!("{}: {} → {}", a.0, a.1, b.1)).collect();
        let properties = |side: &Self| side.runs[0].report.configuration.properties.clone();
        let (ours, theirs) = (properties(self), properties(other));
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            let value = |of: &std::collections::BTreeMap<String, String>| {
                of.get(name).map_or_else(|| "not given".to_owned(), Clone::clone)
            };
            if ours.get(name) != theirs.get(name) {
                list.push(format!("{name}: {} → {}", value(&ours), value(&theirs)));
            }
        }
        list
    }
}

fn facts(report: &RunReport) -> Vec<(&'static str, String)> {
    let (asked, machine, identity) = (&report.configuration, &report.environment, &report.identity);
    vec![
        ("version", identity.product_version.clone()),
        ("commit", identity.git_commit.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("build", format!("{:?}", machine.build).to_lowercase()),
        ("target", asked.target.clone()),
        ("system", asked.system.clone()),
        ("engine", asked.engine.clone()),
        ("durability", asked.durability.clone()),
        ("replication", asked.replication.clone()),
        ("consistency", asked.consistency.clone()),
        ("compression", asked.compression.clone()),
        ("memory budget", asked.memory_budget_bytes.map_or_else(|| "none".to_owned(), |bytes| bytes.to_string())),
        ("records", asked.record_count.to_string()),
        ("record bytes", asked.record_size_bytes.to_string()),
        ("clients", format!("{} × {}", asked.clients, asked.pipeline_depth)),
        ("client threads", asked.threads.to_string()),
        ("connections", asked.connections.map_or_else(|| "none".to_owned(), |count| count.to_string())),
        ("loop", format!("{:?}", asked.pacing)),
        ("warm-up", asked.warm_up_rule.clone()),
        ("CPU", format!("{} × {}", machine.cores, machine.cpu_model)),
        ("kernel", machine.kernel.clone()),
        ("disk", machine.disk.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("file system", machine.filesystem.clone().unwrap_or_else(|| "unknown".to_owned())),
    ]
}

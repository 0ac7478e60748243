//! The libraries that Basalt is built from: what they must be (`deny.toml`), and a list of them for each package (SBOM).
//! All of it comes from `Cargo.lock` and from what cargo has downloaded anyway: it needs no network.

mod graph;
mod license;
mod policy;
mod sbom;

pub use graph::Graph;
pub use sbom::{rfc3339, sbom};

use crate::process::Count;
use policy::Policy;
use std::path::Path;

/// Checks every library against `deny.toml`; the error names those that break it.
pub fn check(root: &Path) -> Result<Count, (Count, String)> {
    let read = || {
        let text = std::fs::read_to_string(root.join("deny.toml")).map_err(|error| format!("deny.toml: {error}"))?;
        Ok::<_, String>((Policy::parse(&text)?, Graph::read(root, None)?))
    };
    let (policy, graph) = read().map_err(|why| (Count::default(), why))?;
    let breaches: Vec<String> = graph.libraries().flat_map(|library| policy.breaches(library)).collect();
    let failed = breaches.len() as u64;
    let count = Count { passed: (graph.libraries().count() as u64).saturating_sub(failed), failed };
    if breaches.is_empty() { Ok(count) } else { Err((count, breaches.join("\n"))) }
}

/// The task.
pub fn run(root: &Path) -> Result<(), String> {
    let count = check(root).map_err(|(_, why)| why)?;
    println!("{} libraries are what deny.toml says they must be", count.passed);
    Ok(())
}

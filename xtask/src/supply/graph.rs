//! All packages of `Cargo.lock`, and which needs which.

use crate::process;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One package: a library from elsewhere, or a crate of this workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub license: Option<String>,
    /// Where it is from; `None`: it is of this workspace.
    pub source: Option<String>,
    /// The SHA-256 of what the registry holds, as digits.
    pub sha256: Option<String>,
    /// Ids of the packages that it needs to run: without those of its tests and of its build script.
    needs: Vec<String>,
}

/// All packages, by cargo's ids.
#[derive(Debug, Default)]
pub struct Graph(BTreeMap<String, Package>);

impl Graph {
    /// That of the workspace: for one platform, or for all.
    pub fn read(root: &Path, platform: Option<&str>) -> Result<Self, String> {
        let mut cargo = process::cargo(&["metadata", "--locked", "--format-version", "1"]);
        cargo.args(platform.map(|platform| format!("--filter-platform={platform}")));
        let output = cargo.current_dir(root).output().map_err(|error| format!("cargo metadata: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let lock = std::fs::read_to_string(root.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
        let metadata = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
        Self::of(&metadata, &lock).ok_or_else(|| "cargo metadata has an unknown form".to_owned())
    }

    pub(super) fn of(metadata: &Value, lock: &str) -> Option<Self> {
        let sums = sums(lock);
        let mut packages = BTreeMap::new();
        for package in metadata["packages"].as_array()? {
            let text = |name: &str| package[name].as_str().map(str::to_owned);
            let (name, version) = (text("name")?, text("version")?);
            let sha256 = sums.get(&(name.as_str(), version.as_str())).map(|sum| (*sum).to_owned());
            let (license, source) = (text("license"), text("source"));
            packages.insert(text("id")?, Package { name, version, license, source, sha256, needs: Vec::new() });
        }
        for node in metadata["resolve"]["nodes"].as_array()? {
            let runs = |need: &&Value| {
                need["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
            };
            let needs = node["deps"].as_array()?.iter().filter(runs).filter_map(|need| need["pkg"].as_str());
            packages.get_mut(node["id"].as_str()?)?.needs = needs.map(str::to_owned).collect();
        }
        Some(Self(packages))
    }

    /// Those from elsewhere.
    pub fn libraries(&self) -> impl Iterator<Item = &Package> {
        self.0.values().filter(|package| package.source.is_some())
    }

    /// What the workspace's crate of that name needs to run, at whatever depth, without itself; each with what it needs itself.
    pub fn below(&self, name: &str) -> Vec<(&Package, Vec<&Package>)> {
        let start = self.0.iter().find(|(_, package)| package.source.is_none() && package.name == name);
        let mut left: Vec<&String> = start.into_iter().flat_map(|(_, package)| &package.needs).collect();
        let mut found = BTreeSet::new();
        while let Some(id) = left.pop() {
            if found.insert(id)
                && let Some(package) = self.0.get(id)
            {
                left.extend(&package.needs);
            }
        }
        let of = |id: &&String| self.0.get(*id);
        let needs = |package: &Package| package.needs.iter().filter_map(|id| self.0.get(id)).collect();
        found.iter().filter_map(of).map(|package| (package, needs(package))).collect()
    }

    /// What it needs directly.
    pub fn direct(&self, name: &str) -> Vec<&Package> {
        let start = self.0.values().find(|package| package.source.is_none() && package.name == name);
        start.into_iter().flat_map(|package| &package.needs).filter_map(|id| self.0.get(id)).collect()
    }
}

/// The checksums of a `Cargo.lock`, by name and version.
fn sums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let mut sums = BTreeMap::new();
    for part in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let line = part.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
            line.and_then(|rest| rest.strip_suffix('"'))
        };
        if let (Some(name), Some(version), Some(sum)) = (field("name"), field("version"), field("checksum")) {
            sums.insert((name, version), sum);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_runs_is_found_with_its_sums() {
        let package = |id: &str, source: Option<&str>| json!({ "id": id, "name": id, "version": "1.0.0", "license": "MIT", "source": source });
        let need = |id: &str, kind: Option<&str>| json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("own", None), package("a", Some("r")), package("b", Some("r")), package("t", Some("r"))],
            "resolve": { "nodes": [
                { "id": "own", "deps": [need("a", None), need("t", Some("dev"))] },
                { "id": "a", "deps": [need("b", None), need("t", Some("build"))] },
                { "id": "b", "deps": [need("a", None)] },
                { "id": "t", "deps": [] },
            ] },
        });
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n\n[[package]]\nname = \"own\"\n";
        let graph = Graph::of(&metadata, lock).expect("it is in cargo's form");
        assert_eq!(graph.libraries().count(), 3);
        let below: Vec<(&str, usize)> =
            graph.below("own").iter().map(|(package, needs)| (&*package.name, needs.len())).collect();
        assert_eq!(below, [("a", 1), ("b", 1)]);
        assert_eq!(graph.direct("own")[0].sha256.as_deref(), Some("abc"));
        assert!(Graph::of(&json!({}), "").is_none());
    }
}

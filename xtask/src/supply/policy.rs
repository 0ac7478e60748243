//! `deny.toml`: which licenses, libraries and sources there may be.

use super::graph::Package;
use super::license::is_allowed;
use toml::{Table, Value};

/// What a library must be.
#[derive(Debug)]
pub struct Policy {
    licenses: Vec<String>,
    banned: Vec<String>,
    registries: Vec<String>,
}

impl Policy {
    pub fn parse(text: &str) -> Result<Self, String> {
        let table: Table = toml::from_str(text).map_err(|error| format!("deny.toml: {error}"))?;
        let list = |section: &str, name: &str| {
            let found = table.get(section).and_then(|section| section.get(name)).and_then(Value::as_array);
            found.ok_or_else(|| format!("deny.toml: no list {name} in [{section}]"))
        };
        let texts = |list: &[Value], field: Option<&str>| -> Vec<String> {
            let of = |value: &Value| match field {
                Some(field) => value.get(field)?.as_str().map(str::to_owned),
                None => value.as_str().map(str::to_owned),
            };
            list.iter().filter_map(of).collect()
        };
        Ok(Self {
            licenses: texts(list("licenses", "allow")?, None),
            banned: texts(list("bans", "deny")?, Some("name")),
            registries: texts(list("sources", "allow-registry")?, None),
        })
    }

    /// What of a library is not as it must be, in words.
    pub fn breaches(&self, library: &Package) -> Vec<String> {
        let Package { name, version, license, source, .. } = library;
        let mut breaches = Vec::new();
        let allowed = |license: &str| self.licenses.iter().any(|one| one == license);
        let license = license.as_deref().unwrap_or_default();
        if !is_allowed(license, &allowed) {
            breaches.push(format!("{name} {version}: its license `{license}` is not among those of deny.toml"));
        }
        if self.banned.contains(name) {
            breaches.push(format!("{name} {version} is banned by deny.toml"));
        }
        let registry = source.as_deref().and_then(|source| source.strip_prefix("registry+"));
        if !registry.is_some_and(|registry| self.registries.iter().any(|one| one == registry)) {
            breaches.push(format!("{name} {version} is from {source:?}, which deny.toml does not list"));
        }
        breaches
    }
}

#[cfg(test)]
mod tests {
    use super::super::Graph;
    use super::*;
    use serde_json::json;

    const POLICY: &str =
        "[licenses]\nallow = [\"MIT\"]\n[bans]\ndeny = [{ name = \"bad\" }]\n[sources]\nallow-registry = [\"r\"]\n";

    #[test]
    fn each_kind_of_breach_is_told() {
        let policy = Policy::parse(POLICY).expect("it is right");
        for (name, license, source, breaches) in [
            ("good", Some("MIT"), "registry+r", 0),
            ("good", Some("GPL-3.0"), "registry+r", 1),
            ("good", None, "registry+r", 1),
            ("bad", Some("MIT"), "registry+r", 1),
            ("good", Some("MIT"), "git+https://example.org", 1),
            ("bad", None, "registry+other", 3),
        ] {
            let package = json!({ "id": "x", "name": name, "version": "1", "license": license, "source": source });
            let metadata = json!({ "packages": [package], "resolve": { "nodes": [] } });
            let graph = Graph::of(&metadata, "").expect("it is in cargo's form");
            let found: Vec<String> = graph.libraries().flat_map(|library| policy.breaches(library)).collect();
            assert_eq!(found.len(), breaches, "{found:?}");
        }
        assert!(Policy::parse("[licenses]").is_err());
    }
}

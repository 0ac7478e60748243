//! The list of what a binary is made of (SBOM), in CycloneDX 1.5.

use super::graph::{Graph, Package};
use serde_json::{Value, json};

/// The list for the binary of that version and SHA-256, made at that time (seconds since the epoch). The same input gives the same list.
pub fn sbom(graph: &Graph, version: &str, sha256: &str, at_s: u64) -> Value {
    let below = graph.below("basalt");
    let own = format!("pkg:generic/basalt@{version}");
    let components: Vec<Value> = below.iter().map(|(package, _)| component(package)).collect();
    let references = |needs: &[&Package]| needs.iter().map(|need| reference(need)).collect::<Vec<_>>();
    let mut dependencies = vec![json!({ "ref": own, "dependsOn": references(&graph.direct("basalt")) })];
    for (package, needs) in &below {
        dependencies.push(json!({ "ref": reference(package), "dependsOn": references(needs) }));
    }
    let id = &sha256[..32];
    let serial =
        [&id[..8], &id[8..12], &format!("4{}", &id[13..16]), &format!("8{}", &id[17..20]), &id[20..]].join("-");
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": format!("urn:uuid:{serial}"),
        "version": 1,
        "metadata": {
            "timestamp": rfc3339(at_s),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "basalt",
                "version": version,
                "licenses": [{ "expression": "Apache-2.0" }],
                "hashes": [{ "alg": "SHA-256", "content": sha256 }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    })
}

fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn component(package: &Package) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
        "purl": reference(package),
    });
    if let Some(license) = &package.license {
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ").replace("  ", " ") }]);
    }
    if let Some(sum) = &package.sha256 {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

/// A time in UTC, by the calendar.
pub fn rfc3339(at_s: u64) -> String {
    let (days, second) = (at_s / 86_400, at_s % 86_400);
    // Days since 1 March of year 0, in cycles of 400 years.
    let shifted = days + 719_468;
    let (cycle, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, early) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z", cycle * 400 + year + early)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_the_calendar() {
        for (at_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (5_097_600, "1970-03-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_795_736_364, "2026-11-26T23:39:24Z"),
            (1_795_824_000, "2026-11-28T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(at_s), text);
        }
    }

    #[test]
    fn every_library_is_named_with_license_and_sum() {
        let metadata = json!({
            "packages": [
                { "id": "b", "name": "basalt", "version": "0.1.0", "license": "Apache-2.0", "source": null },
                { "id": "l", "name": "lib", "version": "2.0.0", "license": "MIT/Apache-2.0", "source": "registry+r" },
            ],
            "resolve": { "nodes": [
                { "id": "b", "deps": [{ "pkg": "l", "dep_kinds": [{ "kind": null }] }] }, { "id": "l", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"lib\"\nversion = \"2.0.0\"\nchecksum = \"00ff\"\n";
        let graph = Graph::of(&metadata, lock).expect("it is in cargo's form");
        let list = sbom(&graph, "0.1.0", &"0123456789abcdef".repeat(4), 0);
        assert_eq!(list["components"][0]["purl"], "pkg:cargo/lib@2.0.0");
        assert_eq!(list["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(list["components"][0]["hashes"][0]["content"], "00ff");
        assert_eq!(list["dependencies"][0]["dependsOn"][0], "pkg:cargo/lib@2.0.0");
        assert_eq!(list["serialNumber"], "urn:uuid:01234567-89ab-4def-8123-456789abcdef");
    }
}

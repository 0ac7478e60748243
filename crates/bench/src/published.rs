//! What others have published: figures only, each as its author printed it, with the source's name and date.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use toml::Value;

const TEXT: &str = include_str!("../published/results.toml");

/// One publication.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// How suites name it.
    pub id: String,
    /// The product.
    pub system: String,
    /// What was measured.
    pub title: String,
    /// Who printed it, where.
    pub source: String,
    /// When, as far as it is told.
    pub date: String,
    /// Servers.
    pub servers: u32,
    /// Physical cores of all servers, where they can be told.
    pub cores: Option<u32>,
    /// Hardware threads of all servers.
    pub hw_threads: Option<u32>,
    /// Memory of each server.
    pub ram_gb_per_server: u32,
    /// Disks.
    pub storage: String,
    /// The network, where it is told.
    #[serde(default)]
    pub network: String,
    /// Whether the data that were asked for fitted into memory; a row of its own may say otherwise.
    pub in_memory: bool,
    /// Records, where all rows are of as many.
    pub records: Option<u64>,
    /// Copies of each record.
    pub replication_factor: u32,
    /// When a write was acknowledged.
    pub write_ack: String,
    /// What a read might see.
    pub read_consistency: String,
    /// What else the reader must know.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Figures.
    pub rows: Vec<BTreeMap<String, Value>>,
}

/// A row and the publication that it is from.
#[derive(Clone, Copy, Debug)]
pub struct PublishedRow<'a> {
    /// Where it stands.
    pub of: &'a Published,
    /// What it says.
    pub values: &'a BTreeMap<String, Value>,
}

/// All publications.
#[must_use]
pub fn all() -> &'static [Published] {
    #[derive(Deserialize)]
    struct File {
        report: Vec<Published>,
    }
    static PARSED: OnceLock<Vec<Published>> = OnceLock::new();
    PARSED.get_or_init(|| toml::from_str::<File>(TEXT).expect("the file is part of the program and tested").report)
}

/// The row of the publication `wanted["report"]` that has all other values of `wanted`.
///
/// # Errors
/// There is none.
pub fn row(wanted: &BTreeMap<String, Value>) -> Result<PublishedRow<'static>, String> {
    let id = wanted.get("report").and_then(Value::as_str).unwrap_or_default();
    let of = all().iter().find(|of| of.id == id).ok_or_else(|| {
        let known: Vec<&str> = all().iter().map(|of| of.id.as_str()).collect();
        format!("published report `{id}`: there are {}", known.join(", "))
    })?;
    let agrees = |values: &BTreeMap<String, Value>| {
        wanted.iter().all(|(name, value)| name == "report" || values.get(name) == Some(value))
    };
    let values =
        of.rows.iter().find(|values| agrees(values)).ok_or_else(|| format!("{id} has no row with {wanted:?}"))?;
    Ok(PublishedRow { of, values })
}

impl PublishedRow<'_> {
    /// Whether the data that were asked for fitted into memory.
    #[must_use]
    pub fn in_memory(&self) -> bool {
        self.values.get("in_memory").and_then(Value::as_bool).unwrap_or(self.of.in_memory)
    }

    /// A figure, if the row has it.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        number(self.values.get(name)?)
    }

    /// A list of figures, if the row has it.
    #[must_use]
    pub fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        self.values.get(name)?.as_array()?.iter().map(number).collect()
    }

    /// The cores that its throughput came from, and whether they are hardware threads; none where it is not told: a row of
    /// other machines than its publication's says 0.
    #[must_use]
    pub fn cores(&self) -> Option<(f64, bool)> {
        let own = |name: &str| self.number(name);
        if own("cores") == Some(0.0) {
            return None;
        }
        let of = |count: Option<u32>| count.map(f64::from);
        let cores = own("cores").map(|cores| (cores, false)).or_else(|| own("hw_threads").map(|n| (n, true)));
        cores.or_else(|| of(self.of.cores).map(|n| (n, false))).or_else(|| of(self.of.hw_threads).map(|n| (n, true)))
    }

    /// Operations a second of one core.
    #[must_use]
    pub fn per_core_s(&self) -> Option<f64> {
        Some(self.number("ops_per_s")? / self.cores()?.0)
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rows_are_found_by_what_they_say() {
        let wanted = |pairs: &[(&str, Value)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            pairs.chain([("report".to_owned(), Value::from("oracle-nosql-1.2m"))]).collect::<BTreeMap<_, _>>()
        };
        let found = row(&wanted(&[("shards", Value::from(10))])).unwrap();
        assert_eq!(found.number("ops_per_s"), Some(1_244_550.0));
        assert_eq!(found.numbers("write_ms"), Some(vec![4.47, 23.0, 53.0]));
        assert_eq!(found.per_core_s().map(f64::round), Some(5186.0));
        assert!(row(&wanted(&[("shards", Value::from(3))])).unwrap_err().contains("no row"));
        assert!(all().iter().all(|of| !of.rows.is_empty() && !of.source.is_empty() && !of.date.is_empty()));
    }
}

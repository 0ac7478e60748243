//! By which rules the store evaluates scripts: a setting of the map, which no node that does not know them can follow.
//!
//! It is set once, when all nodes of the store are known to speak a version of the protocol whose programs know the rules.
//! From then on nodes of older versions are not talked to any more.

use super::cluster_databases::has_cluster_databases;
use cluster::Map;
use node::EngineVersion;
use vocab::limits::{SCRIPT_INSTRUCTIONS_MAX, SCRIPT_MEMORY_BYTES_MAX};

/// The setting.
pub(crate) const ENGINE_SETTING: &str = "script-engine";

/// The rules of a store, if its nodes evaluate scripts and this one knows how.
pub(crate) fn script_engine(map: &Map) -> Option<EngineVersion> {
    EngineVersion::of_number(map.settings.get(ENGINE_SETTING)?.parse().ok()?)
}

/// What a map says of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScriptRules {
    /// By which rules they are evaluated.
    pub(crate) engine: EngineVersion,
    /// Whether those of a cluster's clients may choose databases.
    pub(crate) has_databases: bool,
    /// Instructions that one may run.
    pub(crate) instructions_max: u64,
    /// Bytes that its state may hold.
    pub(crate) memory_bytes_max: u64,
}

impl ScriptRules {
    /// None while the store evaluates no scripts.
    pub(crate) fn of(map: &Map) -> Option<Self> {
        let number = |name: &str| {
            let setting = cluster::store_setting(name)?;
            cluster::setting_value(map, setting)?.parse::<u64>().ok()
        };
        Some(Self {
            engine: script_engine(map)?,
            has_databases: has_cluster_databases(map),
            instructions_max: number("script-instructions-max").unwrap_or(SCRIPT_INSTRUCTIONS_MAX),
            memory_bytes_max: number("script-memory-max").unwrap_or(SCRIPT_MEMORY_BYTES_MAX),
        })
    }
}

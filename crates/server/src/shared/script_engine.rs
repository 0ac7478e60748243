//! By which rules the store evaluates scripts: a setting of the map, which no node that does not know them can follow.
//!
//! It is set once, when all nodes of the store are known to speak a version of the protocol whose programs know the rules.
//! From then on nodes of older versions are not talked to any more.

use cluster::Map;
use node::EngineVersion;

/// The setting.
pub(crate) const ENGINE_SETTING: &str = "script-engine";

/// The rules of a store, if its nodes evaluate scripts and this one knows how.
pub(crate) fn script_engine(map: &Map) -> Option<EngineVersion> {
    EngineVersion::of_number(map.settings.get(ENGINE_SETTING)?.parse().ok()?)
}

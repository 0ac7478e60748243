//! Features that nodes of an older release do not know: a setting of the map turns one on, once all nodes of the store know it.
//!
//! The leader of the metadata group decides that (`admin::settings`), by its newest map. A node whose clients ask looks itself first: the leader may be
//! such an older node, which sets what it is told to.
//!
//! Settings, and values of them, that older releases do not know wait for the same: such a release would pass over them.

use crate::links::{
    CLUSTER_DATABASES_SINCE, FIFTH_ENGINE_SINCE, FOURTH_ENGINE_SINCE, SCRIPTS_SINCE, SEVENTH_ENGINE_SINCE,
    SIXTH_ENGINE_SINCE, THIRD_ENGINE_SINCE,
};
use crate::shared::{ENGINE_SETTING, EntryFormats, LAYOUT, LAYOUT_SETTING, NodeShared};
use cluster::{Map, StoreSetting, store_setting};
use node::EngineVersion;
use vocab::NodeId;

/// What a node of the map is taken to speak that has not been heard of since this process began, where a setting is set that opens no gate.
/// Clients set what this version knows (SWAPDB, CONFIG SET), which must not fail for a node that is down.
const SILENT_VERSION: u16 = 6;

/// A node that keeps something from being begun.
enum Hindrance {
    /// It is of an older release.
    Older(NodeId),
    /// It has not been heard of.
    Silent(NodeId),
}

/// Something that begins once all nodes know how.
pub(super) struct FormatGate {
    /// The setting that says that it has begun.
    pub(super) setting: &'static str,
    /// The first version of the protocol between nodes whose speakers know how.
    since: u16,
    /// What it is, as a reply says it.
    what: &'static str,
}

/// What is evaluated by rules of an engine for scripts.
const fn by_rules(since: u16, what: &'static str) -> FormatGate {
    FormatGate { setting: ENGINE_SETTING, since, what }
}

/// Scripts and functions are evaluated.
pub(super) const SCRIPTS: FormatGate = by_rules(SCRIPTS_SINCE, "scripts and functions run");
// And by the rules of later engines.
const THIRD_ENGINE: FormatGate = by_rules(THIRD_ENGINE_SINCE, "scripts run by the rules of the third engine");
const FOURTH_ENGINE: FormatGate = by_rules(FOURTH_ENGINE_SINCE, "scripts run by the rules of the fourth engine");
const FIFTH_ENGINE: FormatGate = by_rules(FIFTH_ENGINE_SINCE, "scripts run by the rules of the fifth engine");
const SIXTH_ENGINE: FormatGate = by_rules(SIXTH_ENGINE_SINCE, "scripts run by the rules of the sixth engine");
const SEVENTH_ENGINE: FormatGate = by_rules(SEVENTH_ENGINE_SINCE, "scripts run by the rules of the seventh engine");
/// Clients of a cluster may have keys in databases beyond 0.
pub(super) const CLUSTER_DATABASES: FormatGate = FormatGate {
    setting: LAYOUT_SETTING,
    since: CLUSTER_DATABASES_SINCE,
    what: "clients of a cluster have databases beyond 0",
};

/// The first version of the protocol between nodes whose speakers evaluate scripts by these rules.
pub(crate) fn engine_since(engine: EngineVersion) -> u16 {
    FormatGate::of_engine(engine).since
}

impl FormatGate {
    /// Whether this release knows what a value of a setting stands for.
    pub(super) fn knows(name: &str, value: &str) -> bool {
        match () {
            () if name == ENGINE_SETTING => value.parse().ok().and_then(EngineVersion::of_number).is_some(),
            () if name == LAYOUT_SETTING => value == LAYOUT,
            () => true,
        }
    }

    /// That which a value of a setting opens, if it does.
    pub(super) fn of_setting(name: &str, value: &str) -> Option<&'static Self> {
        if name == ENGINE_SETTING {
            let engine = value.parse().ok().and_then(EngineVersion::of_number);
            return Some(Self::of_engine(engine.unwrap_or(EngineVersion::NEWEST)));
        }
        Some(&CLUSTER_DATABASES).filter(|gate| gate.setting == name)
    }

    /// That behind which scripts are evaluated by these rules.
    pub(super) fn of_engine(engine: EngineVersion) -> &'static Self {
        match engine {
            EngineVersion::First | EngineVersion::Second => &SCRIPTS,
            EngineVersion::Third => &THIRD_ENGINE,
            EngineVersion::Fourth => &FOURTH_ENGINE,
            EngineVersion::Fifth => &FIFTH_ENGINE,
            EngineVersion::Sixth => &SIXTH_ENGINE,
            EngineVersion::Seventh => &SEVENTH_ENGINE,
        }
    }

    /// The error, the text of a reply, says which node is of an older release, as far as this node knows.
    pub(super) fn refuse_beside_older(&self, store: &NodeShared) -> Result<(), String> {
        let known = store.known();
        let Some(map) = &known.map else { return Ok(()) };
        match map.nodes.keys().find(|node| self.is_older(**node, &store.entry_formats)) {
            Some(node) => Err(format!("ERR {}", self.beside_older(*node))),
            None => Ok(()),
        }
    }

    /// Whether it may begin, at the leader of the metadata group, by its newest map. The error says which node is in the way.
    pub(super) fn check(&self, map: &Map, own: NodeId, spoken: &EntryFormats) -> Result<(), String> {
        let what = self.what;
        match Self::hindrance(self.since, (map, own), spoken) {
            None => Ok(()),
            Some(Hindrance::Older(node)) => Err(self.beside_older(node)),
            Some(Hindrance::Silent(node)) => Err(format!(
                "{what} once every node is known to have them: node {node} cannot be asked; start it, or remove it from the store"
            )),
        }
    }

    /// Whether a setting may have a value, at the leader of the metadata group, by its newest map. The error says which node is in the way.
    pub(super) fn check_setting(
        setting: &StoreSetting,
        value: &str,
        (map, own): (&Map, NodeId),
        spoken: &EntryFormats,
    ) -> Result<(), String> {
        if let Some(gate) = Self::of_setting(setting.name, value) {
            return gate.check(map, own, spoken);
        }
        let (name, since) = (setting.name, setting.since_of(value));
        // What is as new was set when all nodes knew it.
        let is_set = || map.settings.iter().any(|(name, value)| Self::since_of(name, value) >= since);
        match Self::hindrance(since, (map, own), spoken) {
            Some(Hindrance::Older(node)) => {
                Err(format!("{name} of {value} once every node is of a release that knows it: node {node} is older"))
            }
            Some(Hindrance::Silent(node)) if since > SILENT_VERSION && !is_set() => Err(format!(
                "{name} of {value} once every node is known to know it: node {node} cannot be asked; start it, or remove it from the store"
            )),
            _ => Ok(()),
        }
    }

    /// The first version of the protocol between nodes whose speakers know a value of a setting; 0: all of them do, or none is known to.
    fn since_of(name: &str, value: &str) -> u16 {
        let gate = Self::of_setting(name, value).map(|gate| gate.since);
        gate.or_else(|| Some(store_setting(name)?.since_of(value))).unwrap_or(0)
    }

    /// A node of the map that does not speak that version, or is not known to. One that is known not to is told first.
    fn hindrance(since: u16, (map, own): (&Map, NodeId), spoken: &EntryFormats) -> Option<Hindrance> {
        let others = || map.nodes.keys().copied().filter(|node| *node != own);
        let is_older = |node: &NodeId| spoken.spoken(*node).is_some_and(|version| version < since);
        let older = others().find(is_older).map(Hindrance::Older);
        older.or_else(|| others().find(|node| spoken.spoken(*node).is_none()).map(Hindrance::Silent))
    }

    fn is_older(&self, node: NodeId, spoken: &EntryFormats) -> bool {
        spoken.spoken(node).is_some_and(|version| version < self.since)
    }

    fn beside_older(&self, node: NodeId) -> String {
        format!("{} once every node is of a release that has them: node {node} is older", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::NodeInfo;
    use std::collections::BTreeMap;

    fn node(id: u64) -> NodeInfo {
        NodeInfo {
            id: NodeId(id),
            peer_address: format!("10.0.0.{id}:17000"),
            client_host: format!("10.0.0.{id}"),
            client_port: 7000,
            zone: String::new(),
            capacity: 1,
        }
    }

    #[test]
    fn all_nodes_must_be_known_to_be_new_enough() {
        let engines = [
            (&SCRIPTS, "2"),
            (&THIRD_ENGINE, "3"),
            (&FOURTH_ENGINE, "4"),
            (&FIFTH_ENGINE, "5"),
            (&SIXTH_ENGINE, "6"),
            (&SEVENTH_ENGINE, "7"),
        ];
        for (gate, value) in engines.into_iter().chain([(&CLUSTER_DATABASES, "1")]) {
            let mut map = Map::default();
            let spoken = EntryFormats::default();
            let shown = |map: &Map, spoken: &EntryFormats| gate.check(map, NodeId(1), spoken).err().unwrap_or_default();
            map.nodes.insert(NodeId(1), node(1));
            assert_eq!(shown(&map, &spoken), "", "a node alone");
            let other = NodeId(2);
            map.nodes.insert(other, node(2));
            assert!(shown(&map, &spoken).contains(&format!("node {other} cannot be asked")));
            spoken.heard(other, gate.since - 1);
            assert!(shown(&map, &spoken).contains(&format!("node {other} is older")));
            spoken.heard(other, gate.since);
            assert_eq!(shown(&map, &spoken), "");
            assert_eq!(
                FormatGate::of_setting(gate.setting, value).map(|found| (found.since, found.what)),
                Some((gate.since, gate.what))
            );
        }
        assert!(FormatGate::of_setting("databases", "1").is_none());
    }

    #[test]
    fn settings_wait_for_nodes_that_do_not_know_them() {
        let other = NodeId(2);
        // The version that the other node speaks, if it was heard of; what is set already; the setting and its value; and what is said of that.
        type Case<'a> = (Option<u16>, Option<(&'a str, &'a str)>, (&'a str, &'a str), &'a str);
        let cases: [Case<'_>; 10] = [
            (None, None, ("durability", "nosync"), ""),
            (Some(2), None, ("durability", "nosync"), ""),
            (Some(3), None, ("auto-rebuild", "no"), "auto-rebuild of no once every node is of a release"),
            (Some(4), None, ("auto-rebuild", "no"), ""),
            (None, None, ("database-settings", "3:at=5;5:at=3"), ""),
            (
                None,
                None,
                ("database-settings", "3:max-bytes=9"),
                "of 3:max-bytes=9 once every node is known to know it",
            ),
            (Some(6), None, ("database-settings", "3:max-bytes=9"), "of 3:max-bytes=9 once every node is of a release"),
            (Some(6), None, ("database-settings", "3:keys-max=9"), ""),
            (Some(7), None, ("database-settings", "3:max-bytes=9"), ""),
            (None, Some(("script-engine", "4")), ("own-shard-ops", "9"), ""),
        ];
        for (version, set, (name, value), expected) in cases {
            let mut map = Map::default();
            [1, 2].into_iter().for_each(|id| _ = map.nodes.insert(NodeId(id), node(id)));
            map.settings.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
            let spoken = EntryFormats::default();
            if let Some(version) = version {
                spoken.heard(other, version);
            }
            let setting = store_setting(name).expect("a setting of the table");
            let outcome = FormatGate::check_setting(setting, value, (&map, NodeId(1)), &spoken);
            let said = outcome.err().unwrap_or_default();
            assert_eq!(said.is_empty(), expected.is_empty(), "{name} {value}: {said:?}");
            assert!(said.contains(expected) && (said.is_empty() || said.contains(&format!("node {other}"))), "{said}");
        }
        let newest = (store_setting("own-shard-ops").expect("a setting of the table"), "9");
        let map =
            Map { nodes: [(NodeId(1), node(1))].into_iter().collect::<BTreeMap<_, _>>().into(), ..Map::default() };
        assert_eq!(FormatGate::check_setting(newest.0, newest.1, (&map, NodeId(1)), &EntryFormats::default()), Ok(()));
    }
}

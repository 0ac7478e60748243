//! What may be set for the whole store: one table, and the values in force as of a map.
//!
//! The map holds what was set, as text. Nothing is held of a setting that has its default. Every node applies a change
//! when it takes up the map that carries it.
//!
//! A row that is added, and one that gets values that earlier releases refuse, says since which version of the protocol between nodes
//! it is so (`StoreSetting::since`): the leader of the metadata group sets it once all nodes speak that.

use crate::databases::{Databases, words_since};
use crate::map::Map;
use vocab::memory_bytes;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSetting {
    /// Its name.
    pub name: &'static str,
    /// What its values are.
    pub kind: SettingKind,
    /// What holds unless it is set; none: what each node was started with.
    pub default: Option<&'static str>,
    /// Which setting of a node it stands above.
    pub above: Option<&'static str>,
    /// The first version of the protocol between nodes whose speakers all know it; 0: all of them do.
    pub since: u16,
    /// What it is for, in a sentence or two.
    pub help: &'static str,
}

/// What the values of a setting are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// One of these words.
    Word(&'static [&'static str]),
    /// `yes` or `no`.
    Flag,
    /// A whole number, both bounds included.
    Count(u64, u64),
    /// A number of bytes, which may be written as `4gb`.
    Bytes(u64, u64),
    /// Any of these letters.
    Letters(&'static str),
    /// What is set for single databases.
    OfDatabases,
}

const fn row(name: &'static str, kind: SettingKind, default: &'static str, help: &'static str) -> StoreSetting {
    StoreSetting { name, kind, default: Some(default), above: None, since: 0, help }
}

/// One that stands above a setting that every node has of its own.
const fn above(name: &'static str, kind: SettingKind, own: &'static str, help: &'static str) -> StoreSetting {
    StoreSetting { name, kind, default: None, above: Some(own), since: 0, help }
}

use SettingKind::{Bytes, Count, Flag, Letters, OfDatabases, Word};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Every setting of a store, in the order in which they are listed.
pub const STORE_SETTINGS: &[StoreSetting] = &[
    above(
        "durability",
        Word(&["sync", "nosync"]),
        "durability",
        "When a write is answered that says nothing itself: on disk (sync), or in the operating system's memory and on \
         disk within 100 ms (nosync).",
    ),
    above(
        "acks",
        Word(&["majority", "all", "none"]),
        "acks",
        "Which replicas hold a write before it is answered: a majority, all of them, or none but the leader.",
    ),
    above(
        "move-rate-mb",
        Count(0, 100_000),
        "transfer-rate",
        "Megabytes a second that replicas on the move may take of a node, in each direction; 0: no limit.",
    ),
    above(
        "notify-keyspace-events",
        Letters("KEg$lshzxetdmnA"),
        "notify-keyspace-events",
        "Which events of keys are published, by the letters of Redis; empty: none. CONFIG SET at any node sets it too.",
    )
    .known_since(6),
    row(
        "script-instructions-max",
        Count(10_000, 100_000_000_000),
        "400000000",
        "Instructions of Lua that a script may run before it is refused, and nothing of it written: about 100 million a second.",
    )
    .known_since(6),
    row(
        "script-memory-max",
        Bytes(MIB, 1 << 30),
        "64mb",
        "Bytes that a script may hold in Lua before it is refused, and nothing of it written.",
    )
    .known_since(6),
    row(
        "functions-version",
        Count(0, u32::MAX as u64),
        "0",
        "Counts the changes of functions: the store sets it itself.",
    )
    .known_since(6),
    row(
        "script-engine",
        Count(0, 255),
        "0",
        "By which rules scripts are evaluated: the store sets it itself, once all of its nodes know them; 0: no scripts.",
    )
    .known_since(6),
    row(
        "cluster-database-layout",
        Count(0, 255),
        "0",
        "How keys are stored of databases beyond 0 of a cluster's clients: the store sets it itself at the first SELECT of one, once all of \
         its nodes know it; 0: there are none.",
    )
    .known_since(7),
    row(
        "database-settings",
        OfDatabases,
        "",
        "What is set for single databases, a row for each: `ctl database set` and SWAPDB change it.",
    )
    .known_since(6),
    row("moves-per-source", Count(1, 16), "1", "Replicas that may leave one node at the same time."),
    row("moves-per-node", Count(1, 16), "2", "Replicas that may arrive at one node at the same time."),
    above(
        "compaction-rate",
        Bytes(0, 64 << 30),
        "rate-limit",
        "Bytes a second that compaction may write on a node; flushes count but never wait; 0: no limit.",
    ),
    row(
        "failure-timeout-ms",
        Count(1000, DAY_MS),
        "300000",
        "How long a node may be silent before its replicas are made anew elsewhere. If it returns earlier, nothing moves.",
    ),
    row("split-bytes", Bytes(MIB, TIB), "4gb", "A shard that holds more becomes two, if auto-split is on."),
    row(
        "split-ops",
        Count(0, 100_000_000),
        "0",
        "A shard that is asked for more operations a second, for a minute on end, becomes two, if auto-split is on and \
         neither half would be asked for more than three quarters of them; 0: however often it is asked.",
    )
    .known_since(3),
    row(
        "own-shard-ops",
        Count(0, 100_000_000),
        "20000",
        "A slot, such as that of a database, that alone is asked for more operations a second, for a minute on end, gets a \
         shard to itself, if auto-split is on and other slots of its shard are asked too; 0: never.",
    )
    .known_since(7),
    row(
        "split-rest-ms",
        Count(1000, DAY_MS),
        "600000",
        "For how long the halves of a shard that was split are not split again without being asked.",
    )
    .known_since(3),
    row(
        "auto-split",
        Flag,
        "yes",
        "Whether shards that have grown too large, or are asked too often, are split without being asked.",
    ),
    row(
        "auto-rebuild",
        Flag,
        "yes",
        "Whether a replica whose files are found damaged is made anew from the others without being asked, at most three \
         times a day on one node.",
    )
    .known_since(4),
    row("auto-rebalance", Flag, "yes", "Whether a node that joins takes its part of the data without being asked."),
    row(
        "purge-rate-mb",
        Count(0, 100_000),
        "64",
        "Megabytes a second that a node looks through for rows that a split has given away, to remove them; 0: no limit.",
    )
    .known_since(3),
    row("verify-rate-mb", Count(1, 100_000), "50", "Megabytes a second that `ctl verify` may read on a node."),
];

/// The setting of that name.
#[must_use]
pub fn store_setting(name: &str) -> Option<&'static StoreSetting> {
    STORE_SETTINGS.iter().find(|setting| setting.name == name)
}

impl StoreSetting {
    const fn known_since(self, since: u16) -> Self {
        Self { since, ..self }
    }

    /// The first version of the protocol between nodes whose speakers all know what that value says; 0: all of them do.
    #[must_use]
    pub fn since_of(&self, value: &str) -> u16 {
        match self.kind {
            OfDatabases => self.since.max(words_since(value)),
            Word(_) | Flag | Count(..) | Bytes(..) | Letters(_) => self.since,
        }
    }

    /// A value in the form in which the map keeps it, or what is wrong with it.
    pub fn parse(&self, text: &str) -> Result<String, String> {
        let text = text.trim();
        let number = |number: Option<u64>, from: u64, to: u64| {
            let number = number.filter(|number| (from..=to).contains(number));
            number.map(|number| number.to_string()).ok_or_else(|| format!("{}: {}", self.name, self.range()))
        };
        match self.kind {
            Word(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
                word.map(|word| (*word).to_owned()).ok_or_else(|| format!("{}: {}", self.name, self.range()))
            }
            Flag => match text {
                _ if text.eq_ignore_ascii_case("yes") => Ok("yes".to_owned()),
                _ if text.eq_ignore_ascii_case("no") => Ok("no".to_owned()),
                _ => Err(format!("{}: {}", self.name, self.range())),
            },
            Count(from, to) => number(text.parse().ok(), from, to),
            Bytes(from, to) => number(memory_bytes(text.as_bytes()), from, to),
            Letters(letters) => {
                let fits = text.chars().all(|letter| letters.contains(letter));
                if fits { Ok(text.to_owned()) } else { Err(format!("{}: {}", self.name, self.range())) }
            }
            OfDatabases => text.parse::<Databases>().map(|databases| databases.to_string()),
        }
    }

    /// Which values it takes, in words.
    #[must_use]
    pub fn range(&self) -> String {
        match self.kind {
            Word(words) => format!("one of {}", words.join(", ")),
            Flag => "yes or no".to_owned(),
            Count(from, to) => format!("a number from {from} to {to}"),
            Bytes(from, to) => format!("a number of bytes from {from} to {to}, which may be written as 100mb or 4gb"),
            Letters(letters) => format!("any of the letters {letters}"),
            OfDatabases => {
                "rows of a database and what is set of it, as `3:name=orders,keys-max=1000`, with ; between".to_owned()
            }
        }
    }
}

/// The settings in force as of one map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Megabytes a second that moves may take of a node in each direction, if it is set; 0: no limit.
    pub move_rate_mb: Option<u64>,
    /// Replicas that may leave one node at the same time.
    pub moves_per_source: usize,
    /// Replicas that may arrive at one node at the same time.
    pub moves_per_node: usize,
    /// How long a node may be silent before it is taken for lost.
    pub failure_timeout_ms: u64,
    /// A shard with more bytes becomes two.
    pub split_bytes: u64,
    /// A shard that is asked for more operations a second becomes two; 0: none does for that.
    pub split_ops: u64,
    /// A slot that alone is asked for more operations a second gets a shard to itself; 0: none does.
    pub own_shard_ops: u64,
    /// For how long what was divided is not divided again by itself.
    pub split_rest_ms: u64,
    /// Whether that happens by itself.
    pub auto_split: bool,
    /// Whether damaged replicas are made anew by themselves.
    pub auto_rebuild: bool,
    /// Whether a node that joins takes its part by itself.
    pub auto_rebalance: bool,
    /// Megabytes a second that a node looks through for rows to purge; 0: no limit.
    pub purge_rate_mb: u64,
    /// Megabytes a second that a comparison of replicas may read on a node.
    pub verify_rate_mb: u64,
}

impl Settings {
    /// Those of a map. What a map holds and this version does not know has no effect.
    #[must_use]
    pub fn of(map: &Map) -> Self {
        let number = |name: &str| number(map, name).expect("it has a default that is a number: tested");
        let flag = |name: &str| value(map, name).as_deref() == Some("yes");
        Self {
            move_rate_mb: self::number(map, "move-rate-mb"),
            moves_per_source: number("moves-per-source") as usize,
            moves_per_node: number("moves-per-node") as usize,
            failure_timeout_ms: number("failure-timeout-ms"),
            split_bytes: number("split-bytes"),
            split_ops: number("split-ops"),
            own_shard_ops: number("own-shard-ops"),
            split_rest_ms: number("split-rest-ms"),
            auto_split: flag("auto-split"),
            auto_rebuild: flag("auto-rebuild"),
            auto_rebalance: flag("auto-rebalance"),
            purge_rate_mb: number("purge-rate-mb"),
            verify_rate_mb: number("verify-rate-mb"),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(&Map::default())
    }
}

/// What holds of a setting as of a map, in its normal form; none if each node goes by its own.
#[must_use]
pub fn setting_value(map: &Map, setting: &StoreSetting) -> Option<String> {
    let set = map.settings.get(setting.name).and_then(|text| setting.parse(text).ok());
    set.or_else(|| setting.default.and_then(|text| setting.parse(text).ok()))
}

fn value(map: &Map, name: &str) -> Option<String> {
    setting_value(map, store_setting(name).expect("a name of the table: tested"))
}

fn number(map: &Map, name: &str) -> Option<u64> {
    value(map, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_table_is_sound() {
        for (at, setting) in STORE_SETTINGS.iter().enumerate() {
            assert!(STORE_SETTINGS[..at].iter().all(|other| other.name != setting.name), "{} twice", setting.name);
            assert!(setting.default.is_some() != setting.above.is_some(), "{}", setting.name);
            assert!(setting.name.len() <= vocab::limits::SETTING_NAME_BYTES_MAX);
            if let Some(default) = setting.default {
                assert!(setting.parse(default).is_ok(), "{}", setting.name);
            }
        }
        let expected = Settings {
            move_rate_mb: None,
            moves_per_source: 1,
            moves_per_node: 2,
            failure_timeout_ms: 300_000,
            split_bytes: 4 << 30,
            split_ops: 0,
            own_shard_ops: 20_000,
            split_rest_ms: 600_000,
            auto_split: true,
            auto_rebuild: true,
            auto_rebalance: true,
            purge_rate_mb: 64,
            verify_rate_mb: 50,
        };
        assert_eq!(Settings::default(), expected);
    }

    #[test]
    fn values_have_one_form_and_a_range() {
        for (name, given, kept) in [
            ("durability", "NoSync", Ok("nosync")),
            ("durability", "never", Err("durability: one of sync, nosync")),
            ("split-bytes", " 2gb ", Ok("2147483648")),
            ("split-bytes", "0", Err("split-bytes: a number of bytes from 1048576 to 1099511627776")),
            ("failure-timeout-ms", "10000", Ok("10000")),
            ("failure-timeout-ms", "10s", Err("failure-timeout-ms: a number from 1000 to 86400000")),
            ("auto-split", "NO", Ok("no")),
            ("auto-split", "off", Err("auto-split: yes or no")),
            ("move-rate-mb", "0", Ok("0")),
            ("notify-keyspace-events", "KEA", Ok("KEA")),
            ("notify-keyspace-events", "", Ok("")),
            ("notify-keyspace-events", "KQ", Err("notify-keyspace-events: any of the letters")),
        ] {
            let got = store_setting(name).unwrap().parse(given);
            match kept {
                Ok(kept) => assert_eq!(got.as_deref(), Ok(kept), "{name} {given}"),
                Err(start) => assert!(got.unwrap_err().starts_with(start), "{name} {given}"),
            }
        }
        assert_eq!(store_setting("nosuch"), None);
    }

    #[test]
    fn what_a_map_holds_is_in_force() {
        let mut map = Map::default();
        map.settings.insert("auto-split".to_owned(), "no".to_owned());
        map.settings.insert("move-rate-mb".to_owned(), "0".to_owned());
        map.settings.insert("failure-timeout-ms".to_owned(), "7000".to_owned());
        // As another version may have left it.
        map.settings.insert("split-bytes".to_owned(), "many".to_owned());
        map.settings.insert("from-the-future".to_owned(), "1".to_owned());
        let settings = Settings::of(&map);
        assert_eq!((settings.auto_split, settings.move_rate_mb), (false, Some(0)));
        assert_eq!((settings.failure_timeout_ms, settings.split_bytes), (7000, 4 << 30));
    }
}

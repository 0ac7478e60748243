//! What BY and GET of SORT look up for an element: the value of another key, whose name the element is part of.
//!
//! All keys of a database are in one shard. A client of the cluster may ask for keys that have the slot of the key which is sorted,
//! whatever the element is: the pattern has their hash tag.

use super::call::Error;
use super::hash::Stored;
use super::slot::slot_of_pattern;
use crate::{Kind, ReadSpace, Rules, Type};
use vocab::limits::KEY_BYTES_MAX;
use vocab::{Database, client_key, is_database_key, slot_of};

/// A pattern of BY or GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SortPattern {
    /// The element itself.
    Element,
    /// It names no key: there is no value.
    Nothing,
    /// A key, and perhaps a field of the hash at it.
    Key(KeyPattern),
}

/// The name of a key, with the element between two parts of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPattern {
    before: Vec<u8>,
    after: Vec<u8>,
    field: Option<Vec<u8>>,
}

impl SortPattern {
    /// Reads a pattern of a request whose key is `stored`; `None` if what it names may be in other slots.
    pub(super) fn of(pattern: &[u8], stored: &[u8], rules: Rules) -> Option<Self> {
        // Replicas of earlier releases refuse a client of the cluster all patterns.
        let has_slot = || pattern == b"#" || slot_of_pattern(pattern) == Some(slot_of(stored));
        // What is stored of a database, such a client may name only where its rights to databases are looked at.
        let is_own = || is_database_key(stored) || !is_database_key(pattern);
        let is_known = Database::of_key(stored).is_some() || rules >= Rules::Fourth && has_slot() && is_own();
        if !is_known {
            return None;
        }
        // In a cluster database too: what comes before a name depends on its slot.
        let prefix = &stored[..stored.len() - client_key(stored).len()];
        if pattern == b"#" {
            return Some(Self::Element);
        }
        let Some(at) = pattern.iter().position(|byte| *byte == b'*') else { return Some(Self::Nothing) };
        let (before, after) = (&pattern[..at], &pattern[at + 1..]);
        let arrow = after.windows(2).position(|two| two == b"->").filter(|at| at + 2 < after.len());
        let (after, field) = match arrow {
            Some(arrow) => (&after[..arrow], Some(after[arrow + 2..].to_vec())),
            None => (after, None),
        };
        Some(Self::Key(KeyPattern { before: [prefix, before].concat(), after: after.to_vec(), field }))
    }

    /// What it comes to for an element.
    pub(super) fn value(&self, space: &mut dyn ReadSpace, element: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let pattern = match self {
            Self::Element => return Ok(Some(element.to_vec())),
            Self::Nothing => return Ok(None),
            Self::Key(pattern) => pattern,
        };
        let key = [&pattern.before, element, &pattern.after].concat();
        if key.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        let Some(record) = space.get(&key)? else { return Ok(None) };
        let view = record.view();
        match &pattern.field {
            None => Ok((view.kind == Kind::STRING).then(|| view.payload.to_vec())),
            Some(field) if view.kind.ty == Type::Hash => {
                let hash = Stored::of(&key, record, space.now_ms())?;
                Ok(hash.get(space, field)?.map(|value| value.to_vec()))
            }
            Some(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::command::testspace::{TestSpace, answer};
    use vocab::{ClusterDatabase, Namespace};

    #[test]
    fn an_element_stands_in_the_name_of_a_key() {
        let mut space = TestSpace::new();
        let prefix = Database::of_number(2).unwrap().prefix();
        let stored = |name: &str| [&prefix[..], name.as_bytes()].concat();
        answer(&mut space, &[b"SET", &stored("w_7_x"), b"string"]);
        answer(&mut space, &[b"HSET", &stored("h_7"), b"f", b"field"]);
        for (pattern, expected) in [
            ("#", Some("7")),
            ("none", None),
            ("w_*_x", Some("string")),
            ("w_*_y", None),
            ("h_*", None),
            ("h_*->f", Some("field")),
            ("h_*->g", None),
            ("w_*_x->f", None),
            ("*->", None),
        ] {
            let pattern = SortPattern::of(pattern.as_bytes(), &stored("list"), Rules::First).unwrap();
            let value = pattern.value(&mut space, b"7").unwrap();
            assert_eq!(value.as_deref(), expected.map(str::as_bytes), "{pattern:?}");
        }
    }

    #[test]
    fn a_pattern_names_no_keys_of_databases_to_a_client_of_the_cluster() {
        let of_cluster = Namespace::Cluster(ClusterDatabase::of_number(5).unwrap()).stored(b"{a}*");
        let database = Database::of_number(7).unwrap();
        let of_database = [&database.prefix()[..], b"*"].concat();
        let tagged = format!("{{{}}}list", vocab::slot_tag(database.slot()));
        for (pattern, key) in [(&of_cluster, "{a}list"), (&of_database, &tagged[..])] {
            assert!(slot_of_pattern(pattern) == Some(slot_of(key.as_bytes())), "the slot is the same");
            assert_eq!(SortPattern::of(pattern, key.as_bytes(), Rules::Fourth), None);
        }
    }

    #[test]
    fn a_client_of_the_cluster_may_use_patterns_of_the_slot_of_its_key() {
        let cluster = Namespace::Cluster(ClusterDatabase::of_number(5).unwrap());
        for (prefixed, key) in [(false, b"{a}list".to_vec()), (true, cluster.stored(b"{a}list"))] {
            let mut space = TestSpace::new();
            let stored = |name: &[u8]| if prefixed { cluster.stored(name) } else { name.to_vec() };
            answer(&mut space, &[b"SET", &stored(b"w{a}_7"), b"string"]);
            for (pattern, expected) in [
                ("#", Some(Some("7"))),
                ("w{a}_*", Some(Some("string"))),
                ("{a}_*->f", Some(None)),
                ("{a}", Some(None)),
                ("w_*", None),
                ("*{a}", None),
                ("{*}w{a}", None),
                ("?{a}_*", None),
                ("{b}_*", None),
                ("none", None),
            ] {
                let of = |rules| SortPattern::of(pattern.as_bytes(), &key, rules);
                assert_eq!(of(Rules::Later), None, "{pattern}");
                let value = of(Rules::Fourth).map(|found| found.value(&mut space, b"7").unwrap());
                let expected = expected.map(|text: Option<&str>| text.map(|text| text.as_bytes().to_vec()));
                assert_eq!(value, expected, "{pattern}");
            }
        }
    }
}

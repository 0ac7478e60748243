//! What BY and GET of SORT look up for an element: the value of another key, whose name the element is part of.
//!
//! Only a client of a database may ask for it: all keys of its database are in one shard.

use super::call::Error;
use super::hash::Stored;
use crate::{Kind, ReadSpace, Type};
use vocab::limits::KEY_BYTES_MAX;
use vocab::{Database, client_key};

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
    /// Reads a pattern of a request whose key is `stored`; `None` if that is not a key of a database.
    pub(super) fn of(pattern: &[u8], stored: &[u8]) -> Option<Self> {
        Database::of_key(stored)?;
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
            let pattern = SortPattern::of(pattern.as_bytes(), &stored("list")).unwrap();
            let value = pattern.value(&mut space, b"7").unwrap();
            assert_eq!(value.as_deref(), expected.map(str::as_bytes), "{pattern:?}");
        }
        assert_eq!(SortPattern::of(b"w_*", b"list"), None, "no database's key");
    }
}

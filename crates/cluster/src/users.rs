//! The users of a store, as its map keeps them: a name and a text of rules each. What the rules mean is not known here.

use crate::bytes::Result;
use std::collections::BTreeMap;
use std::collections::btree_map::Iter;
use vocab::limits::{MAP_USERS_BYTES_MAX, MAP_USERS_MAX, USER_NAME_BYTES_MAX, USER_RULES_BYTES_MAX};
use vocab::{Reader, put_bytes, put_varint};

/// The rules of a user that come, change or go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserChange {
    /// The user's name.
    pub name: String,
    /// The rules that the map holds of it; none if it holds no such user.
    pub was: Option<Vec<u8>>,
    /// Those that it is to hold; none: the user goes.
    pub now: Option<Vec<u8>>,
}

/// The rules of each user, by name.
///
/// Invariant: `bytes` is what names and rules take.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserRules {
    rules: BTreeMap<String, Vec<u8>>,
    bytes: usize,
}

/// Shows no rules: they hold hashes of passwords.
impl std::fmt::Debug for UserRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.rules.keys()).finish()
    }
}

impl UserRules {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Names and rules of all users.
    pub fn iter(&self) -> Iter<'_, String, Vec<u8>> {
        self.rules.iter()
    }

    /// The rules of a user.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.rules.get(name).map(Vec::as_slice)
    }

    /// A user has these rules from now on, or is gone.
    pub(crate) fn set(&mut self, name: &str, rules: Option<&[u8]>) {
        let before = match rules {
            Some(rules) => self.rules.insert(name.to_owned(), rules.to_vec()),
            None => self.rules.remove(name),
        };
        self.bytes -= before.map_or(0, |before| name.len() + before.len());
        self.bytes += rules.map_or(0, |rules| name.len() + rules.len());
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.rules.len() as u64);
        for (name, rules) in &self.rules {
            put_bytes(bytes, name.as_bytes());
            put_bytes(bytes, rules);
        }
    }
}

/// Reads what `UserRules::encode` wrote: at least one user.
pub(crate) fn read_users(reader: &mut Reader<'_>) -> Result<UserRules> {
    let count = reader.count_at_most(MAP_USERS_MAX, 2)?;
    if count == 0 {
        return Err("a map of this format has users");
    }
    let mut users = UserRules::default();
    for _ in 0..count {
        let name = reader.text(USER_NAME_BYTES_MAX)?.to_owned();
        if users.rules.last_key_value().is_some_and(|(last, _)| *last >= name) {
            return Err("its users are out of order");
        }
        let rules = reader.bytes()?;
        users.set(&name, Some(rules));
    }
    Ok(users)
}

/// What is wrong with the users of a map, if anything is.
pub(crate) fn users_fault(users: &UserRules) -> Option<String> {
    if users.rules.len() > MAP_USERS_MAX {
        return Some(format!("a store has at most {MAP_USERS_MAX} users"));
    }
    if users.bytes > MAP_USERS_BYTES_MAX {
        return Some(format!("the rules of all users have at most {MAP_USERS_BYTES_MAX} bytes"));
    }
    users.rules.iter().find_map(|(name, rules)| user_fault(name, rules))
}

fn user_fault(name: &str, rules: &[u8]) -> Option<String> {
    let is_odd = name.chars().any(|c| c.is_whitespace() || c == '\0');
    if name.is_empty() || name.len() > USER_NAME_BYTES_MAX || is_odd {
        return Some(format!("a user's name has 1 to {USER_NAME_BYTES_MAX} bytes, and no spaces or null characters"));
    }
    let too_long = || format!("the rules of a user have at most {USER_RULES_BYTES_MAX} bytes");
    (rules.len() > USER_RULES_BYTES_MAX).then(too_long)
}

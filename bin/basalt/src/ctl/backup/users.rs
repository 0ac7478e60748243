//! The users of a store, in a backup: as they are soon after its moment.

use super::programs::{bytes_of, digits_of};
use crate::moment::said;
use client::{Client, Value};
use node::acl::User;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The user of connections that have not logged in. It comes last: the one who restores may be it.
const DEFAULT_USER: &str = "default";

/// Users that a store keeps, by name, each with its rules, as digits: patterns need be no text, and passwords are hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Users(BTreeMap<String, String>);

impl Users {
    /// Those of a store. None: it is of a release without them, or who asks may not know them.
    pub(crate) fn of_store(client: &mut Client) -> Result<Option<Self>, String> {
        let answer = match said(client, &[b"KV.BACKUP", b"USERS"]) {
            Ok(answer) => answer,
            Err(text) if text.contains("unknown subcommand") || text.contains("NOPERM") => return Ok(None),
            Err(text) => return Err(text),
        };
        Self::of_answer(&answer).map(Some).ok_or_else(|| "the store's users cannot be read".to_owned())
    }

    fn of_answer(answer: &Value) -> Option<Self> {
        let Value::Array(words) = answer else { return None };
        let (pairs, odd) = words.as_chunks::<2>();
        let user = |[name, rules]: &[Value; 2]| {
            Some((String::from_utf8(name.as_bytes()?.to_vec()).ok()?, digits_of(rules.as_bytes()?)))
        };
        let users = pairs.iter().map(user).collect::<Option<_>>()?;
        odd.is_empty().then_some(Self(users))
    }

    /// Whether each has rules that can be read.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_sound = |(name, rules): (&String, &String)| {
            !name.is_empty() && bytes_of(rules).is_some_and(|rules| User::of_rules(name, &rules).is_ok())
        };
        match self.0.iter().find(|user| !is_sound(*user)) {
            Some((name, _)) => Err(format!("the rules of user {} cannot be read", name.escape_debug())),
            None => Ok(()),
        }
    }

    /// Has a store keep them, and says how many. Those of a store that keeps users already stay as they are.
    pub(crate) fn restore(&self, client: &mut Client) -> Result<usize, String> {
        if self.0.is_empty() {
            return Ok(0);
        }
        let own = said(client, &[b"KV.BACKUP", b"USERS"]).map_err(refused)?;
        if Self::of_answer(&own).is_none_or(|own| !own.0.is_empty()) {
            bench::note!("basalt ctl: the store keeps users of its own: those of the backup are left out");
            return Ok(0);
        }
        for (name, rules) in self.in_order() {
            let rules = bytes_of(rules).ok_or_else(|| refused("the backup's users are damaged".to_owned()))?;
            let mut words: Vec<&[u8]> = vec![b"ACL", b"SETUSER", name.as_bytes(), b"reset"];
            words.extend(rules.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()));
            said(client, &words).map_err(refused)?;
        }
        Ok(self.0.len())
    }

    /// `default` last.
    fn in_order(&self) -> impl Iterator<Item = (&String, &String)> {
        let is_default = |name: &str| name == DEFAULT_USER;
        let others = self.0.iter().filter(move |(name, _)| !is_default(name));
        others.chain(self.0.iter().filter(move |(name, _)| is_default(name)))
    }
}

fn refused(why: String) -> String {
    format!("all but the users is restored: {why}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]
    use super::*;

    #[test]
    fn users_are_pairs_of_words_and_default_is_the_last() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let all = ["default", "off", "alice", "on ~* (&x +get)", "zoe", "off"].map(bulk).to_vec();
        let users = Users::of_answer(&Value::Array(all.clone())).unwrap();
        assert_eq!(users.in_order().map(|(name, _)| &**name).collect::<Vec<_>>(), ["alice", "zoe", "default"]);
        assert_eq!(serde_json::from_str::<Users>(&serde_json::to_string(&users).unwrap()).unwrap(), users);
        assert_eq!(Users::of_answer(&Value::Array(all[..3].to_vec())), None);
        assert_eq!(Users::of_answer(&Value::Null), None);
    }
}

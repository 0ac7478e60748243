//! The plain model: the keys of a group, and what they hold.

use super::stream::Stream;
use super::text::Text;
use resp::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// The text of the error of a command that is for another type.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// The text of the error of a command that wants a key.
pub const NO_SUCH_KEY: &str = "ERR no such key";

/// What a set is to the model.
pub type Set = BTreeSet<Vec<u8>>;
/// What a sorted set is to the model: scores by member.
pub type SortedSet = BTreeMap<Vec<u8>, i64>;
/// What a list is to the model.
pub type List = Vec<Vec<u8>>;

/// What one key holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Members.
    Set(Set),
    /// Elements, in order.
    List(List),
    /// Members with scores.
    SortedSet(SortedSet),
    /// Entries and groups; a stream without entries is one too.
    Stream(Stream),
    /// A string of which commands change parts.
    Text(Text),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    content: Content,
    expire_at_ms: Option<u64>,
}

/// The keys of a group and what they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Keyspace(BTreeMap<Vec<u8>, Rc<Held>>);

/// The reply of a command, or the text of its error.
pub type Replied = Result<Value, &'static str>;

impl Keyspace {
    /// Removes what has expired by a clock.
    #[must_use]
    pub fn at(&self, now_ms: u64) -> Self {
        let is_there = |held: &Rc<Held>| held.expire_at_ms.is_none_or(|at_ms| at_ms > now_ms);
        Self(self.0.iter().filter(|(_, held)| is_there(held)).map(|(key, held)| (key.clone(), held.clone())).collect())
    }

    /// Adds keys of `before` that had expired there: they are still stored if nothing was written to them.
    #[must_use]
    pub fn over(mut self, before: &Self, now_ms: u64) -> Self {
        let expired = before.0.iter().filter(|(_, held)| held.expire_at_ms.is_some_and(|at_ms| at_ms <= now_ms));
        for (key, held) in expired {
            self.0.entry(key.clone()).or_insert_with(|| held.clone());
        }
        self
    }

    /// When keys expire.
    pub fn expiries(&self) -> impl Iterator<Item = u64> {
        self.0.values().filter_map(|held| held.expire_at_ms)
    }

    /// When a key expires. The outer option is none if the key is absent.
    #[must_use]
    pub fn expiry(&self, key: &[u8]) -> Option<Option<u64>> {
        self.0.get(key).map(|held| held.expire_at_ms)
    }

    /// Sets when a key expires; false if it is absent.
    pub fn expire(&mut self, key: &[u8], expire_at_ms: Option<u64>) -> bool {
        let held = self.0.get_mut(key).map(Rc::make_mut);
        held.map(|held| held.expire_at_ms = expire_at_ms).is_some()
    }

    /// Makes one key hold what another does, with its expiry; false if that is absent.
    pub fn copy(&mut self, from: &[u8], to: &[u8]) -> bool {
        let held = self.0.get(from).cloned();
        held.map(|held| self.0.insert(to.to_vec(), held)).is_some()
    }

    /// The type of a key, as TYPE names it.
    #[must_use]
    pub fn type_name(&self, key: &[u8]) -> &'static str {
        self.0.get(key).map_or("none", |held| held.content.name())
    }

    /// What a key holds; an absent one holds what is empty of the type that is asked for.
    pub fn content<C: Default>(&self, key: &[u8], of: impl Fn(&Content) -> Option<C>) -> Result<C, &'static str> {
        self.0.get(key).map_or(Ok(C::default()), |held| of(&held.content).ok_or(WRONG_TYPE))
    }

    /// Whether a key holds anything.
    pub fn has(&self, key: &[u8]) -> bool {
        self.0.contains_key(key)
    }

    /// Writes what a key holds; its expiry stays, and a key that holds nothing is gone.
    pub fn keep(&mut self, key: &[u8], content: Content) {
        let expire_at_ms = self.0.get(key).and_then(|held| held.expire_at_ms);
        if content.is_empty() {
            self.0.remove(key);
        } else {
            self.0.insert(key.to_vec(), Rc::new(Held { content, expire_at_ms }));
        }
    }

    /// Removes a key; false if it was absent.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.0.remove(key).is_some()
    }
}

impl fmt::Display for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let held = |(key, held): (&Vec<u8>, &Rc<Held>)| {
            let expiry = held.expire_at_ms.map_or(String::new(), |at_ms| format!(" until {at_ms}"));
            let elements: Vec<String> = match &held.content {
                Content::Set(set) => set.iter().map(text).collect(),
                Content::List(list) => list.iter().map(text).collect(),
                Content::SortedSet(set) => {
                    set.iter().map(|(member, score)| format!("{score} {}", text(member))).collect()
                }
                Content::Stream(stream) => vec![stream.to_string()],
                Content::Text(text) => vec![format!("{text:?}")],
            };
            format!("{} {}{expiry} ({})", held.content.name(), text(key), elements.join(" "))
        };
        f.write_str(&self.0.iter().map(held).collect::<Vec<_>>().join(", "))
    }
}

impl Content {
    /// As TYPE names it.
    fn name(&self) -> &'static str {
        match self {
            Self::Set(_) => "set",
            Self::List(_) => "list",
            Self::SortedSet(_) => "zset",
            Self::Stream(_) => "stream",
            Self::Text(_) => "string",
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Set(set) => set.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::SortedSet(set) => set.is_empty(),
            Self::Stream(_) => false,
            Self::Text(text) => text.length() == 0,
        }
    }
}
